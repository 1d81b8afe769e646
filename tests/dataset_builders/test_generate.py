from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataset_builders import chat, endpoint_client, generate, reply_cache
from dataset_builders.chat import Completion
from dataset_builders.generate import Counters, GenerationError, LanguageModel, Reply, Request
from dataset_builders.pace import Pace
from dataset_builders.reply_cache import ReplyCache
from tests.endpoint import Endpoint, Fault, endpoint, refusing_url, too_many, truncated

HERE = Path(__file__).parent
CASES = Path(__file__).parent.parent / "cases"
SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "default": None}}, "required": ["a"]}


def ask(text: str, **more: Any) -> Request:
    return Request(({"role": "user", "content": text},), **more)


def echo(body: dict[str, Any]) -> str:
    return f"re: {body['messages'][-1]['content']}"


def one_after_another(*answers: str | Fault) -> Callable[[dict[str, Any]], str | Fault]:
    left = iter(answers)
    return lambda body: next(left)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "_backoff", lambda state: 0.0)


def model_at(server: Endpoint, **more: Any) -> LanguageModel:
    return LanguageModel("tiny", base_url=server.base_url, **more)


def test_a_request_arrives_whole() -> None:
    messages = ({"role": "system", "content": "be brief"}, {"role": "user", "content": "a\u2028b 👩‍👩‍👧 \x07"})
    with endpoint(lambda body: '{"a": "b"}') as server:
        reply = model_at(server, temperature=0.5).ask(Request(messages, schema=SCHEMA, seed=7, max_tokens=9))
        model_at(server).ask(ask("plain"))
    assert reply.text == '{"a": "b"}' and reply.finish_reason == "stop" and not reply.cached and reply.seconds > 0
    sent, plain = server.bodies
    assert sent == {
        "model": "tiny",
        "messages": list(messages),
        "temperature": 0.5,
        "max_tokens": 9,
        "seed": 7,
        "stream": False,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
        },
    }
    assert plain["temperature"] == 0.0 and plain["max_tokens"] == 1024
    assert not {"seed", "response_format"} & plain.keys()


def test_counters_and_cost() -> None:
    with endpoint(lambda body: "three words here") as server:
        model = model_at(server, price=(2.0, 10.0))
        for text in ("one two", "one two", "one"):
            model.ask(ask(text))
    counters = model.counters
    # Prompts of 2 and 1 words, two replies of 3: (3 · 2 + 6 · 10) / 10^6 dollars. The repeated one is free.
    assert counters.cost == pytest.approx(66e-6)
    assert counters.seconds > 0
    assert replace(counters, seconds=0, cost=None) == Counters(2, 1, 0, 0, 3, 6, 0, None, 0, 0, 0.0)
    assert counters.as_dict()["prompt_tokens"] == 3
    assert json.loads(json.dumps(counters.as_dict()))["cost"] == counters.cost


def test_what_a_set_of_answers_cost_stands_in_every_later_run(tmp_path: Path) -> None:
    """Two runs ask for three answers of 3 + 3 words; the second and the third find what it paid for."""
    with endpoint(lambda body: "three words here") as server:
        found = []
        for texts in (["a b c", "d e f"], ["a b c", "d e f", "d e f", "g h i", "g h i"], ["a b c", "d e f", "g h i"]):
            model = model_at(server, cache=tmp_path / "c", price=(1e6, 2e6))
            for text in texts:
                model.ask(ask(text))
            found.append(model.counters)
    assert [c.calls for c in found] == [2, 1, 0] and [c.cached for c in found] == [0, 4, 3]
    assert [(c.prompt_tokens, c.cached_prompt_tokens) for c in found] == [(6, 0), (3, 6), (0, 9)]
    assert [(c.completion_tokens, c.cached_completion_tokens) for c in found] == [(6, 0), (3, 6), (0, 9)]
    # A dollar a word asked and two a word answered: 9 for each answer.
    assert [(c.cost, c.cached_cost) for c in found] == [(18, 0), (9, 18), (0, 27)]
    free = model_at(server, cache=tmp_path / "c")
    free.ask(ask("a b c"))
    assert (free.counters.cached_prompt_tokens, free.counters.cached_cost) == (3, None)


def completion(**changes: Any) -> Fault:
    """A whole completion, but for some keys of its choice or its usage."""
    choice: dict[str, Any] = {"index": 0, "message": {"role": "assistant", "content": "good"}, "finish_reason": "stop"}
    usage: Any = {"prompt_tokens": 5, "completion_tokens": 7}
    if "usage" in changes:
        usage = changes.pop("usage")
    return Fault(raw=json.dumps({"choices": [choice | changes], "usage": usage}))


@pytest.mark.parametrize("odd", [2**63, 10**30, 2**53, -1, 1.5, True, "7", None, float("inf"), [1], {}])
def test_a_count_that_is_none_counts_nothing_and_loses_no_answer(
    odd: object, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "dataset_builders.chat")
    with endpoint(lambda body: completion(usage={"prompt_tokens": odd, "completion_tokens": 2**53 - 1})) as server:
        for cached in (False, True):
            reply = model_at(server, cache=tmp_path / "c").ask(ask("q"))
            assert (reply.text, reply.prompt_tokens, reply.completion_tokens) == ("good", 0, 2**53 - 1)
            assert reply.cached == cached
    assert ("prompt_tokens: got" in caplog.text) == (odd is not None)


@pytest.mark.parametrize("usage", [None, "many", 3, []])
def test_a_usage_that_is_none_loses_no_answer(usage: object) -> None:
    with endpoint(lambda body: completion(usage=usage)) as server:
        assert model_at(server).ask(ask("q")).text == "good"


CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    "empty",
    [
        completion(message={"role": "assistant", "content": None}),
        completion(message={"role": "assistant"}),
        completion(message={"role": "assistant", "content": ""}),
        completion(message={"role": "assistant", "content": " \n"}),
        completion(message={"role": "assistant", "content": None, "tool_calls": [CALL]}, finish_reason="tool_calls"),
        completion(message={"role": "assistant", "content": None}, finish_reason="content_filter"),
    ],
)
def test_an_empty_answer_is_an_error_and_a_rerun_asks_once_more(empty: Fault, tmp_path: Path) -> None:
    with endpoint(one_after_another(empty, empty, "good")) as server:
        for asked in (1, 2):
            model = model_at(server, cache=tmp_path / "c", price=(1.0, 0.0))
            with pytest.raises(GenerationError, match=r"the answer holds no text \(it ends for '.*run this again"):
                model.ask(ask("q"))
            assert len(server.bodies) == asked
            # It was paid for all the same.
            c = model.counters
            assert (c.calls, c.failed, c.prompt_tokens, c.cost) == (1, 1, 5, pytest.approx(5e-6))
        for _ in range(2):
            assert model_at(server, cache=tmp_path / "c").ask(ask("q")).text == "good"
    assert len(server.bodies) == 3


@pytest.mark.parametrize(
    "damage",
    [
        "text = x'ff00'",
        "text = ''",
        "prompt_tokens = 'abc'",
        "completion_tokens = -1",
        "seconds = 'long'",
        "finish_reason = x''",
    ],
)
def test_a_cached_row_that_holds_no_reply_is_asked_for_again(damage: str, tmp_path: Path) -> None:
    with endpoint(echo) as server:
        for text in ("q", "other"):
            model_at(server, cache=tmp_path / "c").ask(ask(text))
        with sqlite3.connect(tmp_path / "c") as connection:
            connection.execute(f"UPDATE replies SET {damage} WHERE text = 're: q'")
        connection.close()
        for cached in (False, True):
            reply = model_at(server, cache=tmp_path / "c").ask(ask("q"))
            assert (reply.text, reply.cached) == ("re: q", cached)
        assert model_at(server, cache=tmp_path / "c").ask(ask("other")).cached
    assert server.questions == ["q", "other", "q"]


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    "drip", [HEAD + b"Content-Length: 100000\r\n\r\n", HEAD + b"\r\n", HEAD + b"X: ", b"HTTP/1.1"]
)
def test_an_answer_that_trickles_in_without_an_end_is_given_up(drip: bytes) -> None:
    with endpoint(one_after_another(Fault(drip=drip), Fault(drip=drip), "good")) as server:
        model = model_at(server, timeout=0.1, attempts=2)
        with pytest.raises(GenerationError, match=r"no whole answer within 0.5 s; .* raise the timeout.*2 of 2 tries"):
            model.ask(ask("q"))
        assert model_at(server).ask(ask("q")).text == "good"


def test_an_answer_of_any_size_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_client, "MAX_BYTES", 10_000)
    with endpoint(one_after_another("x" * 9_000, "x" * 11_000, Fault(status=500, text="x" * 11_000))) as server:
        model = model_at(server)
        assert len(model.ask(ask("1")).text) == 9_000
        for text in "23":
            with pytest.raises(GenerationError, match=r"the answer is larger than 10,000 bytes; does the address"):
                model.ask(ask(text))
    assert len(server.bodies) == 3


def test_a_redirect_says_where_to_and_ends_the_run() -> None:
    away = Fault(status=307, headers={"Location": "https://example.org/v1/chat\t?key=secret"})
    with endpoint(lambda body: away) as server:
        model = model_at(server, concurrency=1)
        answers = dict(model.ask_all([ask(str(i)) for i in range(9)], description="asking"))
    assert len(server.bodies) == 1
    for answer in answers.values():
        assert "it redirects to https://example.org/v1/chat: give the address" in str(answer)
        assert "secret" not in str(answer)


@pytest.mark.parametrize("text", ['{"a": "b', ""])  # all room may have gone into thoughts
def test_a_truncated_reply_says_so_and_is_kept(text: str, tmp_path: Path) -> None:
    with endpoint(lambda body: truncated(text)) as server:
        first = model_at(server, cache=tmp_path / "c").ask(ask("q"))
        again = model_at(server, cache=tmp_path / "c").ask(ask("q"))
    assert first.finish_reason == again.finish_reason == "length" and first.text == again.text == text
    assert len(server.bodies) == 1 and again.cached


@pytest.mark.parametrize(
    "fault",
    [
        too_many(),
        too_many("Wed, 21 Oct 2015 07:28:00 GMT"),
        Fault(status=500),
        Fault(status=503),
        Fault(status=408),
        Fault(status=409),
        Fault(status=425),
        Fault(cut=True),
        Fault(raw="<html>a gateway's page</html>"),
        Fault(raw='{"choices": null}'),
        Fault(raw='{"choices": [{"message": "text"}]}'),
        Fault(raw="[1]"),
    ],
)
def test_what_passes_is_asked_again(fault: Fault) -> None:
    with endpoint(one_after_another(fault, fault, "good")) as server:
        model = model_at(server)
        assert model.ask(ask("q")).text == "good"
    assert len(server.bodies) == 3
    assert (model.counters.calls, model.counters.retries, model.counters.failed) == (1, 2, 0)


@pytest.mark.parametrize("status", [302, 400, 401, 402, 403, 404, 413, 418, 422])
def test_a_refusal_is_not_asked_again(status: int) -> None:
    with endpoint(lambda body: Fault(status=status, text="no, for a reason")) as server:
        model = model_at(server)
        with pytest.raises(
            GenerationError, match=rf"{server.base_url}, model 'tiny': status {status}: .*for a reason"
        ) as e:
            model.ask(ask("q"))
    assert e.value.status == status and len(server.bodies) == 1
    assert (model.counters.calls, model.counters.retries, model.counters.failed) == (0, 0, 1)


def test_attempts_end() -> None:
    with endpoint(lambda body: Fault(status=503, text="loading")) as server:
        model = model_at(server, attempts=3)
        with pytest.raises(GenerationError, match=r"status 503.*loading.*gave up after 3 of 3 tries"):
            model.ask(ask("q"))
    assert len(server.bodies) == 3
    assert (model.counters.retries, model.counters.failed) == (2, 1)


def test_a_late_answer_is_given_up() -> None:
    with (
        endpoint(lambda body: Fault(late=True)) as server,
        pytest.raises(GenerationError, match=r"no answer in time.*raise it or lower the concurrency.*2 of 2 tries"),
    ):
        model_at(server, timeout=0.1, attempts=2).ask(ask("q"))
    assert len(server.bodies) == 2


def test_an_endpoint_that_refuses_is_named_at_once_and_for_all() -> None:
    url = refusing_url()
    model = LanguageModel("tiny", base_url=url)
    with pytest.raises(GenerationError, match=f"{url}.*cannot connect.*start the server, or correct the address"):
        model.ask(ask("q"))
    answers = dict(model.ask_all([ask(str(i)) for i in range(50)], description="asking"))
    assert all(isinstance(answer, GenerationError) for answer in answers.values()) and len(answers) == 50
    assert model.counters.retries == 0


def test_an_endpoint_that_went_away_is_waited_for() -> None:
    with endpoint(echo) as server:
        model = model_at(server, attempts=4)
        model.ask(ask("q"))
    with pytest.raises(GenerationError, match=r"cannot connect.*gave up after 4 of 4 tries"):
        model.ask(ask("other"))


def test_a_wrong_key_ends_the_whole_run() -> None:
    with endpoint(lambda body: Fault(status=401)) as server:
        answers = dict(model_at(server, concurrency=1).ask_all([ask(str(i)) for i in range(50)], description="asking"))
    assert len(server.bodies) == 1
    assert all("set HF_TOKEN" in str(answer) for answer in answers.values())


def test_retry_after_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(generate, "_sleep_until", lambda stop: slept.append)
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=500), usegmt=True)
    with endpoint(one_after_another(too_many("7"), too_many(later), too_many("4000"))) as server:
        model = model_at(server)
        with pytest.raises(
            GenerationError, match=r"asks to wait 4000 s; lower requests_per_minute.*after 3 of 6 tries"
        ):
            model.ask(ask("q"))
    between = [s for s in slept if s > 0]
    assert 7 <= between[0] <= 7.7
    assert any(490 <= s <= 550 for s in between) and not any(s > 550 for s in between)


def test_pace_spaces_requests_evenly_and_holds_all() -> None:
    now, slept = [100.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    pace = Pace(30, clock=lambda: now[0])
    for _ in range(3):
        pace.wait(sleep)
    assert slept == [2.0, 2.0]
    pace.hold(10)
    pace.wait(sleep)
    assert slept == [2.0, 2.0, 10.0]
    now[0] += 100
    pace.wait(sleep)
    assert slept == [2.0, 2.0, 10.0]


def test_requests_per_minute_counts_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    with endpoint(one_after_another("a", Fault(status=500), "b")) as server:
        model = model_at(server, requests_per_minute=60)
        monkeypatch.setattr(generate, "_sleep_until", lambda stop: slept.append)
        model._pace = Pace(60, clock=lambda: 0.0)
        model.ask(ask("1"))
        model.ask(ask("2"))
    assert [s for s in slept if s] == [1.0, 2.0]


def test_at_most_concurrency_at_once() -> None:
    under_way, most, lock = 0, 0, threading.Lock()
    three = threading.Barrier(3)

    def answer(body: dict[str, Any]) -> str:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        three.wait(30)  # passes only if three are here together
        with lock:
            under_way -= 1
        return echo(body)

    with endpoint(answer) as server:
        answers = dict(model_at(server, concurrency=3).ask_all([ask(str(i)) for i in range(12)], description="asking"))
    assert most == 3
    assert [answers[i].text for i in range(12)] == [f"re: {i}" for i in range(12)]  # type: ignore[union-attr]


def test_equal_requests_in_flight_are_asked_once() -> None:
    arrived, others = threading.Event(), threading.Event()

    def answer(body: dict[str, Any]) -> str:
        arrived.set()
        others.wait(30)
        return echo(body)

    with endpoint(answer) as server, ThreadPoolExecutor(9) as pool:
        model = model_at(server)
        futures = [pool.submit(model.ask, ask("same")) for _ in range(8)]
        arrived.wait(30)
        futures.append(pool.submit(model.ask, ask("same")))
        others.set()
        replies = [f.result() for f in futures]
    assert len(server.bodies) == 1 and {r.text for r in replies} == {"re: same"}
    assert sorted(r.cached for r in replies) == [False] + [True] * 8
    assert (model.counters.calls, model.counters.cached) == (1, 8)


def test_who_stops_early_cancels_the_rest() -> None:
    with endpoint(echo) as server:
        answers = model_at(server, concurrency=2).ask_all([ask(str(i)) for i in range(100)], description="asking")
        next(answers)
        answers.close()  # type: ignore[attr-defined]
        assert len(server.bodies) < 100


def test_who_stops_early_does_not_wait_for_the_next_free_moment() -> None:
    # One request an hour: without a word to the sleepers, this would take as long.
    with endpoint(echo) as server:
        model = model_at(server, concurrency=4, requests_per_minute=1 / 60)
        answers = model.ask_all([ask(str(i)) for i in range(8)], description="asking")
        next(answers)
        answers.close()  # type: ignore[attr-defined]
    assert len(server.bodies) == 1


def test_an_answer_is_stored_before_it_is_handed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("disk full")

    with endpoint(echo) as server:
        model = model_at(server, cache=tmp_path / "c")
        monkeypatch.setattr(ReplyCache, "put", full)
        with pytest.raises(OSError, match="disk full"):
            model.ask(ask("q"))
        with pytest.raises(OSError, match="disk full"):
            list(model.ask_all([ask("q")], description="asking"))


@pytest.mark.parametrize(
    "change",
    [
        {"model": "other"},
        {"temperature": 0.1},
        {"max_tokens": 5},
        {"request": ask("q", seed=1)},
        {"request": ask("q", schema=SCHEMA)},
        {"request": ask("q", max_tokens=6)},
        {"request": Request(({"role": "system", "content": "q"},))},
        {"request": ask("Q")},
    ],
)
def test_the_key_holds_all_that_the_answer_hangs_on(change: dict[str, Any], tmp_path: Path) -> None:
    options = {"cache": tmp_path / "c", "model": "tiny"}
    with endpoint(echo) as server:
        LanguageModel(base_url=server.base_url, **options).ask(ask("q"))
        request = change.pop("request", ask("q"))
        LanguageModel(base_url=server.base_url, **options | change).ask(request)
        LanguageModel(base_url=server.base_url, **options | change | {"concurrency": 1, "timeout": 9}).ask(request)
    assert len(server.bodies) == 2


def test_killed_in_the_middle_only_what_is_missing_is_asked(tmp_path: Path) -> None:
    questions = [f"question {i}" for i in range(10)]
    process: list[subprocess.Popen[str]] = []

    def answer(body: dict[str, Any]) -> str:
        if body["messages"][-1]["content"] == "question 6" and process[-1].poll() is None and len(process) == 1:
            os.kill(process[0].pid, signal.SIGKILL)
        return echo(body)

    with endpoint(answer) as server:
        first = _process(server, tmp_path / "c", 1, questions, into=process)
        first.communicate()
        assert first.returncode == -signal.SIGKILL
        before = server.questions
        assert before == questions[:7]
        second = _process(server, tmp_path / "c", 1, questions, into=process)
        out = json.loads(second.communicate()[0])
    # The seventh was killed before its answer came back; the first six were paid for and are not asked again.
    assert server.questions[7:] == questions[6:]
    assert out["replies"] == [f"re: {q}" for q in questions]
    assert (out["calls"], out["cached"]) == (4, 6)


def test_two_processes_share_a_cache_and_ask_nothing_twice(tmp_path: Path) -> None:
    questions = [f"question {i}" for i in range(6)]
    both_here = threading.Barrier(2)

    def answer(body: dict[str, Any]) -> str:
        # Each process starts at its own end, and neither goes on before the other has come.
        if body["messages"][-1]["content"] in (questions[0], questions[-1]):
            both_here.wait(60)
        return echo(body)

    with endpoint(answer) as server:
        both = [_process(server, tmp_path / "c", 1, q) for q in (questions, questions[::-1])]
        outs = [json.loads(p.communicate()[0]) for p in both]
    assert Counter(server.questions) == Counter(questions)
    assert outs[0]["replies"] == outs[1]["replies"][::-1] == [f"re: {q}" for q in questions]
    assert outs[0]["calls"] + outs[1]["calls"] == 6 and min(o["calls"] for o in outs) > 0


def _process(
    server: Endpoint, cache: Path, concurrency: int, questions: list[str], into: list[Any] | None = None
) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, str(HERE / "asking_process.py"), server.base_url, str(cache), str(concurrency), *questions],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    if into is not None:
        into.append(process)
    return process


@given(text=st.text(st.characters(codec="utf-8")).filter(str.strip), reason=st.sampled_from(["stop", "length"]))
def test_the_cache_gives_back_what_it_was_given(text: str, reason: str) -> None:
    cache = ReplyCache(None)
    cache.put("k", "{}", Completion(text, 3, 4, reason), 0.25)
    cache.put("k", "{}", Completion("another", 0, 0, "stop"), 0.5)
    assert cache.get("k") == (Completion(text, 3, 4, reason), 0.25)
    assert cache.get("other") is None
    cache.close()


def test_line_separators_survive_the_cache(tmp_path: Path) -> None:
    texts = [
        json.loads(line)["text"] for line in (CASES / "case05_separators.jsonl").read_bytes().split(b"\n") if line
    ]
    assert len(texts) == 5 and any("\u2028" in t for t in texts)
    with endpoint(lambda body: body["messages"][-1]["content"]) as server:
        for _ in range(2):
            model = model_at(server, cache=tmp_path / "c")
            assert [model.ask(ask(t)).text for t in texts] == texts
    assert model.counters.cached == 5
    rows = sqlite3.connect(tmp_path / "c").execute("SELECT text, request FROM replies ORDER BY rowid").fetchall()
    assert [text for text, _ in rows] == texts
    assert [json.loads(request)["messages"][0]["content"] for _, request in rows] == texts


def test_half_a_surrogate_pair_in_a_reply_is_replaced(tmp_path: Path) -> None:
    with endpoint(lambda body: "a\ud83d b") as server:
        assert model_at(server, cache=tmp_path / "c").ask(ask("q")).text == "a? b"


def test_a_cache_of_another_kind_is_refused_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, text, theirs = tmp_path / "ours", tmp_path / "text", tmp_path / "theirs"
    ReplyCache(ours).close()
    text.write_text("these are my notes, and they are no database\n" * 50)
    with sqlite3.connect(theirs) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    for path, match in {
        text: "text is no cache of replies .*not a database.*choose another file",
        theirs: "theirs is another program's database",
        tmp_path: "is a folder, wanted a file",
    }.items():
        before = path.read_bytes() if path.is_file() else b""
        with pytest.raises(ValueError, match=match):
            LanguageModel("tiny", base_url=refusing_url(), cache=path)
        assert not path.is_file() or path.read_bytes() == before
    monkeypatch.setattr(reply_cache, "FORMAT", 2)
    with pytest.raises(ValueError, match="ours has format 1, wanted 2; keep it for the version that wrote it"):
        ReplyCache(ours)


def test_a_cache_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    cache = ReplyCache(path)
    for i in range(100):
        cache.put(str(i), "{}", Completion("long " * 200, 0, 0, "stop"), 0)
    cache.close()
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises((ValueError, OSError), match=f"the cache {path}"):
        ReplyCache(path).get("99")


def test_a_cache_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        ReplyCache(tmp_path / "file" / "c")


def test_a_cache_whose_wal_was_left_by_a_killed_process_opens(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "c")
    cache.put("k", "{}", Completion("text", 1, 1, "stop"), 0)
    (tmp_path / "copy").mkdir()
    for file in tmp_path.glob("c*"):
        if file.is_file():
            shutil.copy(file, tmp_path / "copy" / file.name)  # as a kill would leave it
    copy = ReplyCache(tmp_path / "copy" / "c")
    assert copy.get("k") == (Completion("text", 1, 1, "stop"), 0)


def test_no_token_in_log_error_or_cache(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    hub, key = "hf_" + "T" * 34, "key-" + "K" * 30
    monkeypatch.setenv("HF_TOKEN", hub)
    monkeypatch.setenv("OPENAI_API_KEY", key)
    caplog.set_level(logging.DEBUG)
    refusals = [Fault(status=s, text=f"bad key {key} or {hub}", headers={"X-Key": key}) for s in (500, 429, 401)]
    with endpoint(one_after_another("fine", *refusals)) as server:
        model = model_at(server, cache=tmp_path / "c")
        model.ask(ask("q"))
        with pytest.raises(GenerationError, match=r"bad key \*\*\* or \*\*\*") as error:
            model.ask(ask("other"))
    assert server.headers[0]["authorization"] == f"Bearer {key}"
    assert error.value.__suppress_context__ and error.value.__cause__ is None
    seen = caplog.text + "".join(capfd.readouterr()) + str(error.value) + repr(error.value)
    stored = b"".join(f.read_bytes() for f in tmp_path.iterdir())
    for secret in (hub, key):
        assert secret not in seen.replace(f"(b'X-Key', b'{secret}')", "") and secret.encode() not in stored


def test_a_hub_token_goes_to_the_hub_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_" + "T" * 34)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with endpoint(echo) as server:
        model_at(server).ask(ask("q"))
    assert "T" * 34 not in str(server.headers)
    sent = chat.Chat("m", base_url="https://x.endpoints.huggingface.cloud", provider=None, timeout=1)
    assert sent._client.token == "hf_" + "T" * 34
    other = chat.Chat("m", base_url="https://huggingface.co.example.org", provider=None, timeout=1)
    assert other._client.token == "none"


@pytest.mark.parametrize("where", [{"base_url": "https://api.example.org/v1"}, {"provider": "novita"}, {}])
def test_offline_nobody_outside_is_asked(where: dict[str, str], tmp_path: Path) -> None:
    with endpoint(echo) as server:
        model_at(server, cache=tmp_path / "c").ask(ask("q"))
    model = LanguageModel("tiny", cache=tmp_path / "c", **where)  # type: ignore[arg-type]
    assert model.ask(ask("q")).text == "re: q"
    with pytest.raises(GenerationError, match="not asked, for HF_HUB_OFFLINE is set; unset it"):
        model.ask(ask("other"))


def test_offline_this_machine_is_asked() -> None:
    assert chat.constants.HF_HUB_OFFLINE
    with endpoint(echo) as server:
        assert model_at(server).ask(ask("q")).text == "re: q"


def test_an_endpoint_that_reads_only_the_form_of_tgi() -> None:
    def answer(body: dict[str, Any]) -> str | Fault:
        form = body.get("response_format")
        return Fault(status=422, text="missing field `value`") if form and "value" not in form else echo(body)

    with endpoint(answer) as server:
        model = model_at(server)
        assert [model.ask(ask(t, schema=SCHEMA)).text for t in ("1", "2")] == ["re: 1", "re: 2"]
    forms = [body["response_format"] for body in server.bodies]
    assert [form["type"] for form in forms] == ["json_schema", "json_object", "json_object"]
    assert forms[1]["value"] == SCHEMA


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"model": " "}, "got the model ' ', wanted its name"),
        ({"model": "http://localhost:8000"}, "an address goes into base_url"),
        ({"base_url": "localhost:8000"}, "got the address 'localhost:8000', wanted one such as http://localhost"),
        ({"base_url": "http://localhost/v1", "provider": "novita"}, "give one of them"),
        ({"model": "\ud800"}, r"got the model '\\ud800', wanted its name"),
        ({"model": "a\nb"}, r"got the model 'a\\nb', wanted its name"),
        ({"temperature": -0.1}, "temperature: got -0.1, wanted 0 or more"),
        ({"temperature": float("nan")}, "temperature: got nan"),
        ({"max_tokens": 0}, "max_tokens: got 0"),
        ({"concurrency": 0}, "concurrency: got 0, wanted at least 1"),
        ({"attempts": 0}, "attempts: got 0"),
        ({"timeout": 0}, "timeout: got 0, wanted more than 0"),
        ({"requests_per_minute": -1}, "requests_per_minute: got -1"),
        ({"price": (1.0, -1.0)}, r"price: got \(1.0, -1.0\)"),
    ],
)
def test_arguments_out_of_range(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        LanguageModel(**{"model": "m", "base_url": None} | arguments)


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1",
        "http://h:99999/v1",
        "http://h:abc/v1",
        "http://h/\x00",
        "http://\udcff/v1",
        "http://h h/v1",
        "http://h/v1\n",
    ],
)
def test_an_address_that_cannot_be_read_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match=r"got the address 'http://.*' that cannot be read, wanted one such as"):
        LanguageModel("m", base_url=url)


@pytest.mark.parametrize("url", ["http://me:secret@localhost/v1", "http://localhost/v1?key=secret"])
@pytest.mark.parametrize("spoil", [lambda url: url, lambda url: f"{url}\x00", lambda url: url.replace("://", "://[")])
def test_an_address_that_holds_a_key_is_refused_without_showing_it(url: str, spoil: Callable[[str], str]) -> None:
    with pytest.raises(ValueError, match=r"put the key into OPENAI_API_KEY|an address that cannot be read") as error:
        LanguageModel("m", base_url=spoil(url))
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("messages", "match"),
    [
        ((), "at least one message"),
        (({"role": "user"},), r"message 0: got the keys \['role'\], wanted role and content"),
        (({"role": "user", "content": "a\ud800"},), "message 0: the text holds a lone surrogate"),
        (({"role": "user", "content": " "},), "message 0: the text is empty"),
    ],
)
def test_requests_that_are_none(messages: tuple[dict[str, str], ...], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Request(messages)


def test_replies_are_what_the_interface_says() -> None:
    with endpoint(lambda body: Fault(raw=json.dumps({"choices": [{"message": {"content": "a"}}]}))) as server:
        reply = model_at(server).ask(ask("q"))
    assert reply == Reply("a", 0, 0, "stop", False, reply.seconds)
