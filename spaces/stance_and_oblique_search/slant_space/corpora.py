"""What is searched: documents with what is known of them, claims to pick, and who takes which stance on them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from dataset_builders.instructions import Stance
from dataset_builders.rows import unique_keys
from dataset_builders.sources import load
from dataset_builders.text import check_text, claim_key
from hub_models.evaluation.metrics import STANCE_BIT
from hub_models.evaluation.stance import judge

Kind = Literal["right", "wrong stance", "wrong topic"]

UPLOAD_TYPES = (".csv", ".jsonl", ".txt")
UPLOAD_BYTES = 4 * 2**20
UPLOAD_DOCUMENTS = 2_000
DOCUMENT_CHARACTERS = 10_000


@dataclass(frozen=True, slots=True)
class Document:
    """One document and, where the data says so, where it is from and whether it names its verdict."""

    id: str
    text: str
    source: str | None = None
    style: str | None = None


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents and, where there are any, labelled claims.

    Attributes:
        name: What visitors read.
        documents: By id.
        claims: To pick from.
        stances: ``stances[claim_key][document_id]``, bits of the stances towards that claim.
    """

    name: str
    documents: dict[str, Document]
    claims: list[str] = field(default_factory=list)
    stances: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The name where it stands alone."""
        return "Sample" if self.name == "sample" else self.name

    def kind(self, claim: str, stance: Stance, document_id: str) -> Kind | None:
        """What a result is by the labels, or None where the claim has none."""
        labels = self.stances.get(claim_key(claim))
        if labels is None:
            return None
        bits = labels.get(document_id, 0)
        return "right" if bits & STANCE_BIT[stance] else "wrong stance" if bits else "wrong topic"

    def sources(self) -> list[str]:
        return sorted({d.source for d in self.documents.values() if d.source})

    def styles(self) -> list[str]:
        return sorted({d.style for d in self.documents.values() if d.style})


def stance_corpus(source: str, path: Path | None = None) -> Corpus:
    """The corpus of the published tables: all arguments of test and validation claims; the test claims to pick."""
    judged = judge(load(source, path), "test")
    stances: dict[str, dict[str, int]] = {}
    for claim, row in zip(judged.claims, judged.labels, strict=True):
        labels = stances.setdefault(claim_key(claim.claim), {})
        for column in row.nonzero()[0]:
            labels[judged.documents[column].argument_id] = int(row[column])
    documents = {a.argument_id: Document(a.argument_id, a.text, a.source, a.style) for a in judged.documents}
    return Corpus(source, documents, [c.claim for c in judged.claims], stances)


def open_corpus(path: Path | None) -> Corpus:
    """The sample, or a corpus of your own: stance data, or documents alone in CSV, JSONL or text.

    Raises:
        ValueError: If it is neither, or faulty.
    """
    if path is None:
        return stance_corpus("sample")
    if path.is_file() and path.suffix.lower() in UPLOAD_TYPES and not _has_claims(path):
        documents = read_documents(path.name, path.read_bytes(), limit=None)
        return Corpus(path.name, {d.id: d for d in documents})
    return stance_corpus(path.stem, path)


def _has_claims(path: Path) -> bool:
    if path.suffix.lower() != ".jsonl":
        return False
    with path.open("rb") as lines:
        return b'"claim"' in lines.readline()


def read_documents(name: str, content: bytes, limit: int | None = UPLOAD_DOCUMENTS) -> list[Document]:
    """Read documents from a file: a line each in TXT; ``text``, and if you like ``id``, ``source`` and ``style``, in
    CSV and JSONL (``_id`` and ``title`` as in BEIR are read too).

    Args:
        name: The file's name; its suffix says what it is.
        content: UTF-8.
        limit: At most this many documents.

    Raises:
        ValueError: If the type is none of these, the file is too large or no UTF-8, a row is faulty, an id, a key or
            a column is doubled, or there is no document.
    """
    suffix = Path(name).suffix.lower()
    if suffix not in UPLOAD_TYPES:
        raise ValueError(f"{name}: got a file of type {suffix!r}, wanted one of {list(UPLOAD_TYPES)}")
    if limit is not None and len(content) > UPLOAD_BYTES:
        raise ValueError(f"{name}: got {len(content):,} bytes, wanted at most {UPLOAD_BYTES:,}; upload a part of it")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name}: it is no UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8"
        ) from None
    documents: dict[str, Document] = {}
    for where, row in _ROWS[suffix](name, text):
        if limit is not None and len(documents) == limit:
            raise ValueError(f"{name}: it has more than {limit:,} documents; upload a part of it")
        document = _document(where, row, len(documents))
        if document.id in documents:
            raise ValueError(f"{where}: the id {document.id!r} is there twice; ids must be distinct")
        documents[document.id] = document
    if not documents:
        raise ValueError(f"{name}: there is no document in it, wanted at least one")
    return list(documents.values())


def _document(where: str, row: dict[str, Any], number: int) -> Document:
    text = check_text(row.get("text"), f"{where}: text")
    if row.get("title"):
        text = f"{check_text(row['title'], f'{where}: title')} {text}"
    if len(text) > DOCUMENT_CHARACTERS:
        raise ValueError(f"{where}: got {len(text):,} characters, wanted at most {DOCUMENT_CHARACTERS:,}; split it")
    given = next((row[key] for key in ("id", "_id") if row.get(key) not in (None, "")), number + 1)
    identity = str(given) if type(given) is int else check_text(given, f"{where}: id")
    more = {key: check_text(row[key], f"{where}: {key}") for key in ("source", "style") if row.get(key)}
    return Document(identity, text, **more)


def _lines(name: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        if line.strip():
            yield f"{name}, line {number}", {"text": line.strip()}


def _json_lines(name: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, object_pairs_hook=unique_keys)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{name}, line {number}: it is no JSON that can be read ({error})") from None
        if not isinstance(row, dict):
            raise ValueError(f"{name}, line {number}: got {type(row).__name__}, wanted an object with `text`")
        yield f"{name}, line {number}", row


def _csv(name: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = rows.fieldnames or []
        if "text" not in columns:
            raise ValueError(f"{name}: got the columns {columns}, wanted one called `text`")
        if doubled := [column for column in dict.fromkeys(columns) if columns.count(column) > 1 and column]:
            raise ValueError(f"{name}: the columns {doubled} stand twice in its head; rename or remove one of each")
        for number, row in enumerate(rows, start=1):
            if None in row:
                raise ValueError(
                    f"{name}, row {number}: it has more fields than the head has columns; put a text with a comma "
                    "between double quotes"
                )
            if any((value or "").strip() for value in row.values()):  # a spreadsheet leaves rows of bare commas
                yield f"{name}, row {number}", row
    except csv.Error as error:
        raise ValueError(f"{name}: it is no CSV that can be read ({error})") from None


_ROWS = {".txt": _lines, ".jsonl": _json_lines, ".csv": _csv}
