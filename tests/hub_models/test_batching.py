"""The sampler against a reference that reads texts, and under two real processes."""

from __future__ import annotations

import functools
import itertools
import json
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataset_builders.text import claim_key, text_key
from hub_models.batching import DistinctClaimBatchSampler, RowKeys

CASES = Path(__file__).parent.parent / "cases"

Row = dict[str, Any]


def row(claim: str, positive: str, *negatives: str, stance: str = "support", claim_id: str | None = None) -> Row:
    ids = claim_id or f"id of {claim}"
    return {"claim_id": ids, "claim": claim, "stance": stance, "positive": positive, "negatives": negatives}


def keys_of(rows: list[Row]) -> RowKeys:
    columns = ([r[c] for r in rows] for c in ("claim_id", "claim", "stance", "positive", "negatives"))
    return RowKeys.from_columns(*columns)


def sampler(rows: list[Row], batch_size: int, **options: Any) -> DistinctClaimBatchSampler:
    return DistinctClaimBatchSampler(rows, batch_size, keys=keys_of(rows), **options)


def epoch(s: DistinctClaimBatchSampler, number: int = 0) -> list[list[int]]:
    s.set_epoch(number)
    return list(s)


def claims_of(rows: list[Row]) -> list[int]:
    """One number for rows with equal id or equal claim, passed on until nothing changes."""
    label = list(range(len(rows)))
    for _ in rows:
        for i, j in itertools.product(range(len(rows)), repeat=2):
            a, b = rows[i], rows[j]
            if a["claim_id"] == b["claim_id"] or claim_key(a["claim"]) == claim_key(b["claim"]):
                label[i] = label[j] = min(label[i], label[j])
    return label


def conflicts(rows: list[Row]) -> set[tuple[int, int]]:
    """The contract, word by word, on texts: all pairs (i, j) that may not meet."""
    claim = claims_of(rows)
    known = [
        {
            text_key(r["positive"])
            for c, r in zip(claim, rows, strict=True)
            if c == own and r["stance"] == row["stance"]
        }
        for own, row in zip(claim, rows, strict=True)
    ]
    texts = [{text_key(t) for t in (r["positive"], *r["negatives"])} for r in rows]
    pairs = itertools.permutations(range(len(rows)), 2)
    return {(i, j) for i, j in pairs if claim[i] == claim[j] or known[i] & texts[j] or known[j] & texts[i]}


def case14() -> list[Row]:
    rows = [json.loads(line) for line in (CASES / "case14_repeated_claim.jsonl").read_text("utf-8").splitlines()]
    return [{**r, "negatives": [n["text"] for n in r["negatives"]]} for r in rows]


def case15() -> list[Row]:
    claims = ["c0"] * 180 + [f"c{i}" for i in range(1, 21)]
    return [row(c, f"positive {i}", f"negative {i}", claim_id=c) for i, c in enumerate(claims)]


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([row("A", "p"), row("A", "q")], "one claim"),
        ([row("Ban guns.", "p", claim_id="1"), row("ban  GUNS", "q", claim_id="2")], "one claim text"),
        ([row("A", "p", claim_id="1"), row("B", "q", claim_id="1")], "one claim id"),
        ([row("A", "It works."), row("B", " it WORKS. ")], "one positive"),
        ([row("A", "p"), row("B", "q", "P")], "a negative is the other's positive"),
        ([row("A", "p"), row("B", "q", "known"), row("A", "known")], "a negative is another row's known positive"),
        ([row("A", "p"), row("B", "q"), row("A", "q", stance="support")], "a positive is a known positive"),
    ],
)
def test_rows_that_conflict_never_meet(rows: list[Row], why: str) -> None:
    assert (0, 1) in conflicts(rows)
    for number in range(20):
        s = sampler([*rows, row("other", "o"), row("another", "a")], 2, min_coverage=0, seed=number)
        assert all(not {0, 1} <= set(batch) for batch in epoch(s)), why


def test_the_other_stance_is_no_conflict() -> None:
    """What A's attackers look for may be a negative beside an A that looks for support."""
    rows = [row("A", "p"), row("B", "q", "against A"), row("A", "against A", stance="attack")]
    assert (0, 1) not in conflicts(rows)
    seen = {frozenset(b) for n in range(20) for b in epoch(sampler(rows, 2, min_coverage=0, seed=n))}
    assert frozenset({0, 1}) in seen
    assert frozenset({1, 2}) not in seen


def test_equal_claims_are_one_claim_through_a_chain() -> None:
    """Id 1 links X to Y, the text Y links id 1 to id 2: the three are one claim."""
    rows = [row("X", "p", claim_id="1"), row("Y", "q", claim_id="1"), row("Y", "r", claim_id="2")]
    keys = keys_of([*rows, row("Z", "s")])
    assert keys.claim[0] == keys.claim[1] == keys.claim[2] != keys.claim[3]


def test_repeated_claims_of_case_14() -> None:
    rows = case14()
    s = sampler(rows, 4, min_coverage=0)
    for number in range(5):
        batches = epoch(s, number)
        assert sum(map(len, batches)) == 16  # 8 rows of c01, each with one of the 8 others: no more is possible
        for batch in batches:
            ids = Counter(rows[i]["claim_id"] for i in batch)
            assert ids["c01"] <= 1
            assert ids["c02"] + ids["c03"] <= 1
            assert ids["c04"] + ids["c05"] <= 1


def test_dominant_claim_of_case_15_in_one_process() -> None:
    rows = case15()
    s = sampler(rows, 16, min_coverage=0)
    batches = epoch(s)
    assert [len(b) for b in batches] == [2] * 20 == [2] * len(s)  # all that can be placed: 40 of 200
    with pytest.raises(ValueError, match=r"hold 20\.0% of the 200 rows .* Claim 'c0' alone has 180 of the 200 rows"):
        sampler(rows, 16)


def test_dominant_claim_of_case_15_in_two_processes() -> None:
    with pytest.raises(ValueError, match=r"32 rows of different claims \(16 x 2 processes\).* has 21. Claim 'c0'"):
        sampler(case15(), 16, world_size=2)


def test_epochs_differ_and_a_seed_repeats_case_16() -> None:
    rows = [row(f"c{i}", f"p{i}") for i in range(20)]

    def orders(seed: int) -> list[list[int]]:
        s = sampler(rows, 4, seed=seed, epochs=3)
        return [[i for batch in epoch(s, n) for i in batch] for n in range(3)]

    first = orders(0)
    assert first == orders(0)
    assert all(sorted(order) == list(range(20)) for order in first)
    assert len({tuple(order) for order in (*first, *orders(1))}) == 6


def test_no_row_is_left_alone() -> None:
    """17 rows in batches of 16 come as 15 and 2."""
    assert [len(b) for b in epoch(sampler([row(f"c{i}", f"p{i}") for i in range(17)], 16))] == [15, 2]


def test_a_claim_is_spread_over_the_epoch() -> None:
    """Ten claims with 100 rows and 1000 with one: the large ones do not crowd into the first batches."""
    rows = [row(f"c{i % 10}", f"p{i}") for i in range(1000)] + [row(f"s{i}", f"q{i}") for i in range(1000)]
    batches = epoch(sampler(rows, 16))
    first, second = (
        sum(i < 1000 for b in half for i in b) for half in (batches[: len(batches) // 2], batches[len(batches) // 2 :])
    )
    assert abs(first - second) < 100


small = st.lists(
    st.builds(
        row,
        claim=st.sampled_from("ABCDEFG"),
        positive=st.sampled_from([f"t{i}" for i in range(20)]),
        stance=st.sampled_from(["support", "attack"]),
        claim_id=st.sampled_from([None, None, None, "x"]),
    ).flatmap(
        lambda r: st.lists(st.sampled_from([f"t{i}" for i in range(20)]), max_size=2).map(
            lambda negatives: {**r, "negatives": negatives}
        )
    ),
    min_size=8,
    max_size=40,
)


@settings(deadline=None, max_examples=150)
@given(small, st.integers(2, 4), st.integers(1, 2))
def test_against_the_reference(rows: list[Row], batch_size: int, world: int) -> None:
    try:
        s = sampler(rows, batch_size, epochs=3, min_coverage=0, world_size=world)
    except ValueError:
        return  # too few claims, or a row at odds with itself
    forbidden = conflicts(rows)
    for number in range(3):
        batches = epoch(s, number)
        placed = [i for batch in batches for i in batch]
        assert len(batches) == len(s)
        assert len(placed) == len(set(placed))
        steps = [list(itertools.chain(*batches[i : i + world])) for i in range(0, len(batches), world)]
        for step in steps:
            assert not forbidden & set(itertools.combinations(step, 2))
        if world > 1:
            assert all(len(b) == batch_size for b in batches)
        else:
            assert all(2 <= len(b) <= batch_size for b in batches)
    if world == 1:  # whatever is left over fits with nothing else that is left over
        one = sampler(rows, batch_size, min_coverage=0)
        unused = set(range(len(rows))) - set(itertools.chain(*epoch(one)))
        assert set(itertools.permutations(unused, 2)) <= forbidden


@settings(deadline=None, max_examples=200)
@given(st.lists(st.integers(1, 30), min_size=8, max_size=12), st.integers(2, 4), st.integers(0, 5))
def test_nothing_is_lost_that_could_be_placed(sizes: list[int], batch_size: int, seed: int) -> None:
    """Without texts in common the best there is can be told from the claims' sizes alone."""
    rows = [row(f"c{c}", f"p{c} {i}") for c, n in enumerate(sizes) for i in range(n)]
    total, most = len(rows), max(sizes)

    alone = epoch(sampler(rows, batch_size, min_coverage=0, seed=seed))
    odd_one_out = batch_size == 2 and total % 2
    assert sum(map(len, alone)) == min(total - odd_one_out, 2 * (total - most))

    step = 2 * batch_size
    together = epoch(sampler(rows, batch_size, min_coverage=0, seed=seed, world_size=2))
    possible = max(g for g in range(total + 1) if sum(min(n, g) for n in sizes) >= g * step)
    assert len(together) // 2 == possible


def test_more_epochs_cover_what_one_drops() -> None:
    """10 claims with 1 row each, steps of 8: one epoch sees .8, a run of many epochs all."""
    rows = [row(f"c{i}", f"p{i}") for i in range(10)]
    assert sampler(rows, 4, world_size=2, epochs=20).coverage == 1.0
    with pytest.raises(ValueError, match=r"80\.0% of the 10 rows over 1 epoch"):
        sampler(rows, 4, world_size=2)


def test_a_row_at_odds_with_itself_is_refused() -> None:
    rows = [
        row("A", "It would cost jobs.", "x", stance="attack"),
        row("A", "y", "it would COST jobs. ", stance="attack"),
    ]
    with pytest.raises(ValueError, match=r"1 negatives are a known positive of their own claim and stance.*row 1"):
        keys_of(rows)


def test_keys_of_another_dataset_are_refused() -> None:
    rows = case15()
    with pytest.raises(ValueError, match="keys of 200 rows for a dataset of 3"):
        DistinctClaimBatchSampler(rows[:3], 2, keys=keys_of(rows))


def test_a_partial_of_it_can_be_pickled() -> None:
    rows = [row(f"c{i}", f"p{i}") for i in range(8)]
    make = pickle.loads(pickle.dumps(functools.partial(DistinctClaimBatchSampler, keys=keys_of(rows))))
    assert sum(map(len, make(rows, 4))) == 8


@pytest.mark.slow  # what two processes learn together is tested in test_training_processes.py
def test_two_processes_share_no_claim_in_a_step(tmp_path: Path) -> None:
    """The trainer's own loader on two gloo ranks; one claim has a row in each of the 10 steps."""
    script = Path(__file__).parent / "two_ranks.py"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(script)]
    subprocess.run([*command, str(tmp_path)], check=True, timeout=120, capture_output=True)
    ranks = [json.loads((tmp_path / f"rank{r}.json").read_text()) for r in (0, 1)]
    assert [r["world_size"] for r in ranks] == [2, 2]
    rows = ranks[0]["rows"]
    for number in range(2):
        mine, theirs = (r["epochs"][number] for r in ranks)
        assert len(mine) == len(theirs) == 10
        assert sorted(itertools.chain(*mine, *theirs)) == list(range(80))
        for a, b in zip(mine, theirs, strict=True):
            assert len(a) == len(b) == 4
            claims = [rows[i] for i in a + b]
            assert len(set(claims)) == 8
            assert "c0" in claims
    assert ranks[0]["epochs"][0] != ranks[0]["epochs"][1]
