"""Figures of stance data, worked by hand or planted."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from builders import plain, stance_data
from hypothesis import given
from hypothesis import strategies as st

from dataset_builders import sources
from dataset_builders.schema import Split
from dataset_builders.stance import statistics as stats
from dataset_builders.stance.data import StanceData
from dataset_builders.text import FUNCTION_WORDS


def with_splits(data: StanceData, splits: list[Split]) -> StanceData:
    return replace(data, claims=[replace(c, split=s) for c, s in zip(data.claims, splits, strict=True)])


def test_sizes_are_those_of_table_1() -> None:
    data = stance_data(
        {"c1": {"support": ["a", "b"], "attack": ["c"]}, "c2": {"support": [], "attack": ["d", "e", "f"]}, "c3": {}}
    )
    train, test = stats.sizes(with_splits(data, ["train", "train", "test"]))
    assert (train.split, train.claims, train.total) == ("train", 2, {"support": 2, "attack": 4})
    assert train.per_claim == {"support": (1, 0, 2), "attack": (2, 1, 3)}
    assert (test.split, test.claims, test.per_claim["support"]) == ("test", 1, (0, 0, 0))
    (everything,) = stats.sizes(replace(data, claims=[replace(c, split=None) for c in data.claims]))
    assert everything.split == "all"


def test_a_text_of_both_stances_is_a_conflict() -> None:
    data = stance_data(
        {"c1": {"support": ["so it is"], "attack": ["SO it  is", "no"]}, "c2": {"attack": ["so it is"]}}
    )
    assert stats.conflicts(data) == [("c1", "so it is"), ("c1", "SO it  is")]
    assert stats.conflicts(plain(2)) == []


def test_jaccard_is_over_every_pair_of_a_claim_and_never_across() -> None:
    data = stance_data(
        {"c1": {"support": ["tea is good"], "attack": ["tea is bad", "coal"]}, "c2": {"support": ["coal"]}},
        inverted={("c1", "tea is good"): "tea is not good"},
    )
    assert stats.natural_overlap(data) == pytest.approx((2 / 4 + 0) / 2)
    assert stats.inversion_overlap(data) == pytest.approx(3 / 4)
    assert stats.inversion_overlap(data, "natural") is None


def between_splits(data: StanceData) -> dict[str, list[str]]:
    return stats.shared_between_splits(data, stats.duplicate_claims(data), stats.duplicate_arguments(data))


def test_what_two_splits_share() -> None:
    sides = {
        "Tea should be free.": {"support": ["tea warms every cold evening at home"], "attack": ["tea costs"]},
        "tea should be free": {"support": ["tea warms every cold evening at homes"], "attack": ["Tea  costs"]},
        "Coal is dear.": {"support": ["it is mined"]},
    }
    data = with_splits(
        stance_data(sides, groups={"Coal is dear.": "g", "Tea should be free.": "g"}), ["train", "test", "test"]
    )
    shared = between_splits(data)
    assert shared == {
        "claims": ["Tea should be free.", "tea should be free"],
        "near-duplicate claims": ["Tea should be free. and tea should be free"],
        "arguments": ["tea costs", "Tea  costs"],
        "near-duplicate arguments": [
            "tea warms every cold evening at home and tea warms every cold evening at homes",
            "tea costs and Tea  costs",
        ],
        "groups": ["g"],
    }
    assert not any(between_splits(with_splits(data, ["train"] * 3)).values())


def test_short_texts_are_no_duplicates_of_each_other() -> None:
    data = stance_data(
        {"c": {"support": ["yes we should"], "attack": ["no never ever", "The claim is false because no"]}}
    )
    assert stats.duplicate_arguments(data) == []
    doubled = stance_data({"c": {"support": ["The claim is true because we should"], "attack": ["We should"]}})
    assert stats.duplicate_arguments(doubled) == [("The claim is true because we should", "We should")]


def test_skeletons_keep_function_words_alone() -> None:
    assert stats.skeleton("It's the red old barn of my aunt, isn't it?") == (
        "it's",
        "the",
        "_",
        "of",
        "my",
        "_",
        "isn't",
        "it",
    )
    texts = {
        "a": "Rain fell. The cat of my aunt sleeps on a mat.",
        "b": "The very same? The great grey cat, of my uncle, died on a train!",  # no: 'the very same'
        "c": "The dog of my aunt sleeps on a rug.",
        "d": "The dog of fear.",
        "e": "The cat of doom.",  # two function words are too few
    }
    assert stats.sharing_a_skeleton(texts) == ["a", "b", "c"]


@given(st.lists(st.sampled_from(["the", "of", "not", "barn", "tea", "rain", "isn't"]), min_size=1))
def test_skeletons_have_the_function_words_of_the_sentence_in_order(sentence: list[str]) -> None:
    found = stats.skeleton(" ".join(sentence))
    assert [w for w in found if w != "_"] == [w for w in sentence if w in FUNCTION_WORDS or w == "isn't"]
    assert all(a != "_" or b != "_" for a, b in pairwise(found))


def test_inversions_that_merely_negate_or_say_although() -> None:
    data = stance_data(
        {"c": {"support": ["The claim is true because tea warms", "tea does warm", "tea warms"]}},
        inverted={
            ("c", "The claim is true because tea warms"): "The claim is false because tea does not warms",
            ("c", "tea does warm"): "tea doesn't warm",
            ("c", "tea warms"): "although tea warms, it tires",
        },
    )
    assert stats.merely_negated(data.inversions) == [
        "The claim is true because tea warms/c-inv",
        "tea does warm/c-inv",
    ]
    assert stats.by_although(data.inversions) == ["tea warms/c-inv"]


def natural(support: str, attack: str, n: int = 12) -> StanceData:
    """``n`` claims with one argument a side; ``#`` in a text becomes the number of the claim."""
    sides = {
        f"c{i}": {"support": [support.replace("#", str(i))], "attack": [attack.replace("#", str(i))]} for i in range(n)
    }
    data = stance_data(sides)  # type: ignore[arg-type]
    return replace(data, arguments=[replace(a, style="natural") for a in data.arguments])


def test_a_planted_cue_is_found_and_named() -> None:
    by_word = stats.cue_accuracy(natural("n# good day", "n# evil day"), "natural")
    assert by_word["words"] == 1.0 and by_word["punctuation"] == by_word["sentences"] == 0.5
    assert stats.cue_accuracy(natural("n# day", "n# day at the sea"), "natural")["length"] == 1.0
    assert stats.cue_accuracy(natural("n#, day", "n#; day"), "natural")["punctuation"] == 1.0
    assert stats.cue_accuracy(natural("n#. Day", "n#, day"), "natural")["sentences"] == 1.0


def test_the_cue_is_looked_for_by_claim() -> None:
    """What tells the sides of one claim only is no cue: each claim's words are unseen when it is judged."""
    assert stats.cue_accuracy(natural("yes# day", "nay# day"), "natural")["words"] == 0.5
    assert stats.cue_accuracy(natural("good", "evil", n=1), "natural") == {}
    assert stats.cue_accuracy(natural("n# good", "n# evil"), "explicit") == {}


def test_inversions_that_a_word_gives_away() -> None:
    sides = {f"c{i}": {"support": [f"n{i} helps"]} for i in range(12)}
    data = stance_data(sides, inverted={(c, t): f"{t} hardly" for c, s in sides.items() for t in s["support"]})  # type: ignore[arg-type]
    told = replace(data, inversions=[replace(i, style="natural") for i in data.inversions])
    assert stats.inversion_cue_accuracy(told, "natural") == 1.0
    assert stats.inversion_cue_accuracy(told, "explicit") is None


def test_perspectrum_has_the_cue_it_is_known_for(external: Path) -> None:
    """.641 with the paraphrases of each perspective; the reader keeps one wording each, so there is less to learn."""
    data = sources.load("perspectrum", external / "perspectrum")
    assert 0.60 < stats.cue_accuracy(data, "natural")["words"] < 0.65
    assert len(stats.sharing_a_skeleton(stats.bodies(data))) > 50
