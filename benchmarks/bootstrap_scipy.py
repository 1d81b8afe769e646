"""The interval of a mean paired difference as scipy gives it: the opponent of `paired_difference`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Float64 = NDArray[np.float64]


def interval(ours: Float64, theirs: Float64, resamples: int, level: float, seed: int) -> tuple[float, float]:
    """Low and high end of the percentile interval of the mean of ``ours - theirs``, vectorised."""

    def mean_difference(a: Float64, b: Float64, axis: int) -> Any:
        return (a - b).mean(axis=axis)

    found = stats.bootstrap(
        (ours, theirs),
        mean_difference,
        paired=True,
        n_resamples=resamples,
        confidence_level=level,
        method="percentile",
        vectorized=True,
        rng=np.random.default_rng(seed),
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)
