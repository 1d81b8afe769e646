"""Stance-aware retrieval as an MTEB task, for whoever runs their models through ``mteb.evaluate``.

    import mteb
    from dataset_builders.sources import load
    from hub_models.evaluation.tasks import StanceRetrieval

    results = mteb.evaluate(model, StanceRetrieval(load("sample")), cache=None)

Pass ``cache=None``: mteb files every model held in memory under one name and would hand out another one's results.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
from mteb.abstasks.task_metadata import TaskMetadata
from sentence_transformers import SentenceTransformer

from dataset_builders.instructions import DEFAULT_QUERY_TEMPLATE, STANCES
from dataset_builders.schema import Split
from dataset_builders.stance.data import StanceData
from hub_models.evaluation.metrics import STANCE_BIT, rank
from hub_models.evaluation.stance import judge, queries_of, values_of_ranking

_SUBSET = "default"


class StanceRetrieval(AbsTaskRetrieval):  # type: ignore[misc]
    """Claims asked about with the ten unseen instructions; every argument is a document.

    Scores are the stance metrics under their own names over all queries, and with the prefix ``support_`` or
    ``attack_`` over one stance: what ``evaluate.py`` reports as its slices ``overall``, ``support`` and ``attack``, to
    1e-6.

    Args:
        data: The stance data.
        name: The task's name, ``{source}-stance`` if absent.
        split: ``test`` or ``validation``.
        query_template: Formats instruction and claim into the query; a release names its own in ``slant.json``.

    Raises:
        ValueError: If the split has no claim, or the template is malformed.
    """

    _top_k: int
    data_loaded: bool

    def __init__(
        self,
        data: StanceData,
        *,
        name: str | None = None,
        split: Split = "test",
        query_template: str = DEFAULT_QUERY_TEMPLATE,
    ) -> None:
        self._judged = judge(data, split)
        self._queries = [
            q for q in queries_of(self._judged, query_template) if q.instruction is not None and not q.instruction.seen
        ]
        self._metadata = TaskMetadata(
            name=name or f"{data.source}-stance",
            description="Given a claim and a stance, find the arguments that take this stance on this claim.",
            reference="https://arxiv.org/abs/2608.28283",
            type="Retrieval",
            category="t2t",
            modalities=["text"],
            eval_splits=[split],
            eval_langs=["eng-Latn"],
            main_score="precision_at_r",
            dataset={"path": data.source, "revision": self._judged.revision},
            is_public=True,
        )
        super().__init__()
        # Every R must be seen whole, and a tie at the end must not be cut by chance.
        self._top_k = max(self._top_k, 2 * int(self._judged.labels.astype(bool).sum(axis=1).max()))

    @property
    def metadata(self) -> TaskMetadata:
        """What the task is. No attribute of the instance: mteb deletes that one when it unloads the data."""
        return self._metadata

    def load_data(self, num_proc: int | None = None, *, timer: Any = None, **kwargs: Any) -> None:
        """Lay the judgements out as mteb's corpus, queries and qrels; the query text is fully formatted."""
        if self.data_loaded:
            return
        documents = self._judged.documents
        relevant_docs = {
            q.query_id: {
                documents[c].argument_id: 1
                for c in np.flatnonzero(self._judged.labels[q.claim] & STANCE_BIT[q.stance])
            }
            for q in self._queries
        }
        split = RetrievalSplitData(
            corpus=Dataset.from_list([{"id": d.argument_id, "title": "", "text": d.text} for d in documents]),
            queries=Dataset.from_list([{"id": q.query_id, "text": q.text} for q in self._queries]),
            relevant_docs=relevant_docs,
            top_ranked=None,
        )
        self.dataset = {_SUBSET: {self._judged.split: split}}
        self.data_loaded = True

    def _evaluate_subset(self, model: Any, data_split: Any, **kwargs: Any) -> Any:
        with _as_we_encode(model):
            return super()._evaluate_subset(model, data_split, **kwargs)

    def task_specific_scores(
        self, scores: Any, qrels: Any, results: dict[str, dict[str, float]], hf_split: str, hf_subset: str
    ) -> dict[str, float]:
        """The stance metrics over mteb's results, ranked by our one rule."""
        documents = self._judged.documents
        column = {d.argument_id: i for i, d in enumerate(documents)}
        # mteb encodes a text once for each of its ids, and a batch's make-up moves a score in its last digits.
        first: dict[str, str] = {}
        twin = {d.argument_id: first.setdefault(d.text, d.argument_id) for d in documents}
        depth = min(len(found) for found in results.values())
        order = np.array(
            [
                [column[i] for i in rank({i: found.get(twin[i], s) for i, s in found.items()})[:depth]]
                for found in (results[q.query_id] for q in self._queries)
            ]
        )
        values = values_of_ranking(self._judged, self._queries, order)
        stance = np.array([q.stance for q in self._queries])
        rows = {"": np.full(len(stance), True), **{f"{s}_": stance == s for s in STANCES}}
        return {
            f"{prefix}{metric}": float(column[mask].mean())
            for prefix, mask in rows.items()
            for metric, column in values.items()
            if mask.any()
        }


@contextmanager
def _as_we_encode(model: Any) -> Iterator[None]:
    """Let mteb's wrapper of a `SentenceTransformer` add no prompt of the model's own and compare by cosine.

    The queries are fully formatted, and documents are bare. Any other kind of model is left as it is.
    """
    encoder = getattr(model, "model", None)
    if not isinstance(encoder, SentenceTransformer):
        yield
        return
    before = (model.model_prompts, encoder.prompts, encoder.default_prompt_name, encoder.similarity_fn_name)
    model.model_prompts, encoder.prompts, encoder.default_prompt_name = None, {"query": "", "document": ""}, None
    encoder.similarity_fn_name = "cosine"
    try:
        yield
    finally:
        model.model_prompts, encoder.prompts, encoder.default_prompt_name, encoder.similarity_fn_name = before
