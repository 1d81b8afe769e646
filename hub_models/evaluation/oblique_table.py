"""Reading an oblique task's per-query table: slices, means, paired differences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hub_models.evaluation.comparisons import comparisons
from hub_models.evaluation.measured import Table
from hub_models.evaluation.oblique_metrics import LARGEST_SHARE, METRICS
from hub_models.evaluation.results import Comparison, Metric

UNIT = "query group"

FEW_GROUPS = 14
"""Intervals over fewer groups than these come out too narrow."""


def slices_of(table: Table) -> dict[str, NDArray[np.bool_]]:
    """``overall``; and where the table has a development split, ``development`` and the ``clean`` remainder."""
    development = table["development"].astype(bool)
    everything = np.full(len(development), True)
    if not development.any() or development.all():
        return {"overall": everything}
    return {"overall": everything, "clean": ~development, "development": development}


def summarise(table: Table, n_documents: int) -> dict[str, dict[str, Metric]]:
    """Slice to metric to mean and sample std over its queries; null, with the reason, for what was not computed."""
    found: dict[str, dict[str, Metric]] = {}
    for name, rows in slices_of(table).items():
        found[name] = {
            metric: Metric.over(table[metric][rows])
            if metric in table
            else Metric(mean=None, std=None, n=int(rows.sum()), reason=_reason(metric, table, n_documents))
            for metric in METRICS
        }
    return found


def _reason(metric: str, table: Table, n_documents: int) -> str:
    if metric.endswith("_pooled") and "ndcg_at_10_pooled" not in table:
        return "there are no pooled judgements"
    k = metric.split("_")[2]
    return f"{k} is over {LARGEST_SHARE:.0%} of a corpus of {n_documents} documents"


def compare(table: Table, baseline: Table, name: str, *, resamples: int = 10_000, seed: int = 0) -> list[Comparison]:
    """Paired differences on the same queries, over every slice, with intervals that resample query groups.

    Args:
        table: The system's per-query values.
        baseline: The baseline's, on the same data.
        name: The baseline's id.
        resamples: Draws for each interval and p-value.
        seed: Their seed.

    Raises:
        ValueError: If the two were not asked the same queries.
    """
    metrics = [m for m in METRICS if m in table and m in baseline]
    return comparisons(
        table,
        baseline,
        name,
        slices=slices_of(table),
        metrics=metrics,
        units=table["group"],
        unit=UNIT,
        alone="one group",
        resamples=resamples,
        seed=seed,
    )
