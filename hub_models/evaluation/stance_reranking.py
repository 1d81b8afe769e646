"""A cross-encoder behind a stance search (S 4.1): the first documents of the dense run, in the cross-encoder's order.

A pair is the formatted query, which carries its instruction, and a document; the cross-encoder gets no instruction of
its own, as in S. Only the unseen instructions are reranked: they are what S reports. S kept 10 of 100 documents; here
all of the pool stay, reranked, and the others behind them, so that P@R has all of its R.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from hub_models.evaluation.measured import Measured
from hub_models.evaluation.metrics import Float32, rank_columns
from hub_models.evaluation.results import Strategy
from hub_models.evaluation.stance import ALL, Judgements, Query, queries_of
from hub_models.evaluation.stance_ranking import Scores, per_query
from hub_models.evaluation.stance_runs import dense_scores
from hub_models.evaluation.systems import Encoder
from hub_models.retrieval.dense import DenseIndex
from hub_models.retrieval.policies import Policy
from hub_models.retrieval.rerank import DEPTH, Reranker


@dataclass(frozen=True, eq=False)
class StanceReranking:
    """One cross-encoder on the first ``depth`` documents of each query and candidate set: a run ``rerank``."""

    policy: Policy
    depth: int = DEPTH
    _loaded: list[Reranker] = field(default_factory=list)

    strategy: ClassVar[Strategy] = "rerank"
    needs: ClassVar[str] = "a cross-encoder reranks whatever an encoder found"

    @property
    def params(self) -> dict[str, Any]:
        return {"policy": self.policy.label, "depth": self.depth, "instructions": "unseen", **self.policy.pin}

    def takes(self, encoder: Encoder) -> bool:
        return True

    def measure(self, judged: Judgements, encoder: Encoder) -> Measured:
        """Search, rerank and measure.

        Raises:
            FileNotFoundError: If there is no such cross-encoder.
            ValueError: If a score is not finite.
        """
        if not self._loaded:
            from hub_models.retrieval.cross_encoder import CrossEncoderReranker

            self._loaded.append(CrossEncoderReranker(str(self.policy.model)))
        queries = [
            q
            for q in queries_of(judged, encoder.query_template)
            if q.instruction is not None and not q.instruction.seen
        ]
        texts = [d.text for d in judged.documents]
        vectors = encoder.encode([*texts, *(q.text for q in queries)])
        index = DenseIndex(texts, vectors[: len(texts)])
        found = dense_scores(judged, index, vectors[len(texts) :])
        start = time.perf_counter()
        table = per_query(judged, queries, reranked_scores(judged, queries, found, self._loaded[0], self.depth))
        seconds = time.perf_counter() - start
        rows = int((table["candidates"] == ALL).sum())
        said = {"pairs_per_query": min(self.depth, len(texts)), "queries": rows, "first_stage": "dense"}
        said["cross_encoder_revision"] = self.policy.revision
        return Measured(table, {"rerank_s": seconds}, self.params, None, {"reranking": said})


def reranked_scores(judged: Judgements, queries: list[Query], first: Scores, reranker: Reranker, depth: int) -> Scores:
    """Scores that rank as a reranker does: minus the place, 0 for the best.

    Args:
        judged: What is asked.
        queries: The queries.
        first: The first stage.
        reranker: Reorders its first documents.
        depth: How many.
    """

    def scores(rows: list[int], candidates: str) -> Float32:
        columns = judged.candidates[candidates]
        order = rank_columns(first(rows, candidates), len(columns))
        for row, ranked in zip(rows, order, strict=True):
            pool = ranked[:depth].copy()
            texts = [judged.documents[columns[c]].text for c in pool]
            ranked[: len(pool)] = pool[reranker(queries[row].text, texts).order]
        places = np.empty(order.shape, np.float32)
        np.put_along_axis(places, order, -np.arange(len(columns), dtype=np.float32)[None, :], axis=1)
        return places

    return scores
