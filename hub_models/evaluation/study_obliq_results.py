"""What the oblique study measures beside its trainings: the specialists themselves, and how pure their graphs are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from pydantic import Field

from dataset_builders.choices import QueryForm
from dataset_builders.oblique.documents import Document
from dataset_builders.oblique.purity import Probe, Purity, purity, read_vectors
from dataset_builders.oblique.style_graph import STYLOMETRIC
from dataset_builders.oblique.stylometry import stylometric
from dataset_builders.sources import sample
from dataset_builders.sources.obliq_bench import TASKS
from hub_models.evaluation.metrics import Float32
from hub_models.evaluation.oblique import ObliqueJudgements
from hub_models.evaluation.oblique_metrics import MAIN
from hub_models.evaluation.oblique_ranking import per_query
from hub_models.evaluation.oblique_runs import vector_scores
from hub_models.evaluation.oblique_table import UNIT
from hub_models.evaluation.results import Part
from hub_models.evaluation.significance import paired_difference
from hub_models.evaluation.study_results import StudyResults, StudyTask
from hub_models.retrieval.dense import DenseIndex

SAMPLE_TASKS = f"{sample.NAME}-obliq-"

DIRECT = ("ndcg_at_10_gold", "ndcg_at_50_gold", "recall_at_10_gold")


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph(Purity):
    """The purity of a specialist's graph over some documents (O I.1)."""

    specialist: str
    documents: str


class Direct(Part):
    """A specialist as the retriever of a task (O K), with the 95 % interval of its NDCG@10 by query group."""

    specialist: str
    task: str
    metrics: dict[str, float]
    low: float | None
    high: float | None
    unit: str = UNIT


class LensRows(Part):
    """The rows of the two lenses that are held against each other: one a document, the same documents on both sides.

    Attributes:
        rows: Of each side, by task.
        matched_left_out: Rows through the tasks' own lenses whose documents the other side does not have.
        generic_left_out: The same of the generic lens.
        matched_by: Who wrote the queries through the tasks' own lenses, as far as the rows say it.
        generic_by: The same of the generic lens.
        authored: Whether the matched rows are the sample's own, which no language model wrote.
    """

    rows: dict[str, int]
    matched_left_out: int
    generic_left_out: int
    matched_by: list[str]
    generic_by: list[str]
    authored: bool


class ObliqueStudyResults(StudyResults):
    """The results file of the oblique study.

    Attributes:
        planned: Cells of the whole grid; fewer trainings than that are a study that goes on.
        documents: Of the style graph.
        query_form: Of the pairs of all systems but the one that is named after the other form.
        left_to_say: What was not measured, and why.
        graphs: Purity of the specialists.
        direct: Specialists as retrievers.
        lenses: What the two lenses were trained on; None where there were no queries through the generic one.
    """

    planned: int = Field(ge=1)
    documents: int
    query_form: QueryForm
    left_to_say: list[str]
    graphs: list[Graph]
    direct: list[Direct]
    lenses: LensRows | None = None

    def of_sample(self) -> dict[str, StudyTask]:
        """The sample's tasks by their own names, whatever the split."""
        found = {name.partition(":")[0].removeprefix(SAMPLE_TASKS): name for name in self.tasks}
        return {task: self.tasks[found[task]] for task in TASKS if task in found}


def training_probe(documents: Sequence[Document]) -> Probe:
    """The documents of a graph, with their attributes: these measure it, and are no part of it."""
    return Probe(
        [d.document_id for d in documents],
        {d.document_id: d.attribute for d in documents if d.attribute is not None},
        {d.document_id: d.text for d in documents},
        {d.document_id: d.text_id for d in documents if d.text_id is not None},
    )


def graph_purity(name: str, where: str, vectors: Float32, probe: Probe) -> list[Graph]:
    """A row for each k of O."""
    return [Graph(specialist=name, documents=where, **asdict(row)) for row in purity(vectors, probe)]


def specialist_vectors(name: str, specialists: Mapping[str, Path], documents: Sequence[Document]) -> Float32:
    """float32[n, d] of a graph's documents."""
    if name == STYLOMETRIC:
        return stylometric([d.text for d in documents])
    return read_vectors(specialists[name])


def direct(judged: ObliqueJudgements, task: str) -> Direct:
    """The built-in specialist as the retriever of a task whose queries are texts like its documents (O K).

    Its features are standardised over the texts that it is given, so documents and queries go in together.
    """
    texts = [*judged.texts, *(q.text for q in judged.queries)]
    distinct = list(dict.fromkeys(texts))
    place = {text: i for i, text in enumerate(distinct)}
    vectors = stylometric(distinct)[[place[text] for text in texts]]
    n = len(judged.texts)
    table = per_query(judged, vector_scores(DenseIndex(judged.texts, vectors[:n]), vectors[n:]))
    interval = paired_difference(np.asarray(table[MAIN], np.float64), table["group"].tolist())
    means = {metric: float(table[metric].mean()) for metric in DIRECT if metric in table}
    return Direct(specialist=STYLOMETRIC, task=task, metrics=means, low=interval.low, high=interval.high)
