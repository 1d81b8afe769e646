"""The runs of an oblique task: formatted queries (``dense``), bare ones (``claim_only``), BM25 and chance.

It knows no model: texts go through a callable, so that a test can hand in vectors made by hand.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from dataset_builders.lexical import BM25
from hub_models.evaluation.measured import Encode, Measured
from hub_models.evaluation.metrics import Float32
from hub_models.evaluation.oblique import ObliqueJudgements, query_texts
from hub_models.evaluation.oblique_ranking import BlockScores, per_query
from hub_models.evaluation.results import Strategy
from hub_models.retrieval.dense import DenseIndex


def evaluate(
    judged: ObliqueJudgements, query_template: str, encode: Encode, encode_queries: Encode | None = None
) -> dict[Strategy, Measured]:
    """Search by vectors, with formatted queries (``dense``) and with bare ones (``claim_only``).

    Args:
        judged: What is asked and what is right.
        query_template: The encoder's own.
        encode: The encoder. It gets `all_texts` in one call: a query that is a document is encoded once.
        encode_queries: Of queries alone, where they are cut earlier than documents.

    Raises:
        ValueError: If the encoder returns a NaN.
    """
    start = time.perf_counter()
    vectors = _encode_apart(judged.texts, all_queries(judged, query_template), encode, encode_queries)
    encoded = time.perf_counter()
    n, m = len(judged.texts), len(judged.queries)
    index = DenseIndex(judged.texts, vectors[:n])
    timing = {"encode_s": encoded - start}
    measured: dict[Strategy, Measured] = {}
    strategies: tuple[tuple[Strategy, Float32], ...] = (
        ("dense", vectors[n + m :]),
        ("claim_only", vectors[n : n + m]),
    )
    for strategy, queries in strategies:
        ranking = time.perf_counter()
        table = per_query(judged, vector_scores(index, queries))
        measured[strategy] = Measured(table, timing | {"rank_s": time.perf_counter() - ranking})
        timing = {}
    return measured


def all_texts(judged: ObliqueJudgements, query_template: str) -> list[str]:
    """What an encoder has to encode: the documents, the queries bare, and in the template."""
    return [*judged.texts, *all_queries(judged, query_template)]


def all_queries(judged: ObliqueJudgements, query_template: str) -> list[str]:
    """The queries of `all_texts`."""
    return [*query_texts(judged, None), *query_texts(judged, query_template)]


def _encode_apart(
    documents: Sequence[str], queries: Sequence[str], encode: Encode, encode_queries: Encode | None
) -> Float32:
    if encode_queries is None:
        return encode([*documents, *queries])
    return np.concatenate([encode(documents), encode_queries(queries)])


def vector_scores(index: DenseIndex, queries: Float32) -> BlockScores:
    """The cosines of queries, float32[n_queries, d], to the documents of an index."""
    return lambda rows: index.scores(queries[rows])


def dense_scores(
    judged: ObliqueJudgements, query_template: str, encode: Encode, encode_queries: Encode | None = None
) -> BlockScores:
    """What `evaluate` ranks by in its run ``dense``."""
    vectors = _encode_apart(judged.texts, query_texts(judged, query_template), encode, encode_queries)
    n = len(judged.texts)
    return vector_scores(DenseIndex(judged.texts, vectors[:n]), vectors[n:])


def bm25_scores(judged: ObliqueJudgements) -> BlockScores:
    """BM25 of bare queries. A document that no word of the query matches is not found."""
    index = BM25(judged.texts, judged.documents)

    def scores(rows: slice) -> Float32:
        found = np.stack([index.scores(q.text) for q in judged.queries[rows]])
        return np.where(found > 0, found, np.float32(-np.inf))

    return scores


def random_scores(judged: ObliqueJudgements, seed: int) -> BlockScores:
    """Chance: each query draws an order of its own, which other queries do not change."""

    def scores(rows: slice) -> Float32:
        drawn = [np.random.default_rng([seed, *q.query_id.encode()]) for q in judged.queries[rows]]
        return np.stack([rng.random(len(judged.documents), np.float32) for rng in drawn])

    return scores


def evaluate_reference(judged: ObliqueJudgements, seed: int | None) -> Measured:
    """Search by keywords or, with a seed, by chance."""
    start = time.perf_counter()
    scores = bm25_scores(judged) if seed is None else random_scores(judged, seed)
    table = per_query(judged, scores)
    return Measured(table, {"rank_s": time.perf_counter() - start}, seed=seed)
