from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from builders import plain, stance_data, tangled
from hypothesis import given, settings
from hypothesis import strategies as st

from dataset_builders.stance.data import StanceData
from dataset_builders.stance.splits import NEAR_DUPLICATE, assign, group_claims, near_duplicates
from dataset_builders.text import claim_key, text_key

CASES = Path(__file__).parent.parent / "cases"


def groups_of(data: StanceData) -> list[set[str]]:
    members = defaultdict(set)
    for claim, group in zip(data.claims, group_claims(data.claims, data.arguments, data.relations), strict=True):
        members[group].add(claim.claim_id)
    return sorted(members.values(), key=sorted)


def test_case_8_short_texts_are_no_near_duplicates() -> None:
    lines = (CASES / "case08_short_texts.jsonl").read_text(encoding="utf-8").splitlines()
    assert near_duplicates([json.loads(line)["text"] for line in lines]) == [(0, 2)]
    assert near_duplicates(["a", "b", "A.", "no", "", "?"]) == [(0, 2)]


def test_a_claim_and_its_negation_are_near_duplicates_and_two_subjects_are_not() -> None:
    texts = ["The Games pay off for a city.", "The Games do not pay off for a city.", "Tea is good", "Tea isn’t good"]
    assert near_duplicates([*texts, "Jazz is good"]) == [(0, 1), (2, 3)]


def test_near_duplicates_are_those_that_share_most_of_their_words() -> None:
    texts = [
        "Guns should be banned in all public places.",
        "Coal mines should close.",
        "Guns should be banned in all the public places.",
        "School uniforms should be banned.",
    ]
    assert near_duplicates(texts) == [(0, 2)]


@given(st.lists(st.text("ab c", max_size=12), max_size=12))
@settings(max_examples=50, deadline=None)
def test_no_pair_is_less_alike_than_the_threshold(texts: list[str]) -> None:
    def shingles(text: str) -> set[str]:
        key = claim_key(text)
        return {key[i : i + 5] for i in range(max(1, len(key) - 4))}

    def similarity(i: int, j: int) -> float:
        a, b = shingles(texts[i]), shingles(texts[j])
        return len(a & b) / len(a | b)

    found = near_duplicates(texts)
    assert found == sorted(set(found)) and all(i < j for i, j in found)
    assert all(similarity(i, j) >= NEAR_DUPLICATE for i, j in found)
    first: dict[str, int] = {}
    for i, text in enumerate(texts):
        j = first.setdefault(claim_key(text), i)
        assert i == j or (j, i) in found


def test_claims_are_tied_by_given_group_shared_argument_and_near_text_and_ties_chain() -> None:
    data = stance_data(
        {
            "Coal mines should close": {"support": ["clean air"], "attack": ["it would cost jobs"]},
            "Cars should leave city centers": {"support": ["safe streets"], "attack": ["It would  cost jobs"]},
            "Cars should leave the city centers": {"support": ["quiet"], "attack": []},
            "Robots pay taxes": {"support": ["fair"], "attack": []},
            "Voting is a duty": {"support": [], "attack": ["free not to"]},
            "Tea is healthy": {"support": [], "attack": ["no evidence"]},
        },
        groups={"Robots pay taxes": "civics", "Voting is a duty": "civics"},
    )
    names = group_claims(data.claims, data.arguments, data.relations)
    assert names == ["Coal mines should close"] * 3 + ["civics"] * 2 + ["Tea is healthy"]


@given(tangled())
@settings(max_examples=40, deadline=None)
def test_no_split_cuts_a_group_and_the_order_of_rows_does_not_matter(data: StanceData) -> None:
    data = replace(data, claims=[replace(c, split=None) for c in data.claims])
    split = {c.claim_id: c.split for c in assign(data, seed=1).claims}
    for group in {c.group_id for c in data.claims}:
        assert len({split[c.claim_id] for c in data.claims if c.group_id == group}) == 1
    shuffled = replace(data, claims=Random(0).sample(data.claims, len(data.claims)))
    assert {c.claim_id: c.split for c in assign(shuffled, seed=1).claims} == split


@pytest.mark.parametrize(("n", "expected"), [(1, (1, 0, 0)), (2, (1, 0, 1)), (10, (7, 1, 2)), (60, (42, 6, 12))])
def test_shares_are_70_10_20(n: int, expected: tuple[int, int, int]) -> None:
    data = plain(n)
    data = replace(data, claims=[replace(c, split=None) for c in data.claims])
    for seed in range(3):
        count = Counter(c.split for c in assign(data, seed).claims)
        assert (count["train"], count["validation"], count["test"]) == expected
    if n > 2:
        assert assign(data, 0) == assign(data, 0) != assign(data, 1)


def test_the_splits_of_the_source_are_kept() -> None:
    data = plain(3)
    assert assign(data, seed=5) is data


def test_some_claims_with_a_split_and_some_without_are_refused() -> None:
    data = plain(3)
    mixed = replace(data, claims=[replace(data.claims[0], split=None), *data.claims[1:]])
    with pytest.raises(ValueError, match=r"1 of 3 claims have no split, such as \['c00'\].*or none"):
        assign(mixed)


@given(tangled())
@settings(max_examples=40, deadline=None)
def test_groups_are_the_connected_parts(data: StanceData) -> None:
    """Against the plain way: merge sets that meet until none do."""
    key = {a.argument_id: text_key(a.text) for a in data.arguments}
    texts = {c.claim_id: {key[r.argument_id] for r in data.relations if r.claim_id == c.claim_id} for c in data.claims}
    near = {
        frozenset((data.claims[i].claim_id, data.claims[j].claim_id))
        for i, j in near_duplicates([c.claim for c in data.claims])
    }
    parts: list[set[str]] = []
    for claim in data.claims:
        linked = {
            o.claim_id
            for o in data.claims
            if o.group_id == claim.group_id
            or texts[o.claim_id] & texts[claim.claim_id]
            or frozenset((o.claim_id, claim.claim_id)) in near
        }
        meeting = [p for p in parts if p & linked]
        parts = [p for p in parts if not p & linked] + [linked.union(*meeting)]
    assert groups_of(data) == sorted(parts, key=sorted)
