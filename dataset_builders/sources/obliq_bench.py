"""Oblique benchmarks in the layout of OBLIQ-Bench: the embedded sample, or any folder of that layout.

A folder holds ``descriptive/twitter``, ``descriptive/wildchat``, ``analogues/math``, ``analogues/writing`` and
``tip-of-tongue/congress``, each with ``corpus/corpus.jsonl`` and, in ``queries+qrels``, ``queries.jsonl``,
``qrels.tsv`` and (where documents may not be returned for a query) ``per_query_excluded_ids.json``. The sample has
``attributes.jsonl`` and ``train/documents.jsonl`` besides.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from dataset_builders.rows import check_keys, one_of, read_rows
from dataset_builders.schema import SPLITS, Split
from dataset_builders.text import check_text, did_you_mean

ObliqueTaskName = Literal["twitter", "math", "writing", "congress", "wildchat"]

TASKS: tuple[ObliqueTaskName, ...] = get_args(ObliqueTaskName)
FOLDERS: dict[ObliqueTaskName, str] = {
    "twitter": "descriptive/twitter",
    "math": "analogues/math",
    "writing": "analogues/writing",
    "congress": "tip-of-tongue/congress",
    "wildchat": "descriptive/wildchat",
}
SAMPLE = Path(__file__).parents[1] / "sample" / "oblique"
_QRELS = "queries+qrels/qrels.tsv"
_EXCLUDED = "queries+qrels/per_query_excluded_ids.json"


@dataclass(frozen=True, slots=True)
class ObliqueText:
    """A document or a query.

    Attributes:
        text: All that a model may see.
        attribute: Id of the latent attribute; None for distractors and where the data does not say.
        split: None for distractors, which stand in the corpus of every split, and where the data does not say.
        metadata: Whatever else the row says of it. Never an input.
    """

    text: str
    attribute: str | None
    split: Split | None
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AuthoredDocument:
    """A training document with the description of its attribute and a query in the task's lens (O 3.1)."""

    document_id: str
    text: str
    description: str
    query: str
    attribute: str
    generator: str
    metadata: dict[str, Any]


@dataclass(frozen=True)
class ObliqueTask:
    """One oblique task, checked on construction.

    Attributes:
        task: Its name.
        corpus: Documents by id. Those of ``train`` are never among them.
        queries: Queries by id.
        qrels: ``qrels[query_id][document_id]`` is a grade; above 0 is relevant.
        excluded: Documents that may not be returned for a query; none for a query that is absent here.

    Raises:
        ValueError: If qrels or exclusions name a query or document that is not there.
    """

    task: ObliqueTaskName
    corpus: dict[str, ObliqueText]
    queries: dict[str, ObliqueText]
    qrels: dict[str, dict[str, int]]
    excluded: dict[str, frozenset[str]]

    def __post_init__(self) -> None:
        for what, pairs in (
            (_QRELS, [(q, d) for q, grades in self.qrels.items() for d in grades]),
            (_EXCLUDED, [(q, d) for q, documents in self.excluded.items() for d in sorted(documents)]),
        ):
            dangling = [pair for pair in pairs if pair[0] not in self.queries or pair[1] not in self.corpus]
            if dangling:
                raise ValueError(
                    f"{self.task}: {len(dangling)} rows of {what} name a query or document that is not there, such as "
                    f"{dangling[:5]}; add the texts or remove the rows"
                )

    def restrict(self, split: Split) -> ObliqueTask:
        """The queries of one split over its corpus.

        The corpus of ``validation`` is its own documents and the distractors, that of ``test`` is all there is:
        validation's, its own and the distractors, since a larger corpus is the harder one (as in stance data).
        """
        splits: tuple[Split | None, ...] = (None, "validation") if split == "validation" else (None, *SPLITS)
        queries = {i: q for i, q in self.queries.items() if q.split == split}
        return ObliqueTask(
            self.task,
            {i: d for i, d in self.corpus.items() if d.split in splits},
            queries,
            {i: grades for i, grades in self.qrels.items() if i in queries},
            {i: documents for i, documents in self.excluded.items() if i in queries},
        )

    def candidates(self, query_id: str) -> list[str]:
        """Ids of the documents that may be returned for a query, in the order of the corpus."""
        out = self.excluded.get(query_id, frozenset())
        return [i for i in self.corpus if i not in out]


def read(task: str, folder: Path | None = None) -> ObliqueTask:
    """Read one task.

    Args:
        task: One of ``TASKS``.
        folder: A folder in the layout of OBLIQ-Bench; the embedded sample if there is none.

    Raises:
        FileNotFoundError: If a file of the layout is missing.
        ValueError: If the task is unknown, an id is doubled, a text is empty or broken, the qrels have another header
            or a score that is no integer, or qrels or exclusions name what is not there.
    """
    path = _folder(task, folder)
    corpus = _texts(path / "corpus" / "corpus.jsonl")
    queries = _texts(path / "queries+qrels" / "queries.jsonl")
    judged = _qrels(path / _QRELS)
    _unique(
        {
            "documents": [i for i, _ in corpus],
            "queries": [i for i, _ in queries],
            _QRELS: [(query, document) for query, document, _ in judged],
        },
        task,
    )
    qrels: dict[str, dict[str, int]] = {}
    for query, document, grade in judged:
        qrels.setdefault(query, {})[document] = grade
    excluded_file = path / _EXCLUDED
    excluded = json.loads(excluded_file.read_text(encoding="utf-8")) if excluded_file.is_file() else {}
    return ObliqueTask(
        one_of("task", task, TASKS, "oblique data"),
        dict(corpus),
        dict(queries),
        qrels,
        {str(query): frozenset(map(str, documents)) for query, documents in excluded.items()},
    )


def read_attributes(task: str, folder: Path | None = None) -> dict[str, tuple[Split, str]]:
    """The split and the description of every latent attribute, by its id; for readers of the data, never an input."""
    found: dict[str, tuple[Split, str]] = {}
    for where, row in read_rows(_file(_folder(task, folder) / "attributes.jsonl")):
        check_keys(row, ("_id", "split", "description"), (), where)
        found[row["_id"]] = one_of("split", row["split"], SPLITS, where), row["description"]
    return found


def read_train(task: str, folder: Path | None = None) -> list[AuthoredDocument]:
    """The training documents with their descriptions and queries."""
    documents = []
    for where, row in read_rows(_file(_folder(task, folder) / "train" / "documents.jsonl")):
        check_keys(row, ("_id", "text", "description", "query", "generator", "metadata"), (), where)
        for key in ("text", "description", "query"):
            check_text(row[key], f"{where}: {key}")
        documents.append(
            AuthoredDocument(
                row["_id"],
                row["text"],
                row["description"],
                row["query"],
                row["metadata"]["attribute"],
                row["generator"],
                row["metadata"],
            )
        )
    _unique({"documents of train": [d.document_id for d in documents]}, task)
    return documents


def _folder(task: str, folder: Path | None) -> Path:
    return (folder or SAMPLE) / FOLDERS[one_of("task", task, TASKS, "oblique data")]


def _file(path: Path) -> Path:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; wanted a folder in the layout of OBLIQ-Bench")
    return path


def _texts(path: Path) -> list[tuple[str, ObliqueText]]:
    rows = []
    for where, row in read_rows(_file(path)):
        if "_id" not in row or "text" not in row:
            hints = "".join(did_you_mean(key, ("_id", "text")) for key in row if key != "metadata")
            raise ValueError(f"{where}: got the keys {list(row)}, wanted _id and text.{hints}")
        metadata = row.get("metadata") or {}
        split = metadata.get("split")
        rows.append(
            (
                str(row["_id"]),
                ObliqueText(
                    check_text(row["text"], f"{where}: text"),
                    metadata.get("attribute"),
                    None if split is None else one_of("split", split, SPLITS, where),
                    metadata,
                ),
            )
        )
    return rows


def _qrels(path: Path) -> list[tuple[str, str, int]]:
    """Judgements; the header spells ``query-id`` or ``query_id``, and an id may hold a space: only tabs divide."""
    lines = [line.rstrip("\r") for line in _file(path).read_bytes().decode().split("\n")]
    header = [name.replace("_", "-") for name in lines[0].split("\t")]
    if header != ["query-id", "corpus-id", "score"]:
        raise ValueError(f"{path.name}: got the header {lines[0]!r}, wanted query-id, corpus-id, score, tab-separated")
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        try:
            query, document, score = line.split("\t")  # fewer or more fields are a ValueError too
            rows.append((query, document, int(score)))
        except ValueError:
            raise ValueError(
                f"{path.name}:{number}: got {line!r}, wanted a query id, a document id and an integer, tab-separated"
            ) from None
    return rows


def _unique(ids: Mapping[str, Iterable[object]], task: str) -> None:
    doubled = {what: [i for i, n in Counter(found).items() if n > 1] for what, found in ids.items()}
    faults = [
        f"{len(found)} of {what} ({', '.join(map(str, found[:10]))})" for what, found in doubled.items() if found
    ]
    if faults:
        raise ValueError(f"{task}: ids must be unique; doubled: {'; '.join(faults)}")
