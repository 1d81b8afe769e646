"""The same queries and documents measured by sentence-transformers' evaluator and by mteb: the opponents."""

from __future__ import annotations

from typing import Any

import mteb
import numpy as np
from mteb.abstasks.retrieval import AbsTaskRetrieval
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

from dataset_builders.stance.data import StanceData
from hub_models.evaluation.metrics import STANCE_BIT
from hub_models.evaluation.stance import Judgements, Query
from hub_models.evaluation.tasks import StanceRetrieval


def by_sentence_transformers(model: SentenceTransformer, judged: Judgements, queries: list[Query]) -> Any:
    """`InformationRetrievalEvaluator` as it comes, but for the files that it would write."""
    ids = [d.argument_id for d in judged.documents]
    evaluator = InformationRetrievalEvaluator(
        queries={q.query_id: q.text for q in queries},
        corpus=dict(zip(ids, (d.text for d in judged.documents), strict=True)),
        relevant_docs={
            q.query_id: {ids[c] for c in np.flatnonzero(judged.labels[q.claim] & STANCE_BIT[q.stance])}
            for q in queries
        },
        write_csv=False,
    )
    return evaluator(model)


class PlainTask(StanceRetrieval):
    """The retrieval task of mteb alone: with all queries, without the stance metrics."""

    def __init__(self, data: StanceData, queries: list[Query]) -> None:
        super().__init__(data)
        self._queries = queries
        self._metadata = self._metadata.model_copy(update={"main_score": "ndcg_at_10"})

    def _evaluate_subset(self, model: Any, data_split: Any, **kwargs: Any) -> Any:
        return AbsTaskRetrieval._evaluate_subset(self, model, data_split, **kwargs)

    def task_specific_scores(self, *_: Any, **__: Any) -> dict[str, float]:
        return {}


def by_mteb(model: SentenceTransformer, data: StanceData, queries: list[Query]) -> Any:
    """`mteb.evaluate` of the same."""
    return mteb.evaluate(model, PlainTask(data, queries), cache=None, show_progress_bar=False)
