"""Paired differences between two systems, with intervals and p-values that respect how the queries hang together.

The five instructions and two stances of one claim are no independent draws: resampled by query, the interval comes out
far too narrow. So whole units (claims, or attribute groups) are resampled, with all the queries they hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_BLOCK = 2**22  # numbers drawn at once: bounds memory, whatever the number of units


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The mean difference over queries and what chance says about it.

    Attributes:
        delta: Mean of the per-query differences, in the metric's unit.
        low: Lower end of the percentile interval; None with fewer than two units, where there is nothing to resample.
        high: Its upper end.
        p: Two-sided p-value of the sign-flip test over units: how often differences of random sign are as far from 0.
        n_units: How many units were resampled.
        level: Coverage of the interval, such as 0.95.
        resamples: How many draws each of interval and p-value took.
        seed: The seed of both.
    """

    delta: float
    low: float | None
    high: float | None
    p: float | None
    n_units: int
    level: float
    resamples: int
    seed: int

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval says which system is better."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def paired_difference(
    differences: NDArray[np.float64],
    units: Sequence[str],
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> PairedDifference:
    """Bootstrap the mean of paired differences by unit.

    With few units percentile intervals are a little short: of 95 % intervals of normal differences, 93 % cover the
    truth with 30 units and 91 % with 14.

    Args:
        differences: float64[n_queries], system minus baseline on the same query.
        units: The unit (claim id) of each query. A drawn unit brings all its queries, so units of different size
            weigh as they do in the plain mean.
        level: Coverage in (0, 1).
        resamples: Draws for the interval, and again for the p-value.
        seed: Same seed, same numbers.

    Raises:
        ValueError: If there is no query, the lengths differ, or a difference is not finite.
    """
    if not len(differences) or len(differences) != len(units):
        raise ValueError(
            f"got {len(differences)} differences and {len(units)} units, wanted one unit for each of 1 or more"
        )
    if not np.isfinite(differences).all():
        raise ValueError(
            f"got a difference that is not finite for unit {units[int(np.argmin(np.isfinite(differences)))]!r}"
        )
    _, index = np.unique(np.asarray(units), return_inverse=True)
    sums = np.bincount(index, weights=differences)
    counts = np.bincount(index).astype(np.float64)
    n = len(sums)
    delta = float(sums.sum() / counts.sum())
    if n < 2:
        return PairedDifference(delta, None, None, None, n, level, resamples, seed)

    rng = np.random.default_rng(seed)
    block = max(1, _BLOCK // n)
    sizes = [min(block, resamples - start) for start in range(0, resamples, block)]
    means = np.empty(0)
    for size in sizes:
        drawn = rng.multinomial(n, np.full(n, 1 / n), size=size).astype(np.float64)  # how often each unit was drawn
        means = np.append(means, (drawn @ sums) / (drawn @ counts))
    tail = (1 - level) / 2
    low, high = np.quantile(means, [tail, 1 - tail])

    # Under no difference a unit's sign is a coin. The slack keeps a draw equal to the observed one from being lost to
    # rounding.
    slack = 1e-12 * np.abs(sums).sum()
    extreme = 0
    for size in sizes:
        signs = rng.integers(0, 2, size=(size, n)) * 2.0 - 1.0
        extreme += int((np.abs(signs @ sums) >= abs(sums.sum()) - slack).sum())
    p = (1 + extreme) / (1 + resamples)
    return PairedDifference(delta, float(low), float(high), p, n, level, resamples, seed)
