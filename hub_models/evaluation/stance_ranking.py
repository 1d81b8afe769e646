"""From scores to per-query values of a stance task, whatever gave the scores.

Whoever searches in a new way hands `per_query` a function that scores every document for some queries. Slices,
intervals and diagnostics follow from the table that comes back (`stance_table`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dataset_builders.schema import Argument, Claim
from hub_models.evaluation.measured import Table
from hub_models.evaluation.metrics import (
    EASY,
    HARD,
    NDCG_DEPTH,
    POSITIVE,
    STANCE_BIT,
    Float32,
    Float64,
    Int,
    UInt8,
    composition,
    document_kinds,
    rank_columns,
    stance_values,
)
from hub_models.evaluation.stance import Judgements, Query

TOPIC = "topic_precision_at_r"
ORACLE = "stance_oracle_precision_at_r"

Scores = Callable[[list[int], str], Float32]
"""Places in a list of queries, and the name of a candidate set, to float32[n, n_candidates]: the higher the better,
``-inf`` for a document that may not be returned. A candidate set is a corpus of its own: what is computed over a
corpus is computed over it."""

_TOP = 10  # document ids kept for each query
_BLOCK = 2**22  # scores held at once


def per_query(judged: Judgements, queries: list[Query], scores: Scores) -> Table:
    """Rank every query's documents, in each candidate set, and measure the rankings.

    Returns:
        A row for each query in each candidate set that holds something relevant to it: who was asked what, R, whether
        ties decided, the first documents' ids, and `STANCE_METRICS`.

    Raises:
        ValueError: If a score is NaN.
    """
    return _by_block(judged, queries, scores, _stance_columns)


def ceilings(judged: Judgements, queries: list[Query], scores: Scores, base_scores: Scores) -> Table:
    """`TOPIC` of bare claims under a model's scores and `ORACLE` under its base's, row by row as in `per_query`."""
    topic = _by_block(judged, queries, scores, _topic_column)
    return topic | _by_block(judged, queries, base_scores, _oracle_column)


def with_ceilings(table: Table, of_claims: Table) -> Table:
    """A table with `TOPIC` and `ORACLE` of each query's claim, taken from the table of the bare claims."""
    place = {key: i for i, key in enumerate(keys(of_claims, "claim_id", "stance"))}
    of_query = [place[key] for key in keys(table, "claim_id", "stance")]
    return table | {name: of_claims[name][of_query] for name in (TOPIC, ORACLE)}


def keys(table: Table, *columns: str) -> list[tuple[str, ...]]:
    """What tells a table's rows apart: the candidate set and some columns."""
    return list(zip(*(table[name].tolist() for name in ("candidates", *columns)), strict=True))


def values_of_ranking(judged: Judgements, queries: list[Query], order: Int) -> dict[str, Float64]:
    """The stance metrics of a ranking that was made elsewhere.

    Args:
        judged: What is right.
        queries: What was asked.
        order: int64[n_queries, depth] document columns, best first.

    Returns:
        `STANCE_METRICS` to float64[n_queries].

    Raises:
        ValueError: If ``depth`` is less than some query's R.
    """
    labels, wanted = judged.labels[[q.claim for q in queries]], _wanted(queries)
    kinds = document_kinds(np.take_along_axis(labels, order, axis=1), judged.anywhere[order], wanted)
    return stance_values(kinds, ((labels & wanted) > 0).sum(axis=1))


def _wanted(queries: list[Query]) -> UInt8:
    return np.array([[STANCE_BIT[q.stance]] for q in queries], np.uint8)


@dataclass(frozen=True, eq=False, slots=True)
class _Block:
    """Some queries against one candidate set, row by row.

    Attributes:
        queries: The queries.
        claims: Their claims.
        candidates: Name of the set.
        documents: The set, by id ascending.
        scores: float32[n_queries, n_docs].
        labels: uint8[n_queries, n_docs], stances towards the query's claim.
        anywhere: uint8[n_docs].
        wanted: uint8[n_queries, 1], the bit of the stance asked for.
        n_relevant: int64[n_queries], R.
    """

    queries: list[Query]
    claims: list[Claim]
    candidates: str
    documents: list[Argument]
    scores: Float32
    labels: UInt8
    anywhere: UInt8
    wanted: UInt8
    n_relevant: Int

    def ranked(self, cut: Int, scores: Float32 | None = None) -> Int:
        """int64[n_queries, depth] columns in ranked order, deep enough for the cuts and for NDCG, with one to
        spare."""
        depth = min(max(int(cut.max()) + 1, NDCG_DEPTH + 1), len(self.documents))
        return rank_columns(self.scores if scores is None else scores, depth)


def _by_block(
    judged: Judgements, queries: list[Query], scores: Scores, columns_of: Callable[[_Block], Table]
) -> Table:
    """The columns that ``columns_of`` makes of each block, one below the other: candidate sets, then queries in order.
    Queries without a relevant document in a set have no row there."""
    parts: list[Table] = []
    for name, columns in judged.candidates.items():
        relevant = judged.n_relevant(columns)
        kept = [i for i, q in enumerate(queries) if relevant[q.stance][q.claim]]
        documents = [judged.documents[c] for c in columns]
        size = max(1, _BLOCK // len(judged.documents))
        for start in range(0, len(kept), size):
            rows = kept[start : start + size]
            block = [queries[i] for i in rows]
            of_claim = [q.claim for q in block]
            parts.append(
                columns_of(
                    _Block(
                        queries=block,
                        claims=[judged.claims[c] for c in of_claim],
                        candidates=name,
                        documents=documents,
                        scores=scores(rows, name),
                        labels=judged.labels[of_claim][:, columns],
                        anywhere=judged.anywhere[columns],
                        wanted=_wanted(block),
                        n_relevant=np.array([relevant[q.stance][q.claim] for q in block]),
                    )
                )
            )
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _stance_columns(block: _Block) -> Table:
    """Who was asked what, every stance metric, ties, and the first documents' ids."""
    order = block.ranked(block.n_relevant)
    kinds = document_kinds(np.take_along_axis(block.labels, order, axis=1), block.anywhere[order], block.wanted)
    scores = np.take_along_axis(block.scores, order, axis=1)
    equal_next = scores[:, :-1] == scores[:, 1:]
    top = order[:, :_TOP]
    ids = np.array([d.argument_id for d in block.documents], object)
    first = np.empty(len(top), object)
    first[:] = [row.tolist() for row in ids[top]]
    return {
        "query_id": np.array([q.query_id for q in block.queries], object),
        "claim_id": np.array([c.claim_id for c in block.claims], object),
        "stance": np.array([q.stance for q in block.queries], object),
        "instruction_id": np.array([q.instruction.id if q.instruction else None for q in block.queries], object),
        "seen": np.array([q.instruction is not None and q.instruction.seen for q in block.queries]),
        "candidates": np.full(len(block.queries), block.candidates, object),
        "n_relevant": block.n_relevant,
        "tied": (equal_next & (np.arange(equal_next.shape[1]) < block.n_relevant[:, None])).any(axis=1),
        "top": first,
        **stance_values(kinds, block.n_relevant),
    }


def _topic_column(block: _Block) -> Table:
    """Precision where both stances are relevant, cut at their number."""
    cut = (block.labels > 0).sum(axis=1)
    related = np.take_along_axis(block.labels, block.ranked(cut), axis=1) > 0
    return {TOPIC: composition(np.where(related, POSITIVE, EASY).astype(np.uint8), cut)[:, POSITIVE]}


def _oracle_column(block: _Block) -> Table:
    """Precision at R once every document of the wrong stance is dropped: what a perfect judge of stance would
    reach."""
    kinds = document_kinds(block.labels, block.anywhere, block.wanted)
    right = np.where((kinds == HARD) | (kinds == EASY), np.float32(-np.inf), block.scores)
    order = block.ranked(block.n_relevant, right)
    return {ORACLE: composition(np.take_along_axis(kinds, order, axis=1), block.n_relevant)[:, POSITIVE]}
