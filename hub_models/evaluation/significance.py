"""Paired differences between two systems, with intervals and p-values that respect how the queries hang together.

The five instructions and two stances of one claim are no independent draws: resampled by query, the interval comes out
far too narrow. So whole units (claims, or attribute groups) are resampled, with all the queries they hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hub_models.evaluation.resampling import flipped, generator, resampled

Float64 = NDArray[np.float64]


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
    differences: Float64, units: Sequence[str], *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> PairedDifference:
    """`paired_differences` of a single metric: float64[n_queries]."""
    (found,) = paired_differences(differences[:, None], units, level=level, resamples=resamples, seed=seed)
    return found


def paired_differences(
    differences: Float64, units: Sequence[str], *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> list[PairedDifference]:
    """Bootstrap the means of paired differences by unit, several metrics on the same draws.

    With few units percentile intervals are a little short: of 95 % intervals of normal differences, 93 % cover the
    truth with 30 units and 91 % with 14.

    Args:
        differences: float64[n_queries, n_metrics], system minus baseline on the same query.
        units: The unit (claim id) of each query. A drawn unit brings all its queries, so units of different size weigh
            as they do in the plain mean.
        level: Coverage in (0, 1).
        resamples: Draws for the interval, and again for the p-value.
        seed: Same seed, same numbers.

    Returns:
        One for each metric.

    Raises:
        ValueError: If there is no query, the lengths differ, or a difference is not finite.
    """
    if not len(differences) or len(differences) != len(units):
        raise ValueError(
            f"got {len(differences)} differences and {len(units)} units, wanted one unit for each of 1 or more"
        )
    finite = np.isfinite(differences).all(axis=1)
    if not finite.all():
        raise ValueError(f"got a difference that is not finite for unit {units[int(np.argmin(finite))]!r}")
    _, index = np.unique(np.asarray(units), return_inverse=True)
    counts = np.bincount(index).astype(np.float64)
    sums = np.stack([np.bincount(index, weights=column) for column in differences.T], axis=1)
    n = len(counts)
    deltas = sums.sum(axis=0) / counts.sum()
    if n < 2:
        return [PairedDifference(float(d), None, None, None, n, level, resamples, seed) for d in deltas]

    rng = generator(seed)
    columns: Float64 = np.ascontiguousarray(sums.T)
    uneven = bool((counts != counts[0]).any())
    drawn = resampled(rng, np.vstack([columns, counts]) if uneven else columns, resamples)
    means = drawn[: len(deltas)] / (drawn[-1] if uneven else counts.sum())
    tail = (1 - level) / 2
    low, high = np.quantile(means, [tail, 1 - tail], axis=1)

    # Under no difference a unit's sign is a coin. The slack keeps a draw that equals what was observed from being lost
    # to rounding.
    observed = np.abs(sums.sum(axis=0)) - 1e-12 * np.abs(sums).sum(axis=0)
    extreme = (np.abs(flipped(rng, columns, resamples)) >= observed[:, None]).sum(axis=1)
    p = (1 + extreme) / (1 + resamples)
    return [
        PairedDifference(float(d), float(lo), float(hi), float(q), n, level, resamples, seed)
        for d, lo, hi, q in zip(deltas, low, high, p, strict=True)
    ]
