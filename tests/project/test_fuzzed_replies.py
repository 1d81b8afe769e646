"""Thousands of spoilt replies through every reader of replies: no exception, a permutation or a counted rejection."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from dataset_builders import json_reply, sources
from dataset_builders.counters import Counters
from dataset_builders.generate import Reply, Request
from dataset_builders.oblique import attributes, documents, lenses
from dataset_builders.oblique.asking import Written
from dataset_builders.stance import inversions
from hub_models.retrieval.listwise import Listwise
from hub_models.retrieval.replies import read_picks, read_ranking
from hub_models.retrieval.rerank import Reranked
from hub_models.retrieval.rewrite import Rewriter
from hub_models.retrieval.tourrank import TourRank
from tests.fuzzed_replies import replies

SAMPLE = sources.load("sample").restrict({"train"})
DOCUMENTS = documents.load("sample")
SHOWN = 7
CANDIDATES = [f"candidate {i}" for i in range(SHOWN)]
BLOCK = 50
"""Replies of one run of a builder: the first of its requests gets a good answer, or there would be nothing to keep."""

Counts = dict[str, Counter[str]]


def good_reply(rng: random.Random) -> str:
    """What some request would be answered with, if all went well."""
    order = rng.sample(range(1, SHOWN + 1), SHOWN)
    inversion, document = rng.choice(SAMPLE.inversions), rng.choice(DOCUMENTS)
    return rng.choice(
        [
            " > ".join(f"[{n}]" for n in order),
            ", ".join(f"Document {n}" for n in order[:3]),
            json.dumps({"support_flipped": [inversion.inverted] * 2, "attack_flipped": [inversion.inverted] * 2}),
            json.dumps({"query": document.query, "lens": "x"}, ensure_ascii=False),
            json.dumps({"description": document.description}, indent=1),
            "what somebody would type who looks for it",
        ]
    )


class Scripted:
    """In place of a `LanguageModel`: gives these replies, round and round, and counts them."""

    model = "scripted"

    def __init__(self, script: Sequence[Reply], first: dict[str, str] | None = None) -> None:
        self.script = script
        self.asked = 0
        self.counters = Counters()
        self._first = first or {}

    def ask(self, request: Request) -> Reply:
        self.asked += 1
        return self.script[(self.asked - 1) % len(self.script)]

    def ask_all(self, requests: Sequence[Request], *, description: str) -> Iterator[tuple[int, Reply]]:
        for i, request in enumerate(requests):
            task: dict[str, Any] = json.loads(request.messages[-1]["content"])
            good = self._first.get(task.get("claim", ""))
            reply = self.ask(request)
            yield i, reply if good is None else Reply(good, 1, 1, "stop", False, 0.0)


def rankings(reply: Reply) -> Iterator[tuple[str, str]]:
    """The reply through all that reads rankings, with the outcome of each."""
    cut = reply.finish_reason == "length"
    ranking = read_ranking(reply.text, SHOWN, truncated=cut)
    assert sorted(ranking.places) == list(range(SHOWN))
    yield "read_ranking", ranking.outcome
    picks = read_picks(reply.text, SHOWN, 3, truncated=cut)
    assert len(picks.places) <= 3 and len(set(picks.places)) == len(picks.places)
    assert set(picks.places) <= set(range(SHOWN)) and (picks.outcome == "fallback") == (not picks.places)
    yield "read_picks", picks.outcome
    policies = {
        "listwise": (Listwise(lambda _: reply, "math", SHOWN), 1),
        "sliding": (Listwise(lambda _: reply, "math", 4, sliding=True), 3),
        "tourrank": (TourRank(lambda _: reply, 1), None),
    }
    for name, (policy, calls) in policies.items():
        found: Reranked = policy("query", CANDIDATES)
        cost = found.cost
        assert sorted(found.order) == list(range(SHOWN))
        assert cost.calls == cost.parsed + cost.repaired + cost.fallback and calls in (None, cost.calls)
        yield name, "fallback" if cost.fallback else "repaired" if cost.repaired else "parsed"
    rewritten = Rewriter(lambda _: reply, "instruction")("the query")
    assert any(c.isalpha() for c in rewritten.query) and "\x00" not in rewritten.query
    assert rewritten.cost.fallback == (rewritten.query == "the query") or reply.text.strip() == "the query"
    yield "rewrite", next(o for o in ("parsed", "repaired", "fallback") if getattr(rewritten.cost, o))


def texts(block: Sequence[Reply]) -> Iterator[tuple[str, str]]:
    """The replies through all that reads JSON, with the outcome of each text that was wanted."""
    for reply in block:
        parsed = json_reply.parse(reply, "query")
        assert isinstance(parsed, dict) or parsed.startswith("the answer was")
        yield "json_reply", "object" if isinstance(parsed, dict) else parsed.split(":")[0].split(" (")[0]
    some = DOCUMENTS[: len(block)]
    stages: dict[str, Written] = {
        "attributes": attributes.describe(some, Scripted(block)),  # type: ignore[arg-type]
        "lenses": lenses.write_queries(some, [d.description or "" for d in some], Scripted(block)),  # type: ignore[arg-type]
    }
    for name, written in stages.items():
        assert len(written.texts) + written.lost == len(some) and not written.unanswered
        assert all(text.strip() for text in written.texts.values())
        yield from ((name, "accepted") for _ in written.texts)
        yield from ((name, f"dropped for {check}") for check, n in written.dropped.items() for _ in range(n))
    yield from flips(block)


def flips(block: Sequence[Reply]) -> Iterator[tuple[str, str]]:
    """The replies as inversions of as many claims, after one claim that is answered well."""
    explicit = [i for i in SAMPLE.inversions if i.style == "explicit"]
    claims = list(dict.fromkeys(i.claim_id for i in explicit))[: len(block) + 1]
    arguments = {i.argument_id for i in explicit if i.claim_id in claims}
    data = SAMPLE.restrict({"train"})
    data.claims[:] = [c for c in data.claims if c.claim_id in claims]
    data.relations[:] = [r for r in data.relations if r.claim_id in claims and r.argument_id in arguments]
    data.arguments[:] = [a for a in data.arguments if a.argument_id in arguments]
    own = [i for i in explicit if i.claim_id == claims[0]]
    good = {
        f"{stance}_flipped": [i.inverted for i in own if i.original_stance == stance]
        for stance in ("support", "attack")
    }
    model = Scripted(block, {own[0].claim: json.dumps(good)})
    inverted, report = inversions.generate(data, model)  # type: ignore[arg-type]
    assert report.wanted == len(data.relations) == report.accepted + report.dropped["total"]
    assert len(inverted.inversions) == report.accepted >= len(own) and not report.unanswered
    yield from (("inversions", "accepted") for _ in range(report.accepted - len(own)))
    yield from (
        ("inversions", f"dropped for {check}")
        for check, n in report.dropped.items()
        if check != "total"
        for _ in range(n)
    )


def fuzz(n: int, seed: int) -> Counts:
    """``n`` replies, each through every reader; outcomes by reader."""
    counts: Counts = {}
    block: list[Reply] = []
    for reply in replies(good_reply, n, seed):
        block.append(reply)
        for reader, outcome in rankings(reply):
            counts.setdefault(reader, Counter())[outcome] += 1
        if len(block) == BLOCK:
            for reader, outcome in texts(block):
                counts.setdefault(reader, Counter())[outcome] += 1
            block = []
    return counts


READERS = {
    *("read_ranking", "read_picks", "listwise", "sliding", "tourrank", "rewrite"),
    *("json_reply", "attributes", "lenses", "inversions"),
}


def test_2_000_spoilt_replies() -> None:
    counts = fuzz(2_000, seed=1)
    assert set(counts) == READERS
    for reader in ("read_ranking", "read_picks", "rewrite", "json_reply"):
        assert counts[reader].total() == 2_000
    for reader in READERS:
        assert len(counts[reader]) > 1, f"{reader}: the replies are all alike to it: {counts[reader]}"


@pytest.mark.slow
def test_20_000_spoilt_replies(capsys: pytest.CaptureFixture[str]) -> None:
    counts = fuzz(20_000, seed=2)
    assert set(counts) == READERS and counts["json_reply"].total() == 20_000
    with capsys.disabled():
        for reader, outcomes in counts.items():
            said = ", ".join(f"{outcome} {number:,}" for outcome, number in outcomes.most_common())
            sys.stdout.write(f"\n{reader}: {said}")
        sys.stdout.write("\n")
