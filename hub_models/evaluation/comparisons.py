"""Paired differences between two per-query tables, slice by slice, for either family of tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from hub_models.evaluation.measured import Table, matching_rows
from hub_models.evaluation.results import Comparison
from hub_models.evaluation.significance import paired_differences


def comparisons(
    table: Table,
    baseline: Table,
    name: str,
    *,
    slices: Mapping[str, NDArray[np.bool_]],
    metrics: Sequence[str],
    units: NDArray[np.object_],
    unit: str,
    alone: str,
    resamples: int,
    seed: int,
) -> list[Comparison]:
    """Every metric's difference in every slice that has rows, with an interval that resamples units.

    Args:
        table: The system's per-query values.
        baseline: The baseline's, its rows in any order.
        name: The baseline's id.
        slices: Slice name to bool[n_rows].
        metrics: Columns of both tables.
        units: What each row belongs to, such as its claim.
        unit: What a unit is called.
        alone: A single unit, in words, for the reason why there is no interval.
        resamples: Draws for each interval and p-value.
        seed: Their seed.

    Raises:
        ValueError: If the two were not asked the same queries.
    """
    match = matching_rows(table, baseline, f"baseline {name!r}")
    found: list[Comparison] = []
    for slice_name, rows in slices.items():
        if not rows.any():
            continue
        differences = np.stack([(table[m] - baseline[m][match])[rows] for m in metrics], axis=1)
        paired = paired_differences(differences, units[rows].tolist(), resamples=resamples, seed=seed)
        found += [
            Comparison(
                baseline=name,
                slice=slice_name,
                metric=metric,
                **asdict(difference),
                unit=unit,
                reason=f"{alone} gives nothing to resample" if difference.low is None else None,
            )
            for metric, difference in zip(metrics, paired, strict=True)
        ]
    return found
