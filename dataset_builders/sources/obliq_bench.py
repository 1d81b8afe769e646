"""Oblique benchmarks in the layout of OBLIQ-Bench: the embedded sample, any folder of that layout, or the Hub's own.

A folder holds ``descriptive/twitter``, ``descriptive/wildchat``, ``analogues/math``, ``analogues/writing`` and
``tip-of-tongue/congress``, each with ``corpus/corpus.jsonl`` and, in ``queries+qrels``, ``queries.jsonl``,
``qrels.tsv`` (gold) and, where there are any, ``qrels_pool.tsv`` (gold and what was judged later) and
``per_query_excluded_ids.json`` (documents that may not be returned for a query). The sample has ``attributes.jsonl``
and ``train/documents.jsonl`` besides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from dataset_builders.choices import ObliqueTaskName
from dataset_builders.rows import Row, check_keys, one_of, read_json, read_rows, read_text
from dataset_builders.schema import SPLITS, Split
from dataset_builders.text import check_text, did_you_mean, shown

TASKS: tuple[ObliqueTaskName, ...] = get_args(ObliqueTaskName)
FOLDERS: dict[ObliqueTaskName, str] = {
    "twitter": "descriptive/twitter",
    "math": "analogues/math",
    "writing": "analogues/writing",
    "congress": "tip-of-tongue/congress",
    "wildchat": "descriptive/wildchat",
}
SAMPLE = Path(__file__).parents[1] / "sample" / "oblique"
REPO = "dianetc/OBLIQ-Bench"
REVISION = "4ebee29f68ceeb62ca00bd73d5478acdd3cd7764"
POOLED: tuple[ObliqueTaskName, ...] = ("twitter", "wildchat", "math")
EXCLUDING: tuple[ObliqueTaskName, ...] = ("math", "writing")

Qrels = dict[str, dict[str, int]]
"""``qrels[query_id][document_id]`` is a grade; above 0 is relevant."""

_CORPUS = "corpus/corpus.jsonl"
_QUERIES = "queries+qrels/queries.jsonl"
_QRELS = "queries+qrels/qrels.tsv"
_POOL = "queries+qrels/qrels_pool.tsv"
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
        qrels: The gold judgements.
        excluded: Documents that may not be returned for a query; none for a query that is absent here.
        pooled: Gold and what was judged later; None where nothing was.
        allow_dangling: Whether judgements may name documents that are not in the corpus. No search can find them, so
            every metric has a ceiling below 1.

    Raises:
        ValueError: If judgements or exclusions name a query or document that is not there, the pool lacks a relevant
            document of gold, a grade is negative, or every document is excluded for a query.
    """

    task: ObliqueTaskName
    corpus: dict[str, ObliqueText]
    queries: dict[str, ObliqueText]
    qrels: Qrels
    excluded: dict[str, frozenset[str]]
    pooled: Qrels | None = None
    allow_dangling: bool = False

    def __post_init__(self) -> None:
        excluded = [(q, d) for q, documents in self.excluded.items() for d in sorted(documents)]
        judged = [(_QRELS, self.qrels), *([(_POOL, self.pooled)] if self.pooled is not None else [])]
        for what, pairs in [*((name, _pairs(qrels)) for name, qrels in judged), (_EXCLUDED, excluded)]:
            dangling = [
                (q, d) for q, d in pairs if q not in self.queries or not (d in self.corpus or self.allow_dangling)
            ]
            if dangling:
                raise ValueError(
                    f"{self.task}: {len(dangling)} rows of {what} name a query or document that is not there, such as "
                    f"{dangling[:5]}; add the texts or remove the rows"
                )
        negative = [(q, d) for _, qrels in judged for q, d in _pairs(qrels) if qrels[q][d] < 0]
        if negative:
            raise ValueError(f"{self.task}: got negative grades, such as those of {negative[:5]}; wanted 0 or more")
        if self.pooled is not None:
            lost = [(q, d) for q, d in _pairs(self.qrels) if self.qrels[q][d] > 0 and not self._in_pool(q, d)]
            if lost:
                raise ValueError(
                    f"{self.task}: {len(lost)} relevant rows of {_QRELS} are not relevant in {_POOL}, such as "
                    f"{lost[:5]}; the pool holds gold and what was judged later"
                )
        barred = [q for q, documents in self.excluded.items() if self.corpus.keys() <= documents]
        if barred:
            raise ValueError(
                f"{self.task}: all {len(self.corpus)} documents are excluded for {len(barred)} queries, such as "
                f"{barred[:5]}; remove the queries or their exclusions"
            )

    def _in_pool(self, query_id: str, document_id: str) -> bool:
        return (self.pooled or {}).get(query_id, {}).get(document_id, 0) > 0

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
            None if self.pooled is None else {i: grades for i, grades in self.pooled.items() if i in queries},
            self.allow_dangling,
        )

    def candidates(self, query_id: str) -> list[str]:
        """Ids of the documents that may be returned for a query, in the order of the corpus."""
        out = self.excluded.get(query_id, frozenset())
        return [i for i in self.corpus if i not in out]


def read(task: str, folder: Path | None = None, *, allow_dangling: bool = False) -> ObliqueTask:
    """Read one task.

    Args:
        task: One of ``TASKS``.
        folder: A folder in the layout of OBLIQ-Bench; the embedded sample if there is none.
        allow_dangling: Keep judgements of documents that are not in the corpus, and drop those of queries that are not
            there, in place of refusing both.

    Raises:
        FileNotFoundError: If a file of the layout is missing.
        ValueError: If the task is unknown, an id is doubled, a text is empty or broken, the qrels have another header
            or a score that is no integer, or for what `ObliqueTask` refuses.
    """
    path = _folder(task, folder)
    corpus = _texts(path / _CORPUS)
    queries = _texts(path / _QUERIES)
    judged = {name: read_qrels(path / name) for name in (_QRELS, _POOL) if name == _QRELS or (path / name).is_file()}
    check_unique(
        {
            "documents": [i for i, _ in corpus],
            "queries": [i for i, _ in queries],
            **{name: [(query, document) for query, document, _ in rows] for name, rows in judged.items()},
        },
        task,
    )
    asked = {i for i, _ in queries}
    qrels: dict[str, Qrels] = {name: {} for name in judged}
    for name, rows in judged.items():
        for query, document, grade in rows:
            if query in asked or not allow_dangling:
                qrels[name].setdefault(query, {})[document] = grade
    excluded_file = path / _EXCLUDED
    excluded = _excluded(excluded_file) if excluded_file.is_file() else {}
    return ObliqueTask(
        one_of("task", task, TASKS, "oblique data"),
        dict(corpus),
        dict(queries),
        qrels[_QRELS],
        excluded,
        qrels.get(_POOL),
        allow_dangling,
    )


def download(task: str, revision: str = REVISION) -> Path:
    """Fetch the files of one task of OBLIQ-Bench from the Hub, or from its cache.

    Args:
        task: One of ``TASKS``.
        revision: A commit of ``REPO``.

    Returns:
        A folder for `read`.

    Raises:
        ValueError: If the task is unknown.
        FileNotFoundError: If the Hub cannot be asked and the cache lacks a file, or the Hub has no such file.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, LocalEntryNotFoundError

    name = one_of("task", task, TASKS, "oblique data")
    for file in files_of_task(name):
        try:
            path = hf_hub_download(REPO, file, repo_type="dataset", revision=revision)
        except (EntryNotFoundError, LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
            raise FileNotFoundError(
                f"{file} of the Hub data set {REPO} at {revision[:8]} cannot be had ({type(error).__name__}); allow "
                f"access to the Hub, or give a folder of the same layout"
            ) from error
    return Path(path).parents[3]


def files_of_task(task: ObliqueTaskName) -> list[str]:
    """The files of one task in ``REPO``."""
    names = [_CORPUS, _QUERIES, _QRELS]
    names += [_POOL] if task in POOLED else []
    names += [_EXCLUDED] if task in EXCLUDING else []
    return [f"{FOLDERS[task]}/{name}" for name in names]


def read_attributes(task: str, folder: Path | None = None) -> dict[str, tuple[Split, str]]:
    """The split and the description of every latent attribute, by its id; for readers of the data, never an input."""
    found: dict[str, tuple[Split, str]] = {}
    for where, row in read_rows(_file(_folder(task, folder) / "attributes.jsonl")):
        check_keys(row, ("_id", "split", "description"), (), where)
        attribute = check_text(row["_id"], f"{where}: _id")
        description = check_text(row["description"], f"{where}: description")
        found[attribute] = one_of("split", row["split"], SPLITS, where), description
    return found


def read_train(task: str, folder: Path | None = None) -> list[AuthoredDocument]:
    """The training documents with their descriptions and queries.

    Raises:
        FileNotFoundError: If the task has none.
        ValueError: If a row has another key or lacks one, a text is blank or broken, or an id is doubled.
    """
    documents = []
    for where, row in read_rows(_file(_folder(task, folder) / "train" / "documents.jsonl")):
        check_keys(row, ("_id", "text", "description", "query", "generator", "metadata"), (), where)
        document_id, text = _text(row, where)
        check_text(text.metadata.get("text_id", "its own"), f"{where}: metadata: text_id")
        documents.append(
            AuthoredDocument(
                document_id,
                text.text,
                check_text(row["description"], f"{where}: description"),
                check_text(row["query"], f"{where}: query"),
                check_text(text.attribute, f"{where}: attribute"),
                check_text(row["generator"], f"{where}: generator"),
                text.metadata,
            )
        )
    check_unique({"documents of train": [d.document_id for d in documents]}, task)
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
        rows.append(_text(row, where))
    return rows


def _text(row: Row, where: str) -> tuple[str, ObliqueText]:
    metadata = row.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise ValueError(f"{where}: metadata: got {type(metadata).__name__}, wanted an object")
    split, attribute = metadata.get("split"), metadata.get("attribute")
    return check_text(str(row["_id"]), f"{where}: _id"), ObliqueText(
        check_text(row["text"], f"{where}: text"),
        None if attribute is None else check_text(attribute, f"{where}: attribute"),
        None if split is None else one_of("split", split, SPLITS, where),
        metadata,
    )


def _excluded(path: Path) -> dict[str, frozenset[str]]:
    found = read_json(path)
    if not isinstance(found, dict) or not all(isinstance(documents, list) for documents in found.values()):
        raise ValueError(f"{path.name}: wanted an object with a list of document ids for each query id")
    where = f"{path.name}: a document excluded for"
    return {q: frozenset(check_text(str(d), f"{where} {shown(q)}") for d in ids) for q, ids in found.items()}


def read_qrels(path: Path) -> list[tuple[str, str, int]]:
    """Judgements of a ``qrels.tsv`` as (query, document, grade).

    The header spells ``query-id`` or ``query_id``, and an id may hold a space: only tabs divide.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the header is another, a line is not two ids and an integer, or an id is blank or broken.
    """
    lines = [line.rstrip("\r") for line in read_text(_file(path)).split("\n")]
    header = [name.replace("_", "-") for name in lines[0].split("\t")]
    if header != ["query-id", "corpus-id", "score"]:
        raise ValueError(
            f"{path.name}: got the header {shown(lines[0])}, wanted query-id, corpus-id, score, tab-separated"
        )
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        where = f"{path.name}:{number}"
        try:
            query, document, score = line.split("\t")  # fewer or more fields are a ValueError too
            grade = int(score)
        except ValueError:
            raise ValueError(
                f"{where}: got {shown(line)}, wanted a query id, a document id and an integer, tab-separated"
            ) from None
        rows.append((check_text(query, f"{where}: query-id"), check_text(document, f"{where}: corpus-id"), grade))
    return rows


def _pairs(qrels: Qrels) -> list[tuple[str, str]]:
    return [(query, document) for query, grades in qrels.items() for document in grades]


def check_unique(ids: Mapping[str, Iterable[object]], task: str) -> None:
    """Refuse what stands twice.

    Raises:
        ValueError: Naming what is doubled.
    """
    doubled = {what: [i for i, n in Counter(found).items() if n > 1] for what, found in ids.items()}
    faults = [
        f"{len(found)} of {what} ({', '.join(map(str, found[:10]))})" for what, found in doubled.items() if found
    ]
    if faults:
        raise ValueError(f"{task}: ids must be unique; doubled: {'; '.join(faults)}")
