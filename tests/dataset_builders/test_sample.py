"""The embedded sample keeps the bounds it was written to."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from statistics import mean

import pytest

from dataset_builders import sources
from dataset_builders.instructions import STANCES
from dataset_builders.stance.data import StanceData
from dataset_builders.text import jaccard, text_key, words

NEGATIONS = {
    "not",
    "no",
    "never",
    "without",
    "fails",
    "hardly",
    "nor",
    "none",
    "nothing",
    "cannot",
    "neither",
    "nobody",
}
CONCESSIONS = {"but", "yet", "although", "however", "though", "while", "despite", "still"}
VERDICT = re.compile(r"(yes|no|actually|wrong|true|false|indeed|correct|incorrect)\b[,.:;!]", re.IGNORECASE)
NEGATING = {"not", "no", "never", "do", "does", "did"}
OPENINGS = {"support": "The claim is true because ", "attack": "The claim is false because "}


@pytest.fixture(scope="module")
def sample() -> StanceData:
    return sources.load("sample")


@pytest.fixture(scope="module")
def stance_of(sample: StanceData) -> dict[str, str]:
    assert len({r.argument_id for r in sample.relations}) == len(sample.relations) == len(sample.arguments)
    return {r.argument_id: r.stance for r in sample.relations}


def test_claims_in_their_splits(sample: StanceData) -> None:
    assert Counter(c.split for c in sample.claims) == {"train": 120, "validation": 20, "test": 40}
    assert len({c.domain for c in sample.claims}) >= 12
    assert {c.veracity for c in sample.claims} == {"true", "false", "contested"}
    assert {c.licence for c in sample.claims} | {a.licence for a in sample.arguments} == {"cc-by-4.0"}
    assert len({c.group_id for c in sample.claims}) == 180, "no two claims are near duplicates or share an argument"


def test_two_explicit_and_two_natural_arguments_a_side(sample: StanceData, stance_of: dict[str, str]) -> None:
    style = {a.argument_id: a.style for a in sample.arguments}
    found = Counter((r.claim_id, r.stance, style[r.argument_id]) for r in sample.relations)
    assert found == {(c.claim_id, s, t): 2 for c in sample.claims for s in STANCES for t in ("explicit", "natural")}


def test_ids_say_claim_side_style_and_number(sample: StanceData, stance_of: dict[str, str]) -> None:
    claim_of = {r.argument_id: r.claim_id for r in sample.relations}
    for a in sample.arguments:
        assert a.style
        expected = f"{claim_of[a.argument_id]}-{stance_of[a.argument_id][0]}{a.style[0]}"
        assert a.argument_id[:-1] == expected and a.argument_id[-1] in "12"


def test_only_explicit_arguments_name_their_verdict(sample: StanceData, stance_of: dict[str, str]) -> None:
    for a in sample.arguments:
        if a.style == "explicit":
            assert a.text.startswith(OPENINGS[stance_of[a.argument_id]]), a.argument_id
        else:
            assert "the claim" not in text_key(a.text), a.argument_id
            assert not VERDICT.match(a.text), a.argument_id


def test_texts_are_of_one_length_and_all_different(sample: StanceData) -> None:
    texts = [a.text for a in sample.arguments] + [i.inverted for i in sample.inversions]
    assert len({text_key(t) for t in texts}) == len(texts) == 1440 + 1280
    assert [a.argument_id for a in sample.arguments if not 10 <= len(words(a.text)) <= 40] == []
    assert [c.claim_id for c in sample.claims if not 5 <= len(words(c.claim)) <= 16] == []


def test_every_train_and_test_argument_has_its_inversion(sample: StanceData, stance_of: dict[str, str]) -> None:
    text = {a.argument_id: a.text for a in sample.arguments}
    split = {c.claim_id: c.split for c in sample.claims}
    wanted = {r.argument_id for r in sample.relations if split[r.claim_id] != "validation"}
    assert {i.argument_id for i in sample.inversions} == wanted and len(sample.inversions) == len(wanted)
    for i in sample.inversions:
        assert i.inversion_id == f"{i.argument_id}-inv"
        assert i.original == text[i.argument_id]
        assert i.original_stance == stance_of[i.argument_id]
        assert i.generator == "authored"


def test_inversions_flip_the_verdict_and_keep_the_words(sample: StanceData) -> None:
    for i in sample.inversions:
        if i.style == "explicit":
            other = "attack" if i.original_stance == "support" else "support"
            assert i.inverted.startswith(OPENINGS[other]), i.inversion_id
        assert jaccard(i.original, i.inverted) >= 0.4, i.inversion_id
        before, after = ([w for w in words(t) if w not in NEGATING] for t in (i.original, i.inverted))
        assert before != after, f"{i.inversion_id}: merely a 'not' put in or taken out"
    assert 0.5 <= mean(jaccard(i.original, i.inverted) for i in sample.inversions) <= 0.8


def test_no_cheap_cue_tells_the_sides_of_natural_arguments(sample: StanceData, stance_of: dict[str, str]) -> None:
    """Negations, concessions and lengths are as frequent on either side: counting them gives no stance away."""
    natural = defaultdict(list)
    for a in sample.arguments:
        if a.style == "natural":
            natural[stance_of[a.argument_id]].append(words(a.text))
    for cue, tolerance in ((NEGATIONS, 0.15), (CONCESSIONS, 0.4)):
        n = {
            s: sum(w in cue or (cue is NEGATIONS and w.endswith("n't")) for t in natural[s] for w in t)
            for s in STANCES
        }
        assert abs(n["support"] - n["attack"]) <= tolerance * sum(n.values()), n
    length = {s: mean(len(t) for t in natural[s]) for s in STANCES}
    assert length["support"] == pytest.approx(length["attack"], rel=0.05)
    openings = Counter(tuple(t[:3]) for side in natural.values() for t in side)
    assert max(openings.values()) <= 2, openings.most_common(3)


def test_a_bag_of_words_cannot_tell_the_sides_of_natural_arguments(
    sample: StanceData, stance_of: dict[str, str]
) -> None:
    """Naive Bayes over words, claim by claim left out: near one half for natural, near one for explicit arguments."""
    import math

    accuracy = {}
    for style in ("natural", "explicit"):
        items = [
            (a.argument_id.rsplit("-", 1)[0], stance_of[a.argument_id], set(words(a.text)))
            for a in sample.arguments
            if a.style == style
        ]
        total = Counter((w, s) for _, s, t in items for w in t)
        right = 0
        for claim, stance, text in items:
            own = Counter((w, s) for c, s, t in items if c == claim for w in t)
            score = sum(
                math.log(total[w, "support"] - own[w, "support"] + 1)
                - math.log(total[w, "attack"] - own[w, "attack"] + 1)
                for w in text
            )
            right += (score > 0) == (stance == "support")
        accuracy[style] = right / len(items)
    assert accuracy["natural"] < 0.62, accuracy
    assert accuracy["explicit"] > 0.95, accuracy
