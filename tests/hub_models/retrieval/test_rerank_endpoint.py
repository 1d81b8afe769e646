"""Rerankers over HTTP: a real endpoint that knows the answer, is busy, silent, useless, or sees its client killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dataset_builders.generate import GenerationError, LanguageModel
from hub_models.retrieval.listwise import Listwise
from hub_models.retrieval.rerank import rerank_all
from hub_models.retrieval.rewrite import Rewriter
from hub_models.retrieval.tourrank import TourRank
from tests.endpoint import Endpoint, Fault, endpoint, too_many, truncated
from tests.judges import Asked, answering, chance, noisy, useless

TEXTS = [f"text {i}" for i in range(100)]
QUERY = "which is largest?\n- of all"


def largest(asked: Asked, rng: random.Random) -> list[int]:
    return sorted(range(len(asked.documents)), key=lambda i: -int(asked.documents[i].split()[-1]))


good = answering(largest)


def test_an_oracle_over_http() -> None:
    with endpoint(good) as served:
        model = LanguageModel("tiny", base_url=served.base_url)
        found = TourRank(model.ask, 1)(QUERY, TEXTS)
        assert set(found.order[:2]) == {98, 99} and found.cost.calls == 13 == len(served.bodies)
        assert found.cost.parsed == 13 and found.cost.prompt_tokens == model.counters.prompt_tokens > 0
        assert Listwise(model.ask, "math", 100)(QUERY, TEXTS).order == list(range(99, -1, -1))
        assert served.bodies[0]["temperature"] == 0


def test_noise_is_between_an_oracle_and_chance() -> None:
    best = []
    for judge in (largest, noisy(largest), chance):
        with endpoint(answering(judge)) as served:
            found = TourRank(LanguageModel("tiny", base_url=served.base_url).ask, 3)(QUERY, TEXTS)
        best.append(sum(found.order[:10]))
    assert best[0] > best[1] > best[2]


def test_a_sweep_pays_for_the_largest_alone(tmp_path: Path) -> None:
    with endpoint(good) as served:
        model = LanguageModel("tiny", base_url=served.base_url, cache=tmp_path / "replies")
        one, three = (TourRank(model.ask, y)(QUERY, TEXTS) for y in (1, 3))
        assert (one.cost.calls, three.cost.calls, len(served.bodies)) == (13, 39, 39)
        again = TourRank(LanguageModel("tiny", base_url=served.base_url, cache=tmp_path / "replies").ask, 3)
        assert again(QUERY, TEXTS) == three and len(served.bodies) == 39


def test_a_busy_endpoint_is_asked_again() -> None:
    refused: set[str] = set()

    def busy(body: dict[str, Any]) -> str | Fault:
        key = json.dumps(body["messages"])
        if key in refused:
            return good(body)
        refused.add(key)
        return too_many()

    with endpoint(busy) as served:
        model = LanguageModel("tiny", base_url=served.base_url)
        found = TourRank(model.ask, 1)(QUERY, TEXTS)
    assert model.counters.retries == 13 and found.cost.calls == 13
    with endpoint(good) as served:
        assert found.order == TourRank(LanguageModel("tiny", base_url=served.base_url).ask, 1)(QUERY, TEXTS).order


def test_silence_ends_the_run_and_what_was_answered_is_kept(tmp_path: Path) -> None:
    def silent(body: dict[str, Any]) -> str | Fault:
        return Fault(late=True) if len(served.bodies) > 7 else good(body)

    with endpoint(silent) as served:
        model = LanguageModel("tiny", base_url=served.base_url, cache=tmp_path / "replies", timeout=0.5, attempts=1)
        with pytest.raises(GenerationError, match="no answer in time"):
            rerank_all(TourRank(model.ask, 1), [QUERY], lambda i: TEXTS)
    with endpoint(good) as served:
        model = LanguageModel("tiny", base_url=served.base_url, cache=tmp_path / "replies")
        TourRank(model.ask, 1)(QUERY, TEXTS)
        assert len(served.bodies) == 13 - 7 and model.counters.cached == 7


def test_useless_replies_fail_the_run() -> None:
    with endpoint(useless) as served:
        model = LanguageModel("tiny", base_url=served.base_url)
        with pytest.raises(RuntimeError, match="got 26 of 26 replies without a usable ranking"):
            rerank_all(TourRank(model.ask, 1), [QUERY, "another"], lambda i: TEXTS, concurrency=2)


def test_a_cut_reply_is_repaired() -> None:
    with endpoint(lambda body: truncated(good(body)[:-1])) as served:
        found = TourRank(LanguageModel("tiny", base_url=served.base_url).ask, 1)(QUERY, TEXTS)
    assert found.cost.repaired == 13 and sorted(found.order) == list(range(100))


def run(served: Endpoint, cache: Path) -> subprocess.Popen[str]:
    script = Path(__file__).with_name("reranking_process.py")
    command = [sys.executable, str(script), served.base_url, str(cache), "2", "100"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_nothing_is_asked_twice_after_kill_9_in_a_tournament(tmp_path: Path) -> None:
    killed: list[str] = []

    def killing(body: dict[str, Any]) -> str | Fault:
        if len(served.bodies) == 18 and not killed:  # in the second tournament's first stage
            killed.append(json.dumps(body["messages"]))
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            return Fault(cut=True)
        return good(body)

    with endpoint(killing) as served:
        process = run(served, tmp_path / "replies")
        process.communicate()
        assert process.returncode == -signal.SIGKILL and len(served.bodies) == 18
        process = run(served, tmp_path / "replies")
        said = json.loads(process.communicate()[0])
        asked = [json.dumps(body["messages"]) for body in served.bodies]
    assert said["calls"] == 26 and said["asked"] == 26 - 17
    assert len(set(asked)) == 26
    assert [a for a in set(asked) if asked.count(a) > 1] == killed  # the one that never was answered
    with endpoint(good) as served:
        whole = TourRank(LanguageModel("tiny", base_url=served.base_url).ask, 2)
        assert said["order"] == whole("which is largest", TEXTS).order


def test_the_rewriter() -> None:
    replies = iter(['<think>hm</think>\n"A text about the same\nproof idea"', "...", Fault(status=500)])
    with endpoint(lambda body: next(replies)) as served:
        rewrite = Rewriter(LanguageModel("tiny", base_url=served.base_url, attempts=1).ask, "Find proofs.")
        first, second = rewrite("pigeons"), rewrite("holes")
        assert first.query == "A text about the same proof idea" and first.cost.parsed == 1
        assert second.query == "holes" and second.cost.fallback == 1
        assert "Find proofs." in served.questions[0] and "pigeons" in served.questions[0]
        with pytest.raises(GenerationError, match="status 500"):
            rewrite("else")
