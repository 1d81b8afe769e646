"""Oblique training rows: queries of one lens a task, and pairs of the style graph, each with hard negatives (O 3)."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from dataset_builders.choices import QueryForm
from dataset_builders.generate import LanguageModel
from dataset_builders.instructions import OBLIQUE_INSTRUCTIONS
from dataset_builders.negatives import FROM_RANK, Miner
from dataset_builders.oblique.asking import Written
from dataset_builders.oblique.attributes import LENS_OF, describe
from dataset_builders.oblique.documents import Document, draw, siblings
from dataset_builders.oblique.lenses import lens_of, write_queries
from dataset_builders.oblique.purity import read_vectors
from dataset_builders.oblique.read import KIND
from dataset_builders.oblique.style_graph import STYLOMETRIC, Edge, K, draw_edges, embed, randomise, style_graph
from dataset_builders.oblique.stylometry import stylometric
from dataset_builders.rows import Row
from dataset_builders.schema import Lens
from dataset_builders.sources.obliq_bench import TASKS


@dataclass(frozen=True)
class Options:
    """What can be chosen about oblique training rows.

    Attributes:
        lens: In place of that of each task, for queries by a language model.
        documents: At most this many documents a task get a query, drawn; negatives come from all of them.
        from_rank: See `Miner.mine`.
        vectors: The specialist's vectors, a row a document of the writing task; the built-in one if there are none.
        k: Neighbours a document.
        dose: Edges to draw; all, if null.
        random_graph: The control: positives drawn at random.
        query_form: Of style pairs. ``description``: the anchor's style in words (O equation 6); ``passage``: the
            anchor's own text, as the queries of the writing task are.
        approximate: Search neighbours approximately.
    """

    lens: Lens | None = None
    documents: int | None = None
    from_rank: int = FROM_RANK
    vectors: Path | None = None
    k: int = K
    dose: int | None = None
    random_graph: bool = False
    query_form: QueryForm = "description"
    approximate: bool = False


@dataclass(frozen=True)
class Made:
    """Rows, and how they came to be.

    Attributes:
        rows: By the columns of the contract.
        stages: What a language model wrote for them, by stage.
        facts: For the manifest.
    """

    rows: list[Row]
    stages: dict[str, Written]
    facts: dict[str, Any]


def query_rows(documents: list[Document], model: LanguageModel | None, options: Options, seed: int) -> Made:
    """One row a document: its query, itself, and hard negatives from its task's documents.

    Documents of the same known attribute are positives of each other and no negatives, but in a tip-of-the-tongue
    task, where the query means one document alone. Parts of one longer text are no negatives for each other.

    Args:
        documents: Of any tasks.
        model: Describes the documents and writes the queries; without one, those that the documents have are taken.
        options: ``lens``, ``documents``, ``from_rank``.
        seed: Of every draw.

    Raises:
        ValueError: If a document has no query and there is no model, nothing passed the gate, or a task has too few
            documents for its negatives.
        GenerationError: If the model cannot be asked.
    """
    chosen = draw(documents, options.documents, seed)
    if model is None:
        _check_written(chosen, options)
    lenses = {task: lens_of(task, options.lens) for task in TASKS}
    miners = {task: _TaskMiner([d for d in documents if d.task == task]) for task in {d.task for d in chosen}}
    for d in chosen:
        miners[d.task].check(d)
    queries, stages = _queries(chosen, model, options.lens)
    rows = []
    for number, query in tqdm(queries.items(), desc="negatives", unit="query", delay=2):
        d = chosen[number]
        negatives = miners[d.task].mine(d, query, options.from_rank, (seed, number))
        generator = d.generator if model is None else model.model
        rows.append(_row(d, lenses[d.task], query, generator, d, negatives))
    return Made(rows, stages, {"from_rank": options.from_rank, "lens": options.lens, "documents": options.documents})


def _check_written(chosen: Sequence[Document], options: Options) -> None:
    if options.lens is not None:
        raise ValueError(f"the lens {options.lens!r} is for queries by a language model: give --generate MODEL")
    without = [d.document_id for d in chosen if not d.query]
    if without:
        raise ValueError(
            f"{len(without)} of {len(chosen)} documents have no query, such as {without[:5]}: have them written with "
            "--generate MODEL"
        )


def _queries(
    chosen: Sequence[Document], model: LanguageModel | None, lens: Lens | None
) -> tuple[dict[int, str], dict[str, Written]]:
    """A query for each document that has or got one, by its place."""
    if model is None:
        return {number: d.query or "" for number, d in enumerate(chosen)}, {}
    described = describe(chosen, model)
    stages = {"descriptions": described}
    queries: dict[int, str] = {}
    if places := list(described.texts):
        written = write_queries([chosen[i] for i in places], list(described.texts.values()), model, lens)
        stages["queries"] = written
        queries = {places[i]: query for i, query in written.texts.items()}
    if not queries:
        refused = {name: stage.dropped for name, stage in stages.items()}
        raise ValueError(f"no query stood the gate; dropped for: {refused}")
    return queries, stages


class _TaskMiner:
    """Hard negatives of one task: what counts as positive for a document, and what may not be returned."""

    def __init__(self, documents: list[Document]) -> None:
        self._miner = Miner({d.document_id: d.text for d in documents})
        self._parts = siblings(documents)
        self._alike: dict[str, list[str]] = defaultdict(list)
        for d in documents:
            if d.attribute is not None and LENS_OF[d.task] != "tip_of_tongue":
                self._alike[d.attribute].append(d.document_id)

    def _positives(self, d: Document) -> list[str]:
        return [d.document_id, *(self._alike.get(d.attribute, []) if d.attribute is not None else [])]

    def check(self, d: Document) -> None:
        try:
            self._miner.check(self._positives(d), self._parts[d.document_id])
        except ValueError as error:
            raise ValueError(f"{d.task}, {d.document_id}: {error}") from None

    def mine(self, d: Document, query: str, from_rank: int, seed: Sequence[int]) -> list[Row]:
        excluded = self._parts[d.document_id]
        found = self._miner.mine(query, self._positives(d), excluded, from_rank=from_rank, seed=seed)
        return _negatives(found, self._miner)


def _negatives(ids: Sequence[str], miner: Miner) -> list[Row]:
    return [{"id": i, "text": miner.corpus[i], "kind": KIND} for i in ids]


def pair_rows(documents: list[Document], model: LanguageModel | None, options: Options, seed: int) -> Made:
    """One row an edge of the style graph over the writing documents: the description of the anchor's style, or the
    anchor itself, the neighbour, and the hard negatives of the neighbour (O equation 6).

    No negative is the anchor, one of its neighbours, or a part of the same longer text as anchor or positive. Known
    attributes are not looked at: the graph has to do without them.

    Args:
        documents: Those of other tasks are passed over.
        model: Describes the anchors drawn; without one, the descriptions that the documents have are taken.
        options: ``vectors``, ``k``, ``dose``, ``random_graph``, ``query_form``, ``approximate``, ``from_rank``.
        seed: Of every draw.

    Raises:
        FileNotFoundError: If there is no such file of vectors.
        ValueError: If there are no writing documents, for what `embed`, `style_graph` and `draw_edges` refuse, if an
            anchor has no description, or if there is a model and nothing to describe.
        GenerationError: If the model cannot be asked.
    """
    own = {d.document_id: d for d in documents if d.task == "writing"}
    if options.query_form == "passage" and model is not None:
        raise ValueError(
            "got --query-form passage and --generate: passages need no description; leave one of them out"
        )
    if not own:
        raise ValueError("got no document of the task writing; style pairs are made of these alone")
    texts = {i: d.text for i, d in own.items()}
    ids = list(texts)
    vectors = embed(stylometric if options.vectors is None else read_vectors(options.vectors), texts)
    sources = [d.text_id for d in own.values()] if any(d.text_id for d in own.values()) else None
    graph = style_graph(vectors, ids, options.k, sources=sources, approximate=options.approximate, seed=seed)
    edges = draw_edges(graph, options.dose, seed)
    near: dict[str, set[str]] = defaultdict(set)
    for edge in graph:
        near[edge.anchor].add(edge.positive)
    miner, parts = Miner(texts), siblings(list(own.values()))
    negatives = [
        miner.mine(
            texts[edge.positive],
            [edge.positive, edge.anchor, *near[edge.anchor]],
            parts[edge.positive] | parts[edge.anchor],
            from_rank=options.from_rank,
            seed=(seed, number),
        )
        for number, edge in enumerate(tqdm(edges, desc="negatives", unit="pair", delay=2))
    ]
    if options.random_graph:
        edges = randomise(edges, ids, negatives, seed)
    anchors = [own[i] for i in dict.fromkeys(edge.anchor for edge in edges)]
    stages: dict[str, Written] = {}
    if options.query_form == "passage":
        queries = {d.document_id: d.text for d in anchors}
    else:
        queries, stages = _styles(anchors, model)
    rows = []
    for edge, mined in zip(edges, negatives, strict=True):
        if edge.anchor in queries:
            anchor = own[edge.anchor]
            generator = anchor.generator if model is None else model.model
            row = _row(own[edge.positive], "style", queries[edge.anchor], generator, anchor, _negatives(mined, miner))
            rows.append(row | {"anchor_id": edge.anchor, "attribute": None})
    if not rows:
        raise ValueError(f"no description of a style stood the gate; dropped for: {stages['descriptions'].dropped}")
    return Made(rows, stages, _graph_facts(options, graph))


def _styles(anchors: Sequence[Document], model: LanguageModel | None) -> tuple[dict[str, str], dict[str, Written]]:
    """A description of the style of each anchor, by its id."""
    if model is not None:
        written = describe(anchors, model)
        return {anchors[i].document_id: text for i, text in written.texts.items()}, {"descriptions": written}
    without = [d.document_id for d in anchors if not d.description]
    if without:
        raise ValueError(
            f"{len(without)} of {len(anchors)} anchors have no description, such as {without[:5]}: have them written "
            "with --generate MODEL"
        )
    return {d.document_id: d.description or "" for d in anchors}, {}


def _row(
    positive: Document,
    lens: Lens,
    query: str,
    generator: str | None,
    described: Document,
    negatives: list[Row],
) -> Row:
    """A row's source and licence are those of the document that it was written for."""
    return {
        "task": positive.task,
        "lens": lens,
        "instruction": OBLIQUE_INSTRUCTIONS[positive.task],
        "query": query,
        "positive_id": positive.document_id,
        "positive": positive.text,
        "negatives": negatives,
        "attribute": positive.attribute,
        "generator": generator,
        "source": described.source,
        "licence": described.licence,
    }


def _graph_facts(options: Options, graph: Sequence[Edge]) -> dict[str, Any]:
    specialist: dict[str, Any] = {"name": STYLOMETRIC}
    if options.vectors is not None:
        with options.vectors.open("rb") as file:
            specialist = {"vectors": options.vectors.name, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
    return {
        "specialist": specialist,
        "k": options.k,
        "edges": len(graph),
        "dose": options.dose,
        "random_graph": options.random_graph,
        "query_form": options.query_form,
        "approximate": options.approximate,
        "from_rank": options.from_rank,
    }
