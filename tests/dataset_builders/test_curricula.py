from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from builders import plain, stance_data, tangled
from hypothesis import given, settings
from hypothesis import strategies as st

from dataset_builders import sources
from dataset_builders.instructions import SEEN
from dataset_builders.schema import TRIPLETS
from dataset_builders.stance.curricula import Triplets, build
from dataset_builders.stance.data import StanceData
from dataset_builders.text import text_key

CASES = Path(__file__).parent.parent / "cases"


def rows_of(triplets: Triplets) -> list[dict[str, Any]]:
    return [row for batch in triplets.batches() for row in batch.to_pylist()]


def kind_of_negative(data: StanceData, claim_id: str, stance: str, text: str) -> str:
    """The kind of a negative by its definition, the long way."""
    key = {a.argument_id: text_key(a.text) for a in data.arguments}
    group = {c.claim_id: c.group_id for c in data.claims}
    here = {r.stance for r in data.relations if key[r.argument_id] == text_key(text) and r.claim_id == claim_id}
    near = any(key[r.argument_id] == text_key(text) and group[r.claim_id] == group[claim_id] for r in data.relations)
    anywhere = {r.stance for r in data.relations if key[r.argument_id] == text_key(text)}
    if stance in here:
        return "positive"
    if here:
        return "hard"
    if near:
        return "of the group"
    return "semi_hard" if stance in anywhere else "easy"


@given(tangled(), st.integers(1, 200), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_every_negative_is_of_its_kind(data: StanceData, triplets: int, seed: int) -> None:
    try:
        built = build(data, triplets=triplets, seed=seed)
    except ValueError as error:
        assert any(words in str(error) for words in ("none of the", "there is no semi-hard", "there is no easy"))
        return
    for triplet_set in built.values():
        assert len(triplet_set) == triplets
        for row in rows_of(triplet_set):
            assert kind_of_negative(data, row["claim_id"], row["stance"], row["positive"]) == "positive"
            (negative,) = row["negatives"]
            assert kind_of_negative(data, row["claim_id"], row["stance"], negative["text"]) == negative["kind"]
    homogeneous, mixed = built["homogeneous"], built["mixed"]
    assert homogeneous.kinds() == {"hard": triplets, "semi_hard": 0, "easy": 0, "inverted": 0}
    thirds = mixed.kinds()
    assert max(thirds["hard"], thirds["semi_hard"], thirds["easy"]) - min(
        thirds["hard"], thirds["semi_hard"], thirds["easy"]
    ) <= (1 if triplets % 3 else 0)
    per_instruction = np.bincount(mixed.instruction, minlength=20)
    assert per_instruction.max() - per_instruction.min() <= 1


def test_default_number_and_exact_thirds_and_halves() -> None:
    data = plain(5)
    built = build(data)
    n = 5 * 20 * 6
    assert list(built) == ["homogeneous", "mixed", "mixed_aug"]
    assert built["homogeneous"].kinds() == {"hard": n, "semi_hard": 0, "easy": 0, "inverted": 0}
    assert built["mixed"].kinds() == {"hard": n // 3, "semi_hard": n // 3, "easy": n // 3, "inverted": 0}
    assert built["mixed_aug"].kinds() == {"hard": n // 6, "semi_hard": n // 3, "easy": n // 3, "inverted": n // 6}
    assert 265 * 20 * 6 == 31_800  # the enumeration that gives S's number


@pytest.mark.parametrize("n_claims", [3, 5])  # cells divisible by three, and not
def test_each_cell_has_its_six_with_two_of_each_kind(n_claims: int) -> None:
    rows = rows_of(build(plain(n_claims))["mixed"])
    cells = defaultdict(Counter)
    for row in rows:
        cells[row["claim_id"], row["instruction"]][row["negatives"][0]["kind"]] += 1
    assert set(cells) == {(f"c{i:02d}", s.text) for i in range(n_claims) for s in SEEN}
    assert {tuple(sorted(kinds.items())) for kinds in cells.values()} == {(("easy", 2), ("hard", 2), ("semi_hard", 2))}


def test_a_cell_repeats_no_pair_while_there_are_enough() -> None:
    for per_side, distinct in ((3, 6), (2, 4)):  # nine pairs for six rows, and four
        cells = defaultdict(set)
        for row in rows_of(build(plain(4, per_side))["homogeneous"]):
            cells[row["claim_id"], row["instruction"]].add((row["positive_id"], row["negatives"][0]["id"]))
        assert {len(pairs) for pairs in cells.values()} == {distinct}


def test_curricula_are_one_list_of_rows() -> None:
    homogeneous, mixed, mixed_aug = (rows_of(t) for t in build(plain(5)).values())
    for a, b, c in zip(homogeneous, mixed, mixed_aug, strict=True):
        left = {k: v for k, v in a.items() if k != "negatives"}
        assert (
            left
            == {k: v for k, v in b.items() if k != "negatives"}
            == {k: v for k, v in c.items() if k != "negatives"}
        )
        if b["negatives"][0]["kind"] == "hard":
            assert a["negatives"] == b["negatives"]
        if c["negatives"][0]["kind"] == "inverted":
            assert b["negatives"][0]["kind"] == "hard"
            assert c["negatives"][0] == {
                "id": f"{c['positive_id']}/{c['claim_id']}-inv",
                "text": f"{c['positive']} inverted",
                "kind": "inverted",
            }
        else:
            assert b["negatives"] == c["negatives"]


def test_rows_come_by_claim_instruction_and_round() -> None:
    rows = rows_of(build(plain(3))["mixed"])
    order = {i.text: n for n, i in enumerate(SEEN)}
    keys = [(row["claim_id"], order[row["instruction"]]) for row in rows]
    assert keys == sorted(keys)
    assert all(row["stance"] == SEEN[order[row["instruction"]]].stance for row in rows)
    assert list(rows[0]) == list(TRIPLETS)
    assert {(row["source"], row["licence"]) for row in rows} == {("made-up", "cc0-1.0")}


def test_no_dictionary_holds_a_value_twice() -> None:
    """Parquet files of such dictionaries differ from one run to the next."""
    (batch,) = build(plain(3))["mixed_aug"].batches()
    flat = [*(c for c in batch.columns if pa.types.is_dictionary(c.type)), *batch["negatives"].flatten().flatten()]
    assert len(flat) == 8 + 3
    for column in flat:
        assert len(set(column.dictionary.to_pylist())) == len(column.dictionary)


def test_the_same_seed_gives_the_same_rows_in_whatever_order_the_data_comes() -> None:
    data = plain(6)
    random = Random(0)
    shuffled = replace(
        data,
        **{
            f: random.sample(getattr(data, f), len(getattr(data, f)))
            for f in ("claims", "arguments", "relations", "inversions")
        },
    )
    for name, triplets in build(data, seed=3).items():
        assert rows_of(triplets) == rows_of(build(shuffled, seed=3)[name])
        assert rows_of(triplets) != rows_of(build(data, seed=4)[name])


def test_a_few_triplets_still_spread_over_claims_and_instructions() -> None:
    rows = rows_of(build(plain(10), triplets=100)["mixed"])
    assert set(Counter(r["instruction"] for r in rows).values()) == {5}
    claims = Counter(r["claim_id"] for r in rows)
    assert len(claims) == 10 and max(claims.values()) - min(claims.values()) <= 4


def test_semi_hard_negatives_use_the_whole_pool_before_any_twice() -> None:
    rows = rows_of(build(plain(7, per_side=4))["mixed"])
    drawn = defaultdict(list)
    for row in rows:
        if row["negatives"][0]["kind"] == "semi_hard":
            drawn[row["claim_id"], row["stance"]].append(row["negatives"][0]["id"])
    for ids in drawn.values():
        assert len(ids) == 20 and len(set(ids)) == 20  # of 24 in the pool


def test_case_17_an_equal_text_of_another_claim_is_no_negative_and_no_easy_one() -> None:
    """B's attack is A's own positive but for case and space; for (A, support) it is A's hard negative."""
    data = sources.load("mined", CASES / "case17_mined_negatives.jsonl")
    merged = {c.claim: c.group_id for c in data.claims}
    assert len(set(merged.values())) == 1, "claims that share an argument are one group"
    apart = replace(data, claims=[replace(c, group_id=c.claim_id) for c in data.claims])
    others = plain(3)
    for given_data in (data, apart):
        both = StanceData(
            source="both",
            claims=[*given_data.claims, *others.claims],
            arguments=[*given_data.arguments, *others.arguments],
            relations=[*given_data.relations, *others.relations],
        )
        for row in rows_of(build(both)["mixed"]):
            negative = row["negatives"][0]
            if row["claim_id"] == "A" and text_key(negative["text"]) == "it would cost jobs.":
                assert (row["stance"], negative["kind"]) == ("support", "hard")


def test_a_text_on_both_sides_is_a_positive_of_both_and_a_negative_of_none() -> None:
    sides = {c: {"support": [f"{c} s", f"{c} both"], "attack": [f"{c} a", f"{c} both"]} for c in ("x", "y", "z")}
    rows = rows_of(build(stance_data(sides))["homogeneous"])
    assert {r["positive"] for r in rows if r["claim_id"] == "x" and r["stance"] == "attack"} == {"x a", "x both"}
    assert {n["text"] for r in rows if r["claim_id"] == "x" for n in r["negatives"]} == {"x s", "x a"}


def test_one_sided_claims_get_no_triplets_but_lend_negatives() -> None:
    sides = {
        **{c: {"support": [f"{c} s"], "attack": [f"{c} a"]} for c in ("x", "y", "z")},
        "lonely": {"support": ["lonely s"], "attack": []},
        "undecided": {"support": ["u"], "attack": ["u"]},
    }
    rows = rows_of(build(stance_data(sides), triplets=600)["mixed"])
    assert {r["claim_id"] for r in rows} == {"x", "y", "z"}
    kinds = defaultdict(set)
    for row in rows:
        kinds[row["stance"], row["negatives"][0]["text"]].add(row["negatives"][0]["kind"])
    assert kinds["support", "lonely s"] == {"semi_hard"} and kinds["attack", "lonely s"] == {"easy"}
    assert kinds["support", "u"] == {"semi_hard"} == kinds["attack", "u"]


def test_without_inversions_there_is_no_mixed_aug() -> None:
    assert list(build(plain(3, inversions=False))) == ["homogeneous", "mixed"]


def test_inversions_are_used_evenly_where_some_are_missing() -> None:
    data = plain(6)
    some = replace(data, inversions=[i for i in data.inversions if not i.argument_id.endswith("0")])
    aug = build(some)["mixed_aug"]
    assert aug.kinds() == {"hard": 120, "semi_hard": 240, "easy": 240, "inverted": 120}
    inverted = [r for r in rows_of(aug) if r["negatives"][0]["kind"] == "inverted"]
    per_claim = Counter(r["claim_id"] for r in inverted)
    assert len(per_claim) == 6 and max(per_claim.values()) - min(per_claim.values()) <= 8


def test_an_inversion_that_is_a_known_positive_is_not_used() -> None:
    data = plain(3)
    bad = [replace(i, inverted=f" {i.claim_id} S1") if i.argument_id.endswith("s0") else i for i in data.inversions]
    rows = rows_of(build(replace(data, inversions=bad))["mixed_aug"])
    used = {r["negatives"][0]["id"] for r in rows if r["negatives"][0]["kind"] == "inverted"}
    assert used and not any(i.split("/")[0].endswith("s0") for i in used)


def test_too_little_data_says_what_is_missing() -> None:
    with pytest.raises(ValueError, match="got 0 triplets, wanted at least 1"):
        build(plain(2), triplets=0)
    with pytest.raises(ValueError, match="none of the 1 claims has both a supporting and an attacking argument"):
        build(stance_data({"x": {"support": ["s"], "attack": []}}))
    one_group = stance_data(
        {c: {"support": [f"{c} s"], "attack": [f"{c} a"]} for c in ("x", "y")}, groups={"x": "g", "y": "g"}
    )
    with pytest.raises(
        ValueError, match=r"no semi-hard negative for \('x', support\).*group 'g'; add claims of other"
    ):
        build(one_group)
    no_easy = stance_data(  # whatever attacks y or z supports the other one
        {
            "x": {"support": ["p"], "attack": ["q"]},
            "y": {"support": ["r"], "attack": ["t"]},
            "z": {"support": ["t"], "attack": ["r"]},
        }
    )
    with pytest.raises(ValueError, match=r"no easy negative for \('x', support\)"):
        build(no_easy)
    data = plain(3)
    with pytest.raises(
        ValueError, match=r"half of its 120 hard negatives, 60, .* only .* have a positive with one \(1 inv"
    ):
        build(replace(data, inversions=data.inversions[:1]))


@pytest.mark.parametrize(("batch", "dictionary"), [(7, 20_000), (100_000, 0), (7, 10)])
def test_batches_and_encodings_change_no_row(monkeypatch: pytest.MonkeyPatch, batch: int, dictionary: int) -> None:
    aug = build(plain(4))["mixed_aug"]
    whole = rows_of(aug)
    monkeypatch.setattr("dataset_builders.stance.curricula._BATCH", batch)
    monkeypatch.setattr("dataset_builders.stance.curricula._DICTIONARY", dictionary)
    assert rows_of(aug) == whole and len({b.schema for b in aug.batches()}) == 1
