from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dataset_builders import sources
from dataset_builders.schema import Inversion, Split, Style
from dataset_builders.stance.inversion_checks import failures
from dataset_builders.stance.reversal import lemma_jaccard, lemmas, only_negated, reverses, verdict

LABELLED = [json.loads(line) for line in (Path(__file__).parent / "labelled_inversions.jsonl").open(encoding="utf-8")]
CLAIMS = list(dict.fromkeys(row["claim"] for row in LABELLED))
SEEN = set(CLAIMS[::2])
"""Claims whose rows were looked at when the words of the check were chosen. One hand wrote both, rows and words."""


def precision_and_recall(rows: list[dict[str, Any]], truth: str, found: list[bool]) -> tuple[float, float]:
    true = [row[truth] for row in rows]
    hits = sum(t and f for t, f in zip(true, found, strict=True))
    return hits / sum(found), hits / sum(true)


def rows_of(*, seen: bool, style: Style | None = None) -> list[dict[str, Any]]:
    return [r for r in LABELLED if (r["claim"] in SEEN) == seen and style in (None, r["style"])]


def test_the_labelled_rows_are_many_and_various() -> None:
    assert len(LABELLED) > 200
    assert sum(row["good"] for row in LABELLED) > 90 and sum(not row["good"] for row in LABELLED) > 90
    kinds = {row["kind"] for row in LABELLED}
    wanted = {"good", "merely negated", "unchanged", "topic drift", "number changed", "name changed", "only hedged"}
    assert wanted < kinds and len(kinds) > 12
    texts = [row["inverted"] for row in LABELLED]
    assert len(set(texts)) == len(texts)
    assert all(not row["good"] or row["flipped"] for row in LABELLED)


# The figures as they are. A better check raises them; a change that lowers one has to say why.
@pytest.mark.parametrize(("seen", "n", "precision", "recall"), [(True, 96, 0.864, 0.836), (False, 91, 0.920, 0.821)])
def test_precision_and_recall_of_the_reversal_of_natural_text(
    seen: bool, n: int, precision: float, recall: float
) -> None:
    rows = rows_of(seen=seen, style="natural")
    found = [reverses(row["original"], row["inverted"]) for row in rows]
    assert len(rows) == n
    assert precision_and_recall(rows, "flipped", found) == pytest.approx((precision, recall), abs=5e-4)


@pytest.mark.parametrize(("seen", "precision", "recall"), [(True, 0.804, 0.771), (False, 0.889, 0.816)])
def test_precision_and_recall_of_all_checks(seen: bool, precision: float, recall: float) -> None:
    rows = rows_of(seen=seen)
    found = [not failures(row["claim"], row["original"], row["inverted"]) for row in rows]
    assert precision_and_recall(rows, "good", found) == pytest.approx((precision, recall), abs=5e-4)


@pytest.mark.parametrize(
    ("kind", "most"),
    [
        ("merely negated", 0),
        ("unchanged", 0),
        ("number changed", 0),
        ("bloated", 0),
        ("only hedged", 0),
        ("only the opening flipped", 0),
        ("opening not flipped", 0),
        ("name changed", 2),  # those that begin a sentence, where a capital says nothing
        ("topic drift", 1),
        ("paraphrased", 3),
        ("strengthened", 4),
        ("wrong thing flipped", 3),
        ("two reversals that cancel", 1),
    ],
)
def test_how_many_of_each_bad_kind_pass(kind: str, most: int) -> None:
    rows = [row for row in LABELLED if row["kind"] == kind]
    assert rows
    passed = [r["inverted"] for r in rows if not failures(r["claim"], r["original"], r["inverted"])]
    assert len(passed) <= most, passed


@pytest.mark.parametrize(
    ("split", "style", "least"),
    [("train", "natural", 0.64), ("test", "natural", 0.68), ("train", "explicit", 1.0), ("test", "explicit", 0.99)],
)
def test_share_of_the_authored_inversions_that_pass(split: Split, style: Style, least: float) -> None:
    found = [i for i in sources.load("sample").restrict({split}).inversions if i.style == style]
    passed = sum(not failures(i.claim, i.original, i.inverted) for i in found)
    assert passed / len(found) >= least


def test_the_opposite_of_an_authored_inversion_is_its_original() -> None:
    found = [i for i in sources.load("sample").inversions if i.style == "explicit"]
    assert all(reverses(i.inverted, i.original) for i in found)
    assert not any(reverses(i.original, i.original) for i in found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("The claim is true because it rains.", True),
        ("The claim is false because it rains.", False),
        ("The claim is not true because it rains.", False),
        ("The claim is not entirely accurate, since it rains.", False),
        ("“The claim is untrue: it rains.", False),
        ("The claim's assertion that he wrote ‘all’ the plays is false because some were shared.", False),
        ("It rains, so the claim is true.", None),
        ("Rain is a true friend.", None),
    ],
)
def test_verdict(text: str, said: bool | None) -> None:
    assert verdict(text) is said


@pytest.mark.parametrize(
    ("original", "inverted", "expected"),
    [
        ("Rain helps the roses.", "Rain harms the roses.", True),
        ("Rain helps the roses.", "Rain never helps the roses.", True),
        ("Rain helps the roses.", "Rain never harms the roses.", False),
        ("Rain helps the roses.", "Rain aids the roses.", False),
        ("Rain helps the roses.", "Rain may help the roses.", False),
        ("Rain helps the roses, and sun spoils them.", "Rain harms the roses, and sun spoils them.", True),
        ("Rain cannot help the roses.", "Rain can help the roses.", True),
        ("It is an honest man's word.", "It is a dishonest man's word.", True),
        ("A careful driver saves lives.", "A careless driver saves lives.", True),
        ("The claim is true because it rains.", "It never rains.", False),
    ],
)
def test_reverses(original: str, inverted: str, expected: bool) -> None:
    assert reverses(original, inverted) is expected


def test_only_negated_sees_through_inflection() -> None:
    assert only_negated("The rain spoils the hay.", "The rain doesn't spoil the hay.")
    assert only_negated("The claim is true because it rains.", "The claim is false because it does not rain.")
    assert not only_negated("The rain spoils the hay.", "The rain spares the hay.")


def test_lemma_jaccard_by_hand() -> None:
    # {the, dog, run} and {a, dog, run}: two of four in common; raw words share one of five ("ran", "running").
    assert lemmas("The dogs can't") == ["the", "dog", "can", "not"]
    assert lemma_jaccard("The dogs ran", "a dog running") == pytest.approx(0.5)
    assert lemma_jaccard("!", "?") == 0.0


CLAIM = "Paris is larger than Lyon."
ORIGINAL = "Since 1900 Paris has kept more than twice the people of Lyon, which decides the matter."


@pytest.mark.parametrize(
    ("inverted", "failed"),
    [
        ("Since 1900 Paris has kept more than twice the people of Lyon, which hardly decides the matter.", set()),
        ("Since 1901 Paris has kept more than twice the people of Lyon, which hardly decides the matter.", {"facts"}),
        ("Since 1900 Paris has kept more than twice the people of Nice, which hardly decides the matter.", {"facts"}),
        (
            "Since 1900 Paris has kept more than twice the people of Lyon, which does not decide the matter.",
            {"negation"},
        ),
        (
            "SINCE 1900 Paris has kept more than twice the people of Lyon; which decides the matter!",
            {"changed", "flipped"},
        ),
        ("Since 1900 Paris, Lyon: hardly.", {"length", "overlap"}),
        (
            f"{ORIGINAL[:-1]} for nobody who counts heads in the wider suburbs and asks all of their mayors too.",
            {"length"},
        ),
        ("", {"text"}),
        ("a\x00b", {"text"}),
        (None, {"text"}),
        (7, {"text"}),
    ],
)
def test_failures_by_hand(inverted: Any, failed: set[str]) -> None:
    assert failures(CLAIM, ORIGINAL, inverted).keys() == failed


def test_what_is_wrong_is_said_for_the_writer() -> None:
    said = failures(CLAIM, ORIGINAL, "Since 1801 Paris has hardly kept more than twice the people of Nantes.")
    assert said["facts"] == "the original's 1900, Lyon must stay; 1801, Nantes is not in the original"
    inversion = Inversion("i", "c", CLAIM, "a", ORIGINAL, "support", None, "x", "m", None, "s", "cc0-1.0")
    assert inversion.checks == ()
