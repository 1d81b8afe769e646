"""The client: what is sent, counted, tried again, paced and given up."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from dataset_builders import endpoint_client, generate
from dataset_builders.generate import Counters, GenerationError, LanguageModel, Request
from dataset_builders.pace import Pace
from tests.asking import SCHEMA, ask, echo, model_at, no_waiting, one_after_another  # noqa: F401  (no_waiting is a fixture)
from tests.endpoint import Fault, endpoint, refusing_url, too_many, truncated


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
