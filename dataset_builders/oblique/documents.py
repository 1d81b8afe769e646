"""The documents that oblique training rows are made of: the sample's, OBLIQ-Bench's, or anybody's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dataset_builders.choices import ObliqueTaskName
from dataset_builders.rows import files_of, one_of, read_rows
from dataset_builders.sources import obliq_bench, oblique, sample
from dataset_builders.sources.obliq_bench import FOLDERS, TASKS, check_unique
from dataset_builders.text import check_text, did_you_mean

BENCH_LICENCE = "cc-by-4.0"
_KEYS = ("_id", "text", "task", "attribute", "text_id", "description", "query", "generator", "source", "licence")


@dataclass(frozen=True, slots=True)
class Document:
    """A document of a task's training corpus.

    Attributes:
        task: One of ``TASKS``.
        document_id: Unique within its task.
        text: All that a model may see.
        attribute: Id of its latent attribute; None where nobody labelled it.
        text_id: Of the longer text that it is a part of; None for a text of its own.
        description: Of the attribute (O 3.1, stage A), where there is one already.
        query: In the task's lens (stage B), where there is one already.
        generator: Who wrote description and query.
        source: For every row made of it.
        licence: For every row made of it.
    """

    task: ObliqueTaskName
    document_id: str
    text: str
    attribute: str | None = None
    text_id: str | None = None
    description: str | None = None
    query: str | None = None
    generator: str | None = None
    source: str = "unknown"
    licence: str = "unknown"


def load(source: str, data: Path | None = None) -> list[Document]:
    """The training documents of a source, task by task.

    Args:
        source: ``sample`` (its training documents alone), ``bench`` (the corpora of OBLIQ-Bench from the Hub, as in O:
            they hold the documents that its queries are judged on; the judgements themselves are not read), or any
            name for your own ``data``.
        data: JSONL or parquet with ``_id``, ``text`` and ``task``, and as far as there are any ``attribute``,
            ``text_id``, ``description``, ``query``, ``generator`` (of the two before it), ``source``, ``licence``; or
            a folder of such files; or one in the layout of OBLIQ-Bench, whose ``train/documents.jsonl`` is read.

    Raises:
        FileNotFoundError: If there is nothing at ``data``, or the Hub's data cannot be had.
        ValueError: If the source is unknown and there is no ``data``, or a row is faulty; it is named.
    """
    if data is None and source == sample.NAME:
        return _layout(None, sample.NAME, sample.LICENCE)
    if data is None and source == oblique.BENCH:
        return [document for task in TASKS for document in _corpus(task)]
    if data is None:
        raise ValueError(
            f"got the source {source!r}, wanted {sample.NAME!r} or {oblique.BENCH!r}, or your own documents: give "
            f"their file or folder with --source.{did_you_mean(source, [sample.NAME, oblique.BENCH])}"
        )
    if any((data / folder).is_dir() for folder in FOLDERS.values()):
        return _layout(data, source, "unknown")
    documents = [_document(row, where, source) for file in files_of(data) for where, row in read_rows(file)]
    if not documents:
        raise ValueError(f"{data}: there is no document in it; wanted rows with _id, text and task")
    for task in TASKS:
        check_unique({"documents": [d.document_id for d in documents if d.task == task]}, task)
    return documents


def draw(documents: list[Document], number: int | None, seed: int) -> list[Document]:
    """At most ``number`` documents of each task, drawn uniformly, in their old order (O 4); all, if it is null.

    Raises:
        ValueError: If ``number`` is below 1.
    """
    if number is None:
        return documents
    if number < 1:
        raise ValueError(f"got {number} documents a task, wanted at least 1")
    drawn: list[Document] = []
    for task in TASKS:
        own = [d for d in documents if d.task == task]
        rng = np.random.default_rng([seed, TASKS.index(task)])
        drawn += [own[i] for i in sorted(rng.permutation(len(own))[:number])]
    return drawn


def siblings(documents: list[Document]) -> dict[str, frozenset[str]]:
    """For each document of one task the ids of all parts of the longer text that it is a part of, its own among them:
    none of them is a negative for another."""
    members: dict[str, set[str]] = {}
    for d in documents:
        if d.text_id is not None:
            members.setdefault(d.text_id, set()).add(d.document_id)
    return {
        d.document_id: frozenset(members[d.text_id]) if d.text_id is not None else frozenset([d.document_id])
        for d in documents
    }


def _layout(folder: Path | None, source: str, licence: str) -> list[Document]:
    root = folder or obliq_bench.SAMPLE
    tasks = [task for task in TASKS if (root / FOLDERS[task] / "train" / "documents.jsonl").is_file()]
    if not tasks:
        raise FileNotFoundError(
            f"{root}: no train/documents.jsonl of any task; give your documents as rows with _id, text and task"
        )
    return [
        Document(
            task,
            d.document_id,
            d.text,
            d.attribute,
            d.metadata.get("text_id"),
            d.description,
            d.query,
            d.generator,
            source,
            licence,
        )
        for task in tasks
        for d in obliq_bench.read_train(task, folder)
    ]


def _corpus(task: ObliqueTaskName) -> list[Document]:
    bench = oblique.load(oblique.BENCH, task)
    # Documents that are kept from one query together are of one post.
    post: dict[str, str] = {}
    for excluded in bench.excluded.values():
        post |= dict.fromkeys(excluded, min(excluded))
    return [
        Document(task, i, d.text, text_id=post.get(i), source=oblique.BENCH, licence=BENCH_LICENCE)
        for i, d in bench.corpus.items()
    ]


def _document(row: Mapping[str, Any], where: str, source: str) -> Document:
    unknown = [key for key in row if key not in _KEYS]
    missing = [key for key in ("_id", "text", "task") if row.get(key) is None]
    if unknown or missing:
        hints = "".join(did_you_mean(key, _KEYS) for key in unknown)
        raise ValueError(f"{where}: unknown keys {unknown}, missing keys {missing}; wanted {list(_KEYS)}.{hints}")
    texts = {key: row.get(key) for key in _KEYS if key != "_id"}
    for key, text in texts.items():
        if text is not None:
            check_text(text, f"{where}: {key}")
    if (texts["description"] or texts["query"]) and not texts["generator"]:
        raise ValueError(f"{where}: the row has a description or a query; say in `generator` who wrote it")
    return Document(
        one_of("task", texts["task"], TASKS, where),
        check_text(str(row["_id"]), f"{where}: _id"),
        row["text"],
        texts["attribute"],
        texts["text_id"],
        texts["description"],
        texts["query"],
        texts["generator"],
        texts["source"] or source,
        texts["licence"] or "unknown",
    )
