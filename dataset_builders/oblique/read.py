"""Read oblique training rows: ours, from a built folder or a file, and those in the shape of ReasonIR."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataset_builders.choices import ObliqueTaskName
from dataset_builders.folder import shards
from dataset_builders.instructions import OBLIQUE_INSTRUCTIONS
from dataset_builders.read import read_config
from dataset_builders.rows import Row, check_keys, files_of, one_of, read_rows
from dataset_builders.schema import LENSES, OBLIQUE_ROWS, STYLE_PAIRS, Lens
from dataset_builders.sources.obliq_bench import TASKS
from dataset_builders.text import check_text, did_you_mean, text_id, text_key

ALL = "all"
"""The config of `{source}-obliq-queries` that holds the rows of every task."""
PAIRS = "writing"
"""The one config of `{source}-obliq-style-pairs`."""
KIND = "bm25"

_REASONIR = ("query", "pos", "neg", "task", "lens")


@dataclass(frozen=True, slots=True)
class ObliqueNegative:
    """A text that does not answer the query; ``kind`` says where it is from."""

    id: str
    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class ObliqueRow:
    """One row to train on.

    Attributes:
        task: None where the file does not say it.
        lens: None where the file does not say it.
        instruction: What goes before the query; "" where there is none.
        query: Bare.
        positive_id: Stands for what a claim is in stance data: rows that share it are no negatives for each other.
        positive: A document.
        negatives: By rank.
        attribute: The positive's, where it is known.
        generator: Who wrote the query.
        anchor_id: Of style pairs: the document whose style the query describes.
        source: None where the file does not say it.
        licence: None where the file does not say it.
    """

    task: ObliqueTaskName | None
    lens: Lens | None
    instruction: str
    query: str
    positive_id: str
    positive: str
    negatives: tuple[ObliqueNegative, ...]
    attribute: str | None = None
    generator: str | None = None
    anchor_id: str | None = None
    source: str | None = None
    licence: str | None = None


def read_oblique_rows(
    path: Path, config: str | None = None, *, task: str | None = None, split: str | None = None
) -> list[ObliqueRow]:
    """Read rows to train on.

    Args:
        path: A built or downloaded folder of ``{source}-obliq-queries`` or ``{source}-obliq-style-pairs``; or JSONL or
            parquet, or a folder of such files, with the columns of these, or with ReasonIR's ``query``, ``pos`` and
            ``neg``. There a text is a string or a pair of instruction and text, each positive is a row, and ids are
            made from the texts.
        config: Of a built folder; by default that of all rows.
        task: Of ReasonIR's rows that do not name one.
        split: Of a built folder; by default all.

    Raises:
        FileNotFoundError: If there is nothing at ``path``.
        ValueError: If there is no row, the folder has no such config or split, or a row is faulty, a negative that is
            the positive included; it is named.
    """
    if task is not None:
        one_of("task", task, TASKS, "oblique rows")
    found = shards(path) if path.is_dir() else {}
    if found:
        name = config or (ALL if ALL in found else next(iter(found)))
        features = STYLE_PAIRS if name in found and _has_anchor(found[name]) else OBLIQUE_ROWS
        tables = read_config(path, name, features)
        if split is not None and split not in tables:
            raise ValueError(
                f"{path}: config {name!r} has the splits {list(tables)}, wanted {split!r}."
                f"{did_you_mean(split, tables)}"
            )
        rows = [
            _ours(row, f"{path}: {name}, {part}, row {number}")
            for part, table in tables.items()
            if split in (None, part)
            for number, row in enumerate(table.to_pylist(), start=1)
        ]
    elif config is not None:
        raise ValueError(f"{path}: got the config {config!r}, but only a built folder has configs")
    else:
        rows = [
            row for file in files_of(path) for where, found in read_rows(file) for row in parse(found, where, task)
        ]
    if not rows:
        raise ValueError(f"{path}: there is no row in it; wanted queries with a positive and negatives")
    return rows


def _has_anchor(splits: dict[str, list[Path]]) -> bool:
    import pyarrow.parquet as pq

    file = next((f for files in splits.values() for f in files), None)
    return file is not None and "anchor_id" in pq.read_schema(file).names


def parse(row: Row, where: str, task: str | None = None) -> Iterator[ObliqueRow]:
    """The rows that one row of a file stands for, be it ours or in ReasonIR's shape, where each positive is a row.

    Raises:
        ValueError: If it is neither, or faulty; ``where`` is named.
    """
    if "pos" in row:
        yield from _reasonir(row, where, task)
    elif "positive" in row:
        yield _ours(row, where)
    else:
        known = [*STYLE_PAIRS, "pos", "neg"]
        hints = "".join(did_you_mean(key, known) for key in row if key not in known)
        raise ValueError(
            f"{where}: got the keys {list(row)}, wanted those of oblique rows ({', '.join(OBLIQUE_ROWS)}) or "
            f"ReasonIR's query, pos and neg.{hints}"
        )


def _ours(row: Row, where: str) -> ObliqueRow:
    optional = ("attribute", "anchor_id", "generator", "source", "licence")
    check_keys(row, [key for key in OBLIQUE_ROWS if key not in optional], optional, where)
    if not isinstance(row["negatives"], list):
        raise ValueError(f"{where}: negatives: got {type(row['negatives']).__name__}, wanted a list; it may be empty")
    negatives = []
    for number, negative in enumerate(row["negatives"], start=1):
        here = f"{where}: negative {number}"
        if not isinstance(negative, dict):
            raise ValueError(f"{here}: got {type(negative).__name__}, wanted an object with id, text and kind")
        check_keys(negative, ("id", "text", "kind"), (), here)
        negatives.append(
            ObliqueNegative(
                check_text(negative["id"], f"{here}: id"),
                check_text(negative["text"], f"{here}: text"),
                one_of("kind", negative["kind"], (KIND,), here),
            )
        )
    given = {key: row.get(key) for key in optional}
    for key, value in given.items():
        if value is not None:
            check_text(value, f"{where}: {key}")
    return _checked(
        ObliqueRow(
            task=one_of("task", row["task"], TASKS, where),
            lens=one_of("lens", row["lens"], LENSES, where),
            instruction=check_text(row["instruction"], f"{where}: instruction"),
            query=check_text(row["query"], f"{where}: query"),
            positive_id=check_text(row["positive_id"], f"{where}: positive_id"),
            positive=check_text(row["positive"], f"{where}: positive"),
            negatives=tuple(negatives),
            **given,
        ),
        where,
    )


def _reasonir(row: Row, where: str, task: str | None) -> Iterator[ObliqueRow]:
    check_keys(row, ("query", "pos"), [key for key in row if key not in _REASONIR] + list(_REASONIR), where)
    named = row.get("task") or task
    known = None if named is None else one_of("task", named, TASKS, where)
    before, query = _pair(row["query"], f"{where}: query")
    negatives = []
    for number, item in enumerate(_list(row.get("neg") or [], f"{where}: neg"), start=1):
        _, text = _pair(item, f"{where}: neg {number}")
        negatives.append(ObliqueNegative(text_id("d", text), text, KIND))
    positives = _list(row["pos"], f"{where}: pos")
    if not positives:
        raise ValueError(f"{where}: pos is empty, wanted at least one positive")
    for number, item in enumerate(positives, start=1):
        instruction, positive = _pair(item, f"{where}: pos {number}")
        yield _checked(
            ObliqueRow(
                task=known,
                lens=one_of("lens", row["lens"], LENSES, where) if row.get("lens") else None,
                instruction=before or instruction or ("" if known is None else OBLIQUE_INSTRUCTIONS[known]),
                query=query,
                positive_id=text_id("d", positive),
                positive=positive,
                negatives=tuple(negatives),
            ),
            where,
        )


def _list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{where}: got {type(value).__name__}, wanted a list of texts")
    return value


def _pair(value: object, where: str) -> tuple[str, str]:
    """Instruction, which may be empty, and text."""
    if isinstance(value, list):
        if len(value) != 2 or not isinstance(value[0], str):
            raise ValueError(f"{where}: got a list of {len(value)}, wanted a text or a pair of instruction and text")
        return value[0].strip(), check_text(value[1], where)
    return "", check_text(value, where)


def _checked(row: ObliqueRow, where: str) -> ObliqueRow:
    key = text_key(row.positive)
    wrong = [n.id for n in row.negatives if n.id == row.positive_id or text_key(n.text) == key]
    if wrong:
        raise ValueError(f"{where}: the negatives {wrong} are the positive; remove them")
    return row
