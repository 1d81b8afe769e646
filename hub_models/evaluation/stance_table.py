"""Reading a stance task's per-query table: slices, means, diagnostics, paired differences."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataset_builders.instructions import STANCES
from dataset_builders.schema import STYLES
from hub_models.evaluation.comparisons import comparisons
from hub_models.evaluation.measured import Table
from hub_models.evaluation.metrics import STANCE_METRICS, Float64
from hub_models.evaluation.results import Comparison, Metric
from hub_models.evaluation.stance import ALL
from hub_models.evaluation.stance_ranking import ORACLE, TOPIC

COMPARED = (*STANCE_METRICS[:5], TOPIC)


def slices_of(table: Table) -> dict[str, NDArray[np.bool_]]:
    """Slice name to the rows it averages. All but ``instructions=seen`` leave the seen instructions out."""
    everything = table["candidates"] == ALL
    unseen = ~table["seen"].astype(bool)
    slices = {"overall": everything & unseen}
    slices |= {stance: everything & unseen & (table["stance"] == stance) for stance in STANCES}
    slices |= {f"style={s}": (table["candidates"] == s) & unseen for s in STYLES if (table["candidates"] == s).any()}
    if not unseen.all():
        slices["instructions=seen"] = everything & ~unseen
    return slices


def summarise(table: Table) -> dict[str, dict[str, Metric]]:
    """Slice to metric to mean and sample std over its queries."""
    return {
        name: {metric: Metric.over(table[metric][rows]) for metric in (*STANCE_METRICS, TOPIC, ORACLE)}
        for name, rows in slices_of(table).items()
    }


def diagnostics(table: Table, metric: str = "precision_at_r") -> dict[str, Any]:
    """What the means hide, over the unseen instructions and all documents.

    Returns:
        ``ties``: share of queries with equal scores among the first R + 1, where the id decided the order;
        ``by_instruction``: the metric's mean for each; ``spread_over_instructions``: sample std of those means, within
        each stance; ``spread_over_claims``: sample std of the claims' means. None where one value has no spread.
    """
    rows = slices_of(table)["overall"]
    values, claims = table[metric][rows], table["claim_id"][rows]
    found: dict[str, Any] = {"ties": float(table["tied"][rows].mean()), "metric": metric}
    found["spread_over_claims"] = _spread(_means(values, claims))
    instructions = table["instruction_id"][rows]
    if None not in instructions:
        by_instruction = _means(values, instructions)
        found["by_instruction"] = by_instruction
        found["spread_over_instructions"] = {
            s: _spread({i: m for i, m in by_instruction.items() if i.startswith(s)}) for s in STANCES
        }
    return found


def _means(values: Float64, keys: NDArray[Any]) -> dict[str, float]:
    return {key: float(values[keys == key].mean()) for key in sorted(set(keys))}


def _spread(means: dict[str, float]) -> float | None:
    return float(np.std(list(means.values()), ddof=1)) if len(means) > 1 else None


def compare(table: Table, baseline: Table, name: str, *, resamples: int = 10_000, seed: int = 0) -> list[Comparison]:
    """Paired differences on the same queries, over every slice, with intervals that resample claims.

    Args:
        table: The system's per-query values.
        baseline: The baseline's, of the same strategy on the same data.
        name: The baseline's id.
        resamples: Draws for each interval and p-value.
        seed: Their seed.

    Raises:
        ValueError: If the two were not asked the same queries.
    """
    return comparisons(
        table,
        baseline,
        name,
        slices=slices_of(table),
        metrics=COMPARED,
        units=table["claim_id"],
        unit="claim",
        alone="one claim",
        resamples=resamples,
        seed=seed,
    )
