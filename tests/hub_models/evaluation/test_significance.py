from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hub_models.evaluation.significance import paired_difference, paired_differences


def _clustered(seed: int = 0, n_units: int = 40) -> tuple[np.ndarray, list[str]]:
    """Units of different sizes whose queries share most of their difference."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 11, n_units)
    effect = rng.normal(0.05, 0.2, n_units)
    differences = np.concatenate([e + rng.normal(0, 0.02, s) for e, s in zip(effect, sizes, strict=True)])
    return differences, [f"c{u}" for u, s in enumerate(sizes) for _ in range(s)]


def test_delta_is_the_mean_over_queries():
    result = paired_difference(np.array([1.0, 0.0, 0.0]), ["a", "b", "b"])
    assert result.delta == pytest.approx(1 / 3)
    assert result.n_units == 2


def test_interval_agrees_with_scipy():
    differences, units = _clustered()
    ours = paired_difference(differences, units, resamples=20_000, seed=1)
    names = sorted(set(units))
    sums = np.array([differences[np.array(units) == u].sum() for u in names])
    counts = np.array([units.count(u) for u in names])
    theirs = stats.bootstrap(
        (sums, counts),
        lambda s, n, axis: s.sum(axis=axis) / n.sum(axis=axis),
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=20_000,
        rng=2,
    )
    width = ours.high - ours.low
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=0.04 * width)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=0.04 * width)


def test_p_agrees_with_scipys_exact_test():
    differences, units = _clustered(seed=4, n_units=10)
    sums = np.array([differences[np.array(units) == u].sum() for u in sorted(set(units))])
    exact = stats.permutation_test(
        (sums,), lambda s, axis: s.sum(axis=axis), permutation_type="samples", vectorized=True
    )
    assert len(exact.null_distribution) == 2**10
    assert paired_difference(differences, units, resamples=50_000).p == pytest.approx(exact.pvalue, abs=0.01)


def test_intervals_by_claim_are_wider_than_by_query_where_queries_hang_together():
    differences, units = _clustered()
    by_claim = paired_difference(differences, units)
    by_query = paired_difference(differences, [str(i) for i in range(len(differences))])
    assert by_claim.delta == pytest.approx(by_query.delta)
    assert by_claim.high - by_claim.low > 1.8 * (by_query.high - by_query.low)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(7)
    units = [f"c{u}" for u in range(30) for _ in range(4)]
    hits = 0
    for seed in range(400):
        differences = np.repeat(rng.normal(0.1, 0.3, 30), 4)
        result = paired_difference(differences, units, resamples=1_000, seed=seed)
        hits += result.low <= 0.1 <= result.high
    assert 0.89 <= hits / 400 <= 0.98


def test_one_seed_gives_one_answer():
    differences, units = _clustered()
    assert paired_difference(differences, units, seed=3) == paired_difference(differences, units, seed=3)
    assert paired_difference(differences, units, seed=3) != paired_difference(differences, units, seed=4)
    found = paired_difference(np.arange(-2.0, 8.0), list("abcdefghij"), seed=3)
    assert (found.low, found.high, found.p) == pytest.approx((0.7, 4.3, 444 / 10_001), abs=1e-12)


def test_several_metrics_get_what_each_gets_alone():
    differences, units = _clustered()
    other = np.random.default_rng(1).normal(size=len(differences))
    both = paired_differences(np.stack([differences, other], axis=1), units)
    for found, alone in zip(both, [paired_difference(d, units) for d in (differences, other)], strict=True):
        assert (found.delta, found.low, found.high, found.p) == pytest.approx(
            (alone.delta, alone.low, alone.high, alone.p), abs=1e-12
        )


def test_no_difference_is_never_significant():
    result = paired_difference(np.zeros(6), ["a", "a", "b", "b", "c", "c"])
    assert (result.delta, result.low, result.high, result.p) == (0, 0, 0, 1)
    assert not result.excludes_zero


def test_one_unit_has_no_interval():
    result = paired_difference(np.array([0.2, 0.4]), ["a", "a"])
    assert (result.delta, result.low, result.high, result.p) == (pytest.approx(0.3), None, None, None)
    assert not result.excludes_zero


def test_bad_input():
    with pytest.raises(ValueError, match="got 0 differences and 0 units"):
        paired_difference(np.array([]), [])
    with pytest.raises(ValueError, match="got 1 differences and 2 units"):
        paired_difference(np.array([1.0]), ["a", "b"])
    with pytest.raises(ValueError, match="not finite for unit 'b'"):
        paired_difference(np.array([1.0, np.nan]), ["a", "b"])


# -- whatever the differences --------------------------------------------------------------------------------------

QUERIES = st.lists(st.tuples(st.integers(-8, 8), st.sampled_from("abcdef")), min_size=1, max_size=30)
"""A difference in eighths, whose sums are exact, and the unit, of each query: units of any size, or just one."""


def _found(queries, *, factor=1.0, level=0.9):
    differences = np.array([eighths / 8 * factor for eighths, _ in queries])
    return paired_difference(differences, [unit for _, unit in queries], level=level, resamples=200, seed=5)


def _ends(found):
    return found.low, found.high


@given(QUERIES)
@settings(max_examples=50, deadline=None)
def test_the_sides_swapped_are_the_same_interval_mirrored(queries):
    found, swapped = _found(queries), _found(queries, factor=-1)
    assert (swapped.delta, swapped.p, swapped.n_units) == (-found.delta, found.p, found.n_units)
    if found.n_units > 1:
        assert _ends(swapped) == pytest.approx((-found.high, -found.low), abs=1e-12)


@given(QUERIES, st.sampled_from([0.01, 3.0, 100.0]))
@settings(max_examples=50, deadline=None)
def test_another_measure_of_the_differences_scales_all_but_p(queries, factor):
    found, scaled = _found(queries), _found(queries, factor=factor)
    assert scaled.p == found.p
    assert scaled.delta == pytest.approx(factor * found.delta, abs=1e-12 * factor)
    if found.n_units > 1:
        assert _ends(scaled) == pytest.approx((factor * found.low, factor * found.high), abs=1e-12 * factor)


@given(QUERIES.flatmap(lambda queries: st.tuples(st.just(queries), st.permutations(queries))))
@settings(max_examples=50, deadline=None)
def test_the_order_of_queries_and_units_does_not_matter(orders):
    assert _found(orders[0]) == _found(orders[1])


@given(QUERIES)
@settings(max_examples=50, deadline=None)
def test_the_interval_lies_between_the_extreme_units_and_grows_with_its_level(queries):
    found, wider = _found(queries), _found(queries, level=0.99)
    by_unit = {unit: np.mean([e / 8 for e, u in queries if u == unit]) for _, unit in queries}
    assert found.delta == pytest.approx(np.mean([eighths / 8 for eighths, _ in queries]))
    if found.n_units == 1:
        assert (found.low, found.high, found.p) == (None, None, None)
        return
    assert min(by_unit.values()) - 1e-12 <= wider.low <= found.low <= found.high <= wider.high
    assert wider.high <= max(by_unit.values()) + 1e-12
    assert 0 < found.p <= 1


@given(st.integers(-8, 8), st.lists(st.sampled_from("abcdef"), min_size=2, max_size=20))
@settings(max_examples=50, deadline=None)
def test_one_difference_everywhere_is_the_whole_interval(eighths, units):
    found = _found([(eighths, unit) for unit in units])
    if found.n_units > 1:
        assert (found.delta, *_ends(found)) == pytest.approx((eighths / 8,) * 3, abs=1e-12)
