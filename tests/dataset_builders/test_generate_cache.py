"""The client's cache: nothing is asked twice, whoever dies; a file that is none is left alone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataset_builders import reply_cache
from dataset_builders.chat import Completion
from dataset_builders.generate import LanguageModel, Request
from dataset_builders.reply_cache import ReplyCache
from tests.asking import SCHEMA, ask, echo, model_at, no_waiting  # noqa: F401  (no_waiting is a fixture)
from tests.endpoint import Endpoint, endpoint, refusing_url

HERE = Path(__file__).parent
CASES = Path(__file__).parent.parent / "cases"


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
