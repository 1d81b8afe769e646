"""The two runs that every stance task has: formatted queries (``dense``) and bare claims (``claim_only``).

It knows no model: texts go through a callable, so that a test can hand in vectors made by hand and several runs can
share what was encoded. BM25 and chance, which get the bare claim and have one run, are here too.
"""

from __future__ import annotations

import time

import numpy as np

from dataset_builders.instructions import DEFAULT_QUERY_TEMPLATE
from dataset_builders.lexical import BM25
from hub_models.evaluation.measured import Encode, Measured
from hub_models.evaluation.metrics import Float32
from hub_models.evaluation.results import Strategy
from hub_models.evaluation.stance import Judgements, Query, queries_of
from hub_models.evaluation.stance_ranking import Scores, ceilings, per_query, with_ceilings
from hub_models.retrieval.dense import DenseIndex


def evaluate(
    judged: Judgements, query_template: str, encode: Encode, encode_base: Encode | None = None
) -> dict[Strategy, Measured]:
    """Search with formatted queries (``dense``) and with bare claims (``claim_only``).

    Args:
        judged: What is asked and what is right.
        query_template: The encoder's own.
        encode: The encoder. Documents and claims reach it bare.
        encode_base: The encoder without its adapter, for the stance oracle; None if it has none.

    Returns:
        Strategy to per-query values: `STANCE_METRICS`, and `TOPIC` and `ORACLE` of the query's claim.

    Raises:
        ValueError: If the encoder returns a NaN.
    """
    clock = [time.perf_counter()]
    texts, claims = [d.text for d in judged.documents], [c.claim for c in judged.claims]
    dense, bare = queries_of(judged, query_template), queries_of(judged, None)
    vectors = encode([*texts, *claims, *(q.text for q in dense)])
    clock.append(time.perf_counter())

    n, m, of_claim = len(texts), len(texts) + len(claims), [q.claim for q in bare]
    index = DenseIndex(texts, vectors[:n])
    table = per_query(judged, dense, dense_scores(judged, index, vectors[m:]))
    clock.append(time.perf_counter())

    base = vectors[:m] if encode_base is None else encode_base([*texts, *claims])
    clock.append(time.perf_counter())
    of_claims = dense_scores(judged, index, vectors[n:m][of_claim])
    of_base = dense_scores(judged, DenseIndex(texts, base[:n]), base[n:][of_claim])
    claim_table = per_query(judged, bare, of_claims) | ceilings(judged, bare, of_claims, of_base)
    clock.append(time.perf_counter())

    encoding, ranking, encoding_base, ranking_claims = np.diff(clock).tolist()
    return {
        "dense": Measured(with_ceilings(table, claim_table), {"encode_s": encoding, "rank_s": ranking}),
        "claim_only": Measured(claim_table, {"encode_base_s": encoding_base, "rank_s": ranking_claims}),
    }


def dense_scores(judged: Judgements, index: DenseIndex, vectors: Float32) -> Scores:
    """The cosines of queries, float32[n_queries, d], to the documents of an index."""
    return lambda rows, candidates: index.scores(vectors[rows])[:, judged.candidates[candidates]]


def bm25_scores(judged: Judgements, queries: list[Query]) -> Scores:
    """BM25 of the queries' claims, never of an instruction; each candidate set has word statistics of its own."""
    indexes = {
        name: BM25([judged.documents[c].text for c in columns], [judged.documents[c].argument_id for c in columns])
        for name, columns in judged.candidates.items()
    }

    def scores(rows: list[int], candidates: str) -> Float32:
        claims = [queries[i].claim for i in rows]
        found = {c: indexes[candidates].scores(judged.claims[c].claim) for c in dict.fromkeys(claims)}
        return np.stack([found[c] for c in claims])

    return scores


def random_scores(judged: Judgements, queries: list[Query], seed: int) -> Scores:
    """Chance: each query draws scores of its own, which other queries do not change."""

    def scores(rows: list[int], candidates: str) -> Float32:
        n = len(judged.candidates[candidates])
        drawn = [np.random.default_rng([seed, *queries[i].query_id.encode()]) for i in rows]
        return np.stack([rng.random(n, np.float32) for rng in drawn])

    return scores


def evaluate_reference(judged: Judgements, seed: int | None) -> Measured:
    """Search by the words of the claim or, with a seed, by chance. Every instruction is a query as for an encoder, so
    that the two can be compared; here it changes nothing, or what is drawn."""
    start = time.perf_counter()
    queries, bare = queries_of(judged, DEFAULT_QUERY_TEMPLATE), queries_of(judged, None)
    asked, claims = (
        bm25_scores(judged, q) if seed is None else random_scores(judged, q, seed) for q in (queries, bare)
    )
    of_claims = per_query(judged, bare, claims) | ceilings(judged, bare, claims, claims)
    table = with_ceilings(per_query(judged, queries, asked), of_claims)
    return Measured(table, {"rank_s": time.perf_counter() - start}, seed=seed)
