"""Draws are told from the sums of unit vectors: each column counts how often its own unit was drawn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from hub_models.evaluation import resampling
from hub_models.evaluation.resampling import flipped, generator, resampled


def _counts(n: int, resamples: int, seed: int = 0) -> np.ndarray:
    return resampled(generator(seed), np.eye(n), resamples)


@pytest.mark.parametrize("n", [2, 3, 40, 41, 513])
def test_a_resample_holds_n_draws(n):
    counts = _counts(n, 300)
    assert counts.shape == (n, 300)
    assert (counts.sum(axis=0) == n).all()
    assert (counts >= 0).all() and (counts == counts.round()).all()
    assert not (counts == counts[:, :1]).all()


def test_every_resample_of_three_is_as_frequent_as_it_is_likely():
    """Of 27 ordered draws one gives three times the same, three give two of one and one of another, six give all."""
    counts = _counts(3, 54_000)
    patterns, found = np.unique(counts.astype(int), axis=1, return_counts=True)
    wanted = [{3: 1, 2: 3, 1: 6}[int(pattern.max())] * 2_000 for pattern in patterns.T]
    assert len(found) == 10
    assert stats.chisquare(found, wanted).pvalue > 0.001


@pytest.mark.parametrize("n", [40, 41])
def test_units_are_drawn_alike_and_apart(n):
    counts = _counts(n, 4_000)
    assert stats.chisquare(counts.sum(axis=1)).pvalue > 0.001
    assert counts.var() == pytest.approx(1 - 1 / n, rel=0.02)  # of a binomial distribution
    correlation = np.corrcoef(counts)[np.triu_indices(n, 1)]
    assert correlation.mean() == pytest.approx(-1 / (n - 1), abs=2e-3)
    assert np.abs(correlation).max() < 0.1


def test_signs_are_coins_of_each_unit():
    signs = flipped(generator(0), np.eye(21), 8_000)
    assert (np.abs(signs) == 1).all()
    assert np.abs(signs.mean(axis=1)).max() < 0.05
    assert np.abs(np.corrcoef(signs)[np.triu_indices(21, 1)]).max() < 0.06
    values = np.random.default_rng(0).normal(size=(2, 21))
    np.testing.assert_allclose(flipped(generator(0), values, 8_000), values @ signs, atol=1e-12)


def test_columns_have_the_same_draws_alone_and_together():
    values = np.random.default_rng(0).normal(size=(3, 41))
    together = resampled(generator(5), values, 2_000)
    np.testing.assert_allclose(together, values @ _counts(41, 2_000, seed=5), atol=1e-12)
    np.testing.assert_array_equal(together[1:2], resampled(generator(5), values[1:2], 2_000))


def test_numbers_that_would_favour_some_are_drawn_anew():
    """Of 2**32 words a quarter is too many for 3 * 2**30: Lemire's rule by hand, one word after the other."""
    high, numbers = 3 * 2**30, np.empty(6, np.uint64)
    resampling._fill(generator(1), high, numbers)
    words = iter(generator(1).bit_generator.random_raw(12).view(np.uint32).tolist())
    wanted, missing = [0] * 6, list(range(6))
    while missing:
        drawn = {i: next(words) * high for i in missing}
        if len(missing) % 2:
            next(words)  # the second half of the last 64 bits
        wanted = [drawn[i] >> 32 if i in drawn else kept for i, kept in enumerate(wanted)]
        missing = [i for i in missing if drawn[i] % 2**32 < 2**32 % high]
    assert numbers.tolist() == wanted
    many = np.empty(30_000, np.uint64)
    resampling._fill(generator(2), high, many)
    assert stats.chisquare(np.bincount((many // 2**30).astype(int))).pvalue > 0.001
