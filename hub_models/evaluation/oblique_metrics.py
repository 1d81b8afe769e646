"""NDCG and recall of oblique tasks, and of what they are taken (O section 2, appendix M)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hub_models.evaluation.measured import Table
from hub_models.evaluation.metrics import Float64, Int

Judged = Literal["gold", "pooled"]

NDCG_AT = (10, 50)
RECALL_AT = (10, 50, 100, 1000)
DEPTH = RECALL_AT[-1]
METRICS = tuple(
    f"{name}_at_{k}_{judged}"
    for judged in ("gold", "pooled")
    for name, cuts in (("ndcg", NDCG_AT), ("recall", RECALL_AT))
    for k in cuts
)
MAIN = "ndcg_at_10_gold"

GAIN_AT = (1, 2, 3, 5, 10, 20, 50, 100)
"""Ranks at which NDCG is kept for each query, so that the gain over another run can be read by rank (O figure 3)."""

SHUFFLED = "shuffled_ndcg_at_10_gold"
SHUFFLE_DEPTH = 100

LARGEST_SHARE = 0.1
"""Recall at k says little where k is a larger share of the corpus than this: it is null."""


@dataclass(frozen=True, slots=True)
class Relevant:
    """What is right for one query: grade by document column, and all grades, best first, also of what is absent."""

    grades: dict[int, int]
    ideal: Float64


def values(
    grades: Int, relevant: Sequence[Relevant], ndcg_at: Sequence[int], recall_at: Sequence[int], name: Judged
) -> Table:
    """NDCG (linear gain, ideal over all that is relevant) and recall of int64[n_queries, depth] grades in ranked
    order."""
    found: Table = {}
    for k in ndcg_at:
        top = grades[:, :k]
        found[f"ndcg_at_{k}_{name}"] = (top @ _discounts(top.shape[1])) / _ideal(relevant, k)
    n_relevant = np.array([int((r.ideal > 0).sum()) for r in relevant])
    for k in recall_at:
        found[f"recall_at_{k}_{name}"] = (grades[:, :k] > 0).sum(axis=1) / n_relevant
    return found


def shuffled(grades: Int, n_found: Int, relevant: Sequence[Relevant]) -> Float64:
    """NDCG@10 that is expected, exactly, once the first 100 are put in random order (O appendix M): at each rank the
    mean grade of what was found."""
    n = np.minimum(n_found, SHUFFLE_DEPTH)
    mean_grade = grades[:, :SHUFFLE_DEPTH].sum(axis=1) / np.maximum(n, 1)
    discounted = np.concatenate([[0.0], np.cumsum(_discounts(10))])[np.minimum(n, 10)]
    return np.asarray(mean_grade * discounted / _ideal(relevant, 10))


def _ideal(relevant: Sequence[Relevant], k: int) -> Float64:
    return np.array([float(r.ideal[:k] @ _discounts(min(k, len(r.ideal)))) for r in relevant])


def _discounts(n: int) -> Float64:
    return 1 / np.log2(np.arange(2, n + 2))
