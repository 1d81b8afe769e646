"""Oblique tasks as we publish them: ``{source}-obliq-bench``, with the configs ``{task}-corpus``, ``-queries`` …"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from datasets import Features

from dataset_builders.folder import shards
from dataset_builders.read import read_config
from dataset_builders.rows import Row, one_of
from dataset_builders.schema import CORPUS, EXCLUDED, OBLIQUE_QUERIES, QRELS, SPLITS, Split
from dataset_builders.sources.obliq_bench import TASKS, ObliqueTask, ObliqueText, Qrels, check_unique
from dataset_builders.text import check_text


def read(task: str, folder: Path, *, allow_dangling: bool = False) -> ObliqueTask:
    """Read one task of a built or downloaded folder.

    A split's corpus is what its queries are put to, so that of ``test`` holds the others: documents that stand in it
    alone are of ``test``, all others may be returned for any query.

    Args:
        task: One of ``TASKS``.
        folder: A folder of ``{source}-obliq-bench``.
        allow_dangling: As in `obliq_bench.read`.

    Raises:
        ValueError: If the folder lacks the task or columns of the contract, a text is empty, an id is doubled in a
            split or has two texts, or for what `ObliqueTask` refuses.
    """
    name = one_of("task", task, TASKS, str(folder))
    corpus: dict[str, ObliqueText] = {}
    queries: dict[str, ObliqueText] = {}
    in_splits: dict[str, set[Split]] = {}
    for split, row, where in _texts(folder, f"{name}-corpus", CORPUS):
        if row["_id"] in corpus and corpus[row["_id"]].text != row["text"]:
            raise ValueError(f"{where}: the document {row['_id']!r} has another text in another split; build it anew")
        in_splits.setdefault(row["_id"], set()).add(split)
        corpus[row["_id"]] = ObliqueText(row["text"], None, None, {})
    for document, splits in in_splits.items():
        if splits == {"test"}:
            corpus[document] = ObliqueText(corpus[document].text, None, "test", {})
    for split, row, where in _texts(folder, f"{name}-queries", OBLIQUE_QUERIES):
        if row["_id"] in queries:
            raise ValueError(f"{where}: the query {row['_id']!r} stands in two splits; build it anew")
        queries[row["_id"]] = ObliqueText(row["text"], row["group_id"], split, {})
    return ObliqueTask(
        name,
        corpus,
        queries,
        _judgements(folder, f"{name}-qrels", queries, allow_dangling),
        _excluded(folder, f"{name}-excluded"),
        _judgements(folder, f"{name}-qrels_pooled", queries, allow_dangling)
        if _has(folder, f"{name}-qrels_pooled")
        else None,
        allow_dangling,
    )


def _has(folder: Path, config: str) -> bool:
    return config in shards(folder)


def _rows(folder: Path, config: str, features: Features) -> Iterator[tuple[Split, Row, str]]:
    for split, table in read_config(folder, config, features).items():
        named = one_of("split", split, SPLITS, f"{folder}: {config}")
        for number, row in enumerate(table.to_pylist(), start=1):
            yield named, row, f"{folder}: {config}, {split}, row {number}"


def _texts(folder: Path, config: str, features: Features) -> Iterator[tuple[Split, Row, str]]:
    found = list(_rows(folder, config, features))
    check_unique({f"rows of {config}": [(split, row["_id"]) for split, row, _ in found]}, str(folder))
    for split, row, where in found:
        check_text(row["_id"], f"{where}: _id")
        check_text(row["text"], f"{where}: text")
        yield split, row, where


def _judgements(folder: Path, config: str, queries: dict[str, ObliqueText], allow_dangling: bool) -> Qrels:
    found = [(row["query-id"], row["corpus-id"], row["score"]) for _, row, _ in _rows(folder, config, QRELS)]
    check_unique({f"rows of {config}": [pair[:2] for pair in found]}, str(folder))
    qrels: Qrels = {}
    for query, document, score in found:
        if query in queries or not allow_dangling:
            qrels.setdefault(query, {})[document] = score
    return qrels


def _excluded(folder: Path, config: str) -> dict[str, frozenset[str]]:
    out: dict[str, set[str]] = {}
    for _, row, _ in _rows(folder, config, EXCLUDED) if _has(folder, config) else ():
        out.setdefault(row["query-id"], set()).add(row["corpus-id"])
    return {query: frozenset(documents) for query, documents in out.items()}
