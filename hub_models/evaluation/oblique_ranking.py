"""From scores to per-query values of an oblique task, whatever gave the scores.

Slices and differences are read off the table that comes back (`oblique_table`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dataset_builders.oblique.statistics import overlap
from hub_models.evaluation.measured import Table
from hub_models.evaluation.metrics import Float32, Int, rank_columns
from hub_models.evaluation.oblique import ObliqueJudgements
from hub_models.evaluation.oblique_metrics import DEPTH, GAIN_AT, NDCG_AT, SHUFFLED, shuffled, values

_TOP = 10  # document ids kept for each query
_BLOCK = 2**22  # scores held at once

BlockScores = Callable[[slice], Float32]
"""Some of the queries, by place, to float32[n, n_docs]; ``-inf`` where a document is not found."""


@dataclass(frozen=True, eq=False, slots=True)
class Ranked:
    """A ranking of every query's documents.

    Attributes:
        order: int64[n_queries, depth] document columns, best first, excluded ones taken out, -1 for none.
        tied: bool[n_queries], whether equal scores among the first R + 1 were put in order by id.
    """

    order: Int
    tied: NDArray[np.bool_]


def rank(judged: ObliqueJudgements, scores: BlockScores) -> Ranked:
    """Rank every query's documents, `DEPTH` deep.

    Exclusions come before the cut: as many documents more are fetched as are excluded for a query at most, so all
    queries keep their depth and nothing of the size queries × corpus is built.
    """
    size = max(1, _BLOCK // len(judged.documents))
    blocks = [slice(start, min(start + size, len(judged.queries))) for start in range(0, len(judged.queries), size)]
    parts = [_rank(judged, rows, scores(rows)) for rows in blocks]
    return Ranked(np.concatenate([order for order, _ in parts]), np.concatenate([tied for _, tied in parts]))


def per_query(judged: ObliqueJudgements, scores: BlockScores) -> Table:
    """Rank and measure: see `rank` and `measure_ranking`."""
    ranked = rank(judged, scores)
    return measure_ranking(judged, ranked.order, ranked.tied)


def _rank(judged: ObliqueJudgements, rows: slice, scores: Float32) -> tuple[Int, NDArray[np.bool_]]:
    """int64[n, depth] document columns in ranked order, -1 where nothing more was found; bool[n], whether equal
    scores stand among the first R + 1."""
    excluded = judged.excluded[rows]
    depth = min(DEPTH, len(judged.documents))
    order = rank_columns(scores, min(len(judged.documents), depth + 1 + max(len(e) for e in excluded)))
    found = np.take_along_axis(scores, order, axis=1)
    kept = found > -np.inf
    for row, columns in enumerate(excluded):
        if len(columns):
            kept[row] &= ~np.isin(order[row], columns)
    place = np.argsort(~kept, axis=1, kind="stable")
    order, found = np.take_along_axis(order, place, axis=1), np.take_along_axis(found, place, axis=1)
    kept = np.take_along_axis(kept, place, axis=1)
    equal_next = (found[:, :-1] == found[:, 1:]) & kept[:, 1:]
    cut = np.array([min(depth, int((r.ideal > 0).sum())) for r in judged.qrels["gold"][rows]])
    tied = (equal_next & (np.arange(equal_next.shape[1]) < cut[:, None])).any(axis=1)
    return np.where(kept, order, -1)[:, :depth], tied


def measure_ranking(judged: ObliqueJudgements, order: Int, tied: NDArray[np.bool_]) -> Table:
    """The table of a ranking that was made elsewhere.

    Args:
        judged: What is right.
        order: int64[n_queries, depth] document columns, best first, excluded ones taken out, -1 for none.
        tied: bool[n_queries], whether equal scores were put in order by id.

    Returns:
        A row for each query: who it is, R, whether ties decided, the first documents' ids, the metrics, NDCG at
        `GAIN_AT`, `SHUFFLED`, and what the query shares with its gold documents.
    """
    gold = judged.qrels["gold"]
    ids = np.array([*judged.documents, None], object)
    top = np.empty(len(order), object)
    top[:] = [[i for i in row if i is not None] for row in ids[order[:, :_TOP]].tolist()]
    table: Table = {
        "query_id": np.array([q.query_id for q in judged.queries], object),
        "group": np.array([q.group for q in judged.queries], object),
        "development": np.array([q.development for q in judged.queries]),
        "n_relevant": np.array([int((r.ideal > 0).sum()) for r in gold]),
        "tied": tied,
        "top": top,
    }
    for name, relevant in judged.qrels.items():
        grades = np.array(
            [[r.grades.get(c, 0) for c in row] for r, row in zip(relevant, order.tolist(), strict=True)], np.int64
        ).reshape(len(order), -1)
        cuts = tuple(sorted({*NDCG_AT, *GAIN_AT})) if name == "gold" else NDCG_AT
        table |= values(grades, relevant, cuts, judged.recall_at, name)
        if name == "gold":
            table[SHUFFLED] = shuffled(grades, (order >= 0).sum(axis=1), relevant)
    pairs = [
        [overlap(q.text, judged.texts[c]) for c, grade in r.grades.items() if grade > 0]
        for q, r in zip(judged.queries, gold, strict=True)
    ]
    for what in ("jaccard", "coverage"):
        table[f"overlap_{what}"] = np.array([_mean([getattr(o, what) for o in found]) for found in pairs])
    table["entity_leakage"] = np.array([_mean([bool(o.leaked) for o in found]) for found in pairs])
    return table


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0
