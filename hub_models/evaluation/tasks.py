"""Stance-aware and oblique retrieval as MTEB tasks, for whoever runs their models through ``mteb.evaluate``.

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
from mteb.models.models_protocols import EncoderProtocol, SearchProtocol
from mteb.models.search_wrappers import SearchEncoderWrapper
from sentence_transformers import SentenceTransformer

from dataset_builders.instructions import DEFAULT_QUERY_TEMPLATE, STANCES
from dataset_builders.schema import Split
from dataset_builders.sources.obliq_bench import ObliqueTask
from dataset_builders.stance.data import StanceData
from hub_models.evaluation import oblique
from hub_models.evaluation.metrics import STANCE_BIT, rank
from hub_models.evaluation.oblique_metrics import DEPTH, MAIN, METRICS
from hub_models.evaluation.oblique_ranking import measure_ranking
from hub_models.evaluation.stance import judge, queries_of
from hub_models.evaluation.stance_ranking import values_of_ranking

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


class ObliqueRetrieval(AbsTaskRetrieval):  # type: ignore[misc]
    """Queries that name a latent attribute, behind the task's instruction.

    Scores are `METRICS` under their own names, those that mean something on the corpus: what ``evaluate.py``
    reports as its slice ``overall``, to 1e-6. MTEB's own (``ndcg_at_10`` …) are over gold. Documents that may not be
    returned for a query are taken out before the cut, by fetching as many more.

    Args:
        data: One oblique task, as `dataset_builders.sources.oblique.load` gives it.
        source: Where it is from.
        name: The task's name, ``{source}-obliq-{task}`` if absent.
        split: ``test`` or ``validation``.
        query_template: Formats instruction and query; a release names its own in ``slant.json``.

    Raises:
        ValueError: If the split has no query with a relevant document, or the template is malformed.
    """

    _top_k: int
    data_loaded: bool

    def __init__(
        self,
        data: ObliqueTask,
        source: str,
        *,
        name: str | None = None,
        split: Split = "test",
        query_template: str = DEFAULT_QUERY_TEMPLATE,
    ) -> None:
        self._judged = oblique.judge(data, source, split)
        self._texts = oblique.query_texts(self._judged, query_template)
        self._metadata = TaskMetadata(
            name=name or f"{source}-obliq-{data.task}",
            description=self._judged.instruction,
            reference="https://arxiv.org/abs/2605.06235",
            type="Retrieval",
            category="t2t",
            modalities=["text"],
            eval_splits=[split],
            eval_langs=["eng-Latn"],
            main_score=MAIN,
            dataset={"path": source, "revision": self._judged.revision},
            is_public=True,
        )
        super().__init__()
        # One more, so that a tie at the cut is seen whole more often than not; exclusions come on top.
        self._top_k = DEPTH + 1 + max(len(e) for e in self._judged.excluded)

    @property
    def metadata(self) -> TaskMetadata:
        """What the task is."""
        return self._metadata

    def load_data(self, num_proc: int | None = None, *, timer: Any = None, **kwargs: Any) -> None:
        """Lay the judgements out as mteb's corpus, queries and qrels; the query text is fully formatted."""
        if self.data_loaded:
            return
        judged = self._judged
        split = RetrievalSplitData(
            corpus=Dataset.from_list(
                [{"id": i, "title": "", "text": t} for i, t in zip(judged.documents, judged.texts, strict=True)]
            ),
            queries=Dataset.from_list(
                [{"id": q.query_id, "text": text} for q, text in zip(judged.queries, self._texts, strict=True)]
            ),
            relevant_docs={
                q.query_id: {judged.documents[c]: grade for c, grade in r.grades.items()}
                for q, r in zip(judged.queries, judged.qrels["gold"], strict=True)
            },
            top_ranked=None,
        )
        self.dataset = {_SUBSET: {judged.split: split}}
        self.data_loaded = True

    def _evaluate_subset(self, model: Any, data_split: Any, **kwargs: Any) -> Any:
        excluded = {
            q.query_id: {self._judged.documents[c] for c in columns}
            for q, columns in zip(self._judged.queries, self._judged.excluded, strict=True)
        }
        with _as_we_encode(model):
            encoder = isinstance(model, EncoderProtocol) and not isinstance(model, SearchProtocol)
            search = _Excluding(SearchEncoderWrapper(model) if encoder else model, excluded)
            return super()._evaluate_subset(search, data_split, **kwargs)

    def task_specific_scores(
        self, scores: Any, qrels: Any, results: dict[str, dict[str, float]], hf_split: str, hf_subset: str
    ) -> dict[str, float]:
        """Our metrics over mteb's results, ranked by our one rule."""
        judged = self._judged
        column = {d: i for i, d in enumerate(judged.documents)}
        first: dict[str, str] = {}
        twin = {d: first.setdefault(t, d) for d, t in zip(judged.documents, judged.texts, strict=True)}
        order = np.full((len(judged.queries), min(DEPTH, len(judged.documents))), -1)
        for row, query in enumerate(judged.queries):
            found = results[query.query_id]
            ranking = rank({i: found.get(twin[i], s) for i, s in found.items()})[: order.shape[1]]
            order[row, : len(ranking)] = [column[i] for i in ranking]
        table = measure_ranking(judged, order, np.full(len(order), False))
        return {metric: float(table[metric].mean()) for metric in METRICS if metric in table}


class _Excluding:
    """Any search, less the documents that may not be returned for a query."""

    def __init__(self, search: SearchProtocol, excluded: dict[str, set[str]]) -> None:
        self._search = search
        self._excluded = excluded
        self.mteb_model_meta = search.mteb_model_meta

    def index(self, *args: Any, **kwargs: Any) -> None:
        """The search's own."""
        self._search.index(*args, **kwargs)

    def search(self, *args: Any, **kwargs: Any) -> dict[str, dict[str, float]]:
        """The search's own results without the excluded documents; a query without any is there with none."""
        found = self._search.search(*args, **kwargs)
        return {
            query: {d: score for d, score in found.get(query, {}).items() if d not in out}
            for query, out in self._excluded.items()
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
