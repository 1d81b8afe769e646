"""The same queries and documents measured by sentence-transformers' evaluator and by mteb: the opponents. And a model
that takes the encoding out of the measurement, for all sides alike."""

from __future__ import annotations

import copy
from typing import Any

import mteb
import numpy as np
import torch
from mteb.abstasks.retrieval import AbsTaskRetrieval
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

from dataset_builders.stance.data import StanceData
from hub_models.evaluation.metrics import STANCE_BIT
from hub_models.evaluation.stance import Judgements, Query
from hub_models.evaluation.tasks import StanceRetrieval


class Remembering(SentenceTransformer):
    """A model that encodes a text once in its life: later calls cost nothing, whoever makes them."""

    @classmethod
    def of(cls, model: SentenceTransformer) -> Remembering:
        """The same model, which goes on encoding by itself."""
        other = copy.copy(model)
        other.__class__, other.vectors = cls, {}
        return other

    def encode(self, inputs: Any, **options: Any) -> Any:
        new = [text for text in dict.fromkeys(inputs) if text not in self.vectors]
        if new:
            self.vectors.update(zip(new, super().encode(new, show_progress_bar=False), strict=True))
        found = np.stack([self.vectors[text] for text in inputs])
        return torch.from_numpy(found) if options.get("convert_to_tensor") else found


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
