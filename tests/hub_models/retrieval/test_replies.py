"""Replies: whatever comes, a permutation goes out, and how it was read is counted."""

from __future__ import annotations

import json
import random
import unicodedata
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hub_models.retrieval.replies import OUTCOMES, read_picks, read_ranking

CASE = json.loads((Path(__file__).parents[2] / "cases" / "case25_rerank_replies.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASE["replies"], ids=lambda case: case["name"])
def test_case_25(case: dict[str, object]) -> None:
    found = read_ranking(str(case["reply"]), len(CASE["shown"]))
    assert [CASE["shown"][place] for place in found.places] == case["ranking"]
    assert found.outcome == case["outcome"]


@pytest.mark.parametrize(
    ("reply", "first", "outcome"),
    [
        ("the 20 passages: [3] > [1]", [3, 1, 2], "repaired"),  # facts: brackets before digits of prose
        ("[3] > [1] > [2] > [4]", [3, 1, 2, 4], "parsed"),
        (" <think>[9] is odd. Then [4].</think>\n[4] > [3] > [2] > [1]\n", [4, 3, 2, 1], "parsed"),
        ("<think>[2] > [1] and so on", [1, 2, 3, 4], "fallback"),  # cut off within its thoughts
        ("<think>a</think><think>[2]</think>[3]", [3, 1, 2, 4], "repaired"),
        ("［４］ ＞ ［２］", [4, 2, 1, 3], "repaired"),  # full width
        ("④ > ③", [4, 3, 1, 2], "repaired"),  # circled
        ("[٣] > [١]", [3, 1, 2, 4], "repaired"),  # Arabic digits
        ('{"ranking": [4, 2, 1, 3]}', [4, 2, 1, 3], "repaired"),
        ("Passage 2, then passage 4", [2, 4, 1, 3], "repaired"),
        ("Documents 4, 3 and 1", [4, 3, 1, 2], "repaired"),
        ("2\n4\n1\n3", [2, 4, 1, 3], "repaired"),
        ("4", [4, 1, 2, 3], "repaired"),
        ("I cannot rank these 3 texts.", [1, 2, 3, 4], "fallback"),
        ("[0] > [5] > [-1]", [1, 2, 3, 4], "fallback"),
        ("9" * 5000 + " > [2]", [2, 1, 3, 4], "repaired"),  # int() refuses so many digits
        ("[2] > [2] > [1]", [2, 1, 3, 4], "repaired"),
        ("[999999999999] > [2] > [1] > [4] > [3]", [2, 1, 4, 3], "repaired"),
    ],
)
def test_ranking_of_four(reply: str, first: list[int], outcome: str) -> None:
    found = read_ranking(reply, 4)
    assert [place + 1 for place in found.places] == first + [n for n in range(1, 5) if n not in first]
    assert found.outcome == outcome


@pytest.mark.parametrize(
    ("reply", "picks", "outcome"),
    [
        ("Document 3, Document 1", [3, 1], "parsed"),
        ("Document 3, Document 1.", [3, 1], "parsed"),
        ("The best 2 are: Document 3, Document 1", [3, 1], "repaired"),
        ("Document 3, Document 3, Document 9, Document 1", [3, 1], "repaired"),
        ("Document 5, Document 4, Document 3", [5, 4], "repaired"),  # no more than asked for
        ("Document 2", [2], "repaired"),  # none invented
        ("[5] > [1]", [5, 1], "repaired"),
        ("4, 1", [4, 1], "repaired"),
        ("Document ...", [], "fallback"),
        ("None of the 5 is relevant.", [], "fallback"),
        ("", [], "fallback"),
    ],
)
def test_picks_two_of_five(reply: str, picks: list[int], outcome: str) -> None:
    found = read_picks(reply, 5, 2)
    assert [place + 1 for place in found.places] == picks
    assert found.outcome == outcome


@pytest.mark.parametrize(
    ("reply", "first", "outcome"),
    [
        ("[-1] > [-2]", [], "fallback"),
        ("[−2] > [1]", [1], "repaired"),
        ("[2] > [-1] > [3] > [1] > [4]", [2, 3, 1, 4], "repaired"),
        ("-1, -2, 4", [4], "repaired"),
        ("-12", [], "fallback"),
        ("Document -3, Document 2", [2], "repaired"),
        ("3-1-2", [3, 1, 2], "repaired"),
        ("[3]-[1]", [3, 1], "repaired"),
        ("[3] -> [1]", [3, 1], "repaired"),
        ("- 3\n- 1", [3, 1], "repaired"),
    ],
)
def test_negative_numbers_are_out_of_range_and_hyphens_are_not_negative(
    reply: str, first: list[int], outcome: str
) -> None:
    found = read_ranking(reply, 4)
    rest = [n for n in range(1, 5) if n not in first]
    assert ([p + 1 for p in found.places], found.outcome) == ([*first, *rest], outcome)


def test_a_number_at_a_cut_is_not_trusted() -> None:
    assert read_picks("Document 7, Document 1", 20, 2, truncated=True).places == [6]  # it may have been 12
    assert read_picks("Document 7, Document 1", 20, 2).places == [6, 0]
    assert read_ranking("[2] > [1]", 2, truncated=True).outcome == "repaired"


# -- any text -------------------------------------------------------------------------------------------------------

PIECES = [
    "[",
    "]",
    " > ",
    ", ",
    "Document ",
    "<think>",
    "</think>",
    "-",
    "\n",
    "３",
    "²",
    "④",
    "7",
    "12",
    "0",
    "9" * 40,
]
REPLIES = st.text(st.characters()) | st.lists(st.sampled_from(PIECES) | st.text(max_size=3)).map("".join)
"""Any characters, halves of pairs among them, and what replies are made of in any order."""


@given(REPLIES, st.integers(1, 15), st.booleans())
@example("", 1, False)
@settings(deadline=None)
def test_any_text_gives_a_permutation_or_a_counted_fallback(reply: str, shown: int, truncated: bool) -> None:
    found = read_ranking(reply, shown, truncated=truncated)
    assert sorted(found.places) == list(range(shown)) and found.outcome in OUTCOMES
    digits = any(d.isdigit() for c in reply for d in unicodedata.normalize("NFKC", c))
    if found.outcome == "fallback" or not digits:
        assert (found.outcome, found.places) == ("fallback", list(range(shown)))


@given(REPLIES, st.integers(1, 15), st.integers(1, 15), st.booleans())
@settings(deadline=None)
def test_any_text_gives_picks_of_what_was_shown(reply: str, shown: int, wanted: int, truncated: bool) -> None:
    found = read_picks(reply, shown, min(wanted, shown), truncated=truncated)
    assert len(set(found.places)) == len(found.places) <= min(wanted, shown)
    assert set(found.places) <= set(range(shown)) and found.outcome in OUTCOMES
    assert (found.outcome == "fallback") == (not found.places)


@given(st.integers(2, 15).flatmap(lambda shown: st.permutations(range(shown))))
@settings(deadline=None)
def test_what_is_written_as_asked_is_read_as_it_was_meant(order: list[int]) -> None:
    ranking = read_ranking(" > ".join(f"[{place + 1}]" for place in order), len(order))
    picks = read_picks(", ".join(f"Document {place + 1}" for place in order[:-1]), len(order), len(order) - 1)
    assert (ranking.places, ranking.outcome) == (order, "parsed")
    assert (picks.places, picks.outcome) == (order[:-1], "parsed")


# -- 20,000 replies that nobody wrote ------------------------------------------------------------------------------

_PROSE = ["I found 3 that fit.", "As of 2024, ranked by style:", "Here is the ranking of all 10 passages:", "Sure!"]
_REFUSALS = [
    "I can't help with that.",
    "Je ne peux pas répondre à cette demande.",
    "申し訳ありませんが、対応できません。",
    "لا أستطيع المساعدة",
    "As a language model, I must decline.",
    "",
    "   \n\t ",
]


def _full_width(text: str) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


def _noise(rng: random.Random, _: list[int]) -> str:
    return "".join(chr(rng.choice([rng.randrange(1, 0xD800), rng.randrange(32, 127)])) for _ in range(80))


def _garbage(rng: random.Random, order: list[int]) -> str:
    pieces = ["[", "]", ">", " ", "\n", "<think>", "</think>", "Document", "```", "-", ",", ".", "0", "³", "½", "１"]
    return "".join(rng.choice([*pieces, *map(str, order[:5])]) for _ in range(rng.randrange(60)))


def _join(order: list[int]) -> str:
    return " > ".join(f"[{n}]" for n in order)


KINDS: dict[str, Callable[[random.Random, list[int]], str]] = {
    "well formed": lambda rng, o: _join(o),
    "fenced": lambda rng, o: f"```json\n{json.dumps({'ranking': o})}\n```",
    "prose with digits": lambda rng, o: f"{rng.choice(_PROSE)} {_join(o)} I hope these {len(o)} help.",
    "thinking": lambda rng, o: f"<think>{_join(o[::-1])} or 12?</think>{_join(o)}",
    "unclosed thinking": lambda rng, o: f"<think>let me see, {_join(o)}",
    "truncated": lambda rng, o: _join(o)[: rng.randrange(1, 6 * len(o))],
    "truncated JSON": lambda rng, o: json.dumps({"ranking": o})[: rng.randrange(14, 15 + 3 * len(o))],
    "full width": lambda rng, o: _full_width(_join(o)),
    "repeats": lambda rng, o: _join([rng.choice(o) for _ in range(2 * len(o))]),
    "out of range": lambda rng, o: _join([rng.randrange(-5, 10**12) for _ in o] + o),
    "too short": lambda rng, o: _join(o[: rng.randrange(1, len(o) + 1)]),
    "bare numbers": lambda rng, o: ", ".join(map(str, o)),
    "numbered list": lambda rng, o: "\n".join(f"{i}. [{n}] because of {n + 1}" for i, n in enumerate(o, 1)),
    "labels": lambda rng, o: ", ".join(f"Document {n}" for n in o),
    "refusal": lambda rng, o: rng.choice(_REFUSALS),
    "noise": _noise,
    "garbage": _garbage,
}


def fuzz(n: int, seed: int) -> dict[str, Counter[str]]:
    """Read ``n`` replies of every kind, check each, and count the outcomes by kind."""
    rng = random.Random(seed)
    counts: dict[str, Counter[str]] = {}
    for kind, make in KINDS.items():
        counts[kind] = Counter()
        for _ in range(n):
            shown = rng.randrange(2, 25)
            order = rng.sample(range(1, shown + 1), shown)
            reply = make(rng, order)
            truncated = rng.random() < 0.1
            found = read_ranking(reply, shown, truncated=truncated)
            assert sorted(found.places) == list(range(shown)), (kind, reply)
            wanted = rng.randrange(1, shown + 1)
            picks = read_picks(reply, shown, wanted, truncated=truncated).places
            assert len(picks) <= wanted and len(set(picks)) == len(picks), (kind, reply)
            assert set(picks) <= set(range(shown)), (kind, reply)
            if kind in ("well formed", "fenced", "prose with digits", "thinking", "full width", "labels"):
                assert found.places == [i - 1 for i in order], (kind, reply)
            counts[kind][found.outcome] += 1
    return counts


def test_20_000_replies() -> None:
    counts = fuzz(1200, seed=8)
    assert sum(sum(c.values()) for c in counts.values()) >= 20_000
    assert counts["refusal"] == Counter(fallback=1200)
    assert counts["unclosed thinking"] == Counter(fallback=1200)
    for kind in ("well formed", "thinking", "full width"):
        assert counts[kind]["parsed"] > 1000 and not counts[kind]["fallback"]  # a tenth is said to be truncated
    for kind in ("fenced", "prose with digits", "numbered list", "labels", "out of range"):
        assert counts[kind] == Counter(repaired=1200)
