"""The interval of a mean paired difference as scipy gives it, in two forms: the opponents of `paired_difference`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Float64 = NDArray[np.float64]


def interval(ours: Float64, theirs: Float64, resamples: int, level: float, seed: int) -> tuple[float, float]:
    """Low and high end of the percentile interval of the mean of ``ours - theirs``, vectorised: scipy's form for
    pairs, which draws and keeps both sides."""

    def mean_difference(a: Float64, b: Float64, axis: int) -> Any:
        return (a - b).mean(axis=axis)

    return _ends((ours, theirs), mean_difference, resamples, level, seed, paired=True)


def interval_of_one_sample(differences: Float64, resamples: int, level: float, seed: int) -> tuple[float, float]:
    """The same of differences that were taken before."""
    return _ends((differences,), np.mean, resamples, level, seed)


def _ends(
    samples: tuple[Float64, ...], statistic: Any, resamples: int, level: float, seed: int, **options: Any
) -> tuple[float, float]:
    found = stats.bootstrap(
        samples,
        statistic,
        n_resamples=resamples,
        confidence_level=level,
        method="percentile",
        vectorized=True,
        rng=np.random.default_rng(seed),
        **options,
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)
