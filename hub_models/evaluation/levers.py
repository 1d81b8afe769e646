"""Two levers that cost no training: the adapter at another scale, and the model's own base as topical anchor.

The adapter's scale is a dial from the base (0) to the tuned model (1) and a little beyond. The anchor adds the base's
cosine for the claim alone (see `hub_models.retrieval.anchor`). Both trade stance errors against topical ones.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hub_models.evaluation.measured import Measured
from hub_models.evaluation.metrics import Float32
from hub_models.evaluation.results import Strategy
from hub_models.evaluation.stance import Judgements, Query, queries_of
from hub_models.evaluation.stance_ranking import Scores, per_query
from hub_models.evaluation.stance_runs import dense_scores
from hub_models.evaluation.systems import Encoder
from hub_models.retrieval.dense import DenseIndex
from hub_models.retrieval.fusion import fuse
from hub_models.retrieval.levers import Levers


def takes_levers(encoder: Encoder, levers: Levers) -> bool:
    """Whether the encoder has an adapter to scale and to switch off, where that is asked for."""
    return not levers.pulled or encoder.info.adapter_sha256 is not None


def lever_scores(judged: Judgements, queries: list[Query], encoder: Encoder, levers: Levers) -> Scores:
    """Dense scores of formatted queries, under the levers."""
    texts = [d.text for d in judged.documents]
    vectors = encoder.encode([*texts, *(q.text for q in queries)], levers.adapter_scale)
    dense = dense_scores(judged, DenseIndex(texts, vectors[: len(texts)]), vectors[len(texts) :])
    if not levers.anchor:
        return dense
    base = encoder.encode_base([*texts, *(judged.claims[q.claim].claim for q in queries)])
    topic = dense_scores(judged, DenseIndex(texts, base[: len(texts)]), base[len(texts) :])

    def anchored(rows: list[int], candidates: str) -> Float32:
        return fuse(dense(rows, candidates), topic(rows, candidates), levers.anchor).astype(np.float32)

    return anchored


@dataclass(frozen=True)
class Levered:
    """The dense run with levers pulled: a `Variant`."""

    levers: Levers
    strategy: ClassVar[Strategy] = "dense"
    needs: ClassVar[str] = "a scale and an anchor need a LoRA adapter, such as a run folder has"

    @property
    def params(self) -> dict[str, Any]:
        return self.levers.params

    def takes(self, encoder: Encoder) -> bool:
        return takes_levers(encoder, self.levers)

    def measure(self, judged: Judgements, encoder: Encoder) -> Measured:
        start = time.perf_counter()
        queries = queries_of(judged, encoder.query_template)
        scores = lever_scores(judged, queries, encoder, self.levers)
        encoded = time.perf_counter()
        table = per_query(judged, queries, scores)
        return Measured(table, {"encode_s": encoded - start, "rank_s": time.perf_counter() - encoded})
