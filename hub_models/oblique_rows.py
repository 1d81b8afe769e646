"""Oblique training rows (O section 3) for a recipe: read from folders, files and the Hub, replaced, numbered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Dataset

from dataset_builders.folder import shards
from dataset_builders.oblique.attributes import LENS_OF
from dataset_builders.oblique.read import ALL, PAIRS, ObliqueRow, parse, read_oblique_rows
from dataset_builders.rows import SUFFIXES, read_rows
from dataset_builders.schema import OBLIQUE_ROWS, STYLE_PAIRS
from dataset_builders.sources.obliq_bench import TASKS
from hub_models.batching import RowKeys
from hub_models.recipe import DataEntry

SAMPLE_ROWS = ("sample-obliq-queries", "sample-obliq-style-pairs")
"""What a recipe may name without having it: it is built."""


def holds_oblique_rows(path: Path) -> bool:
    """Whether a folder or file that exists holds oblique rows, by its configs or by the keys of its first row."""
    if path.is_dir():
        configs = shards(path)
        if configs:
            return not {ALL, PAIRS, *TASKS}.isdisjoint(configs)
        files = sorted(f for f in path.iterdir() if f.suffix in SUFFIXES and f.is_file())
        return bool(files) and holds_oblique_rows(files[0])
    if path.suffix == ".parquet":
        return are_oblique(pq.read_schema(path).names)
    _, row = next(read_rows(path), ("", {}))
    return are_oblique(row)


def are_oblique(keys: Iterable[str]) -> bool:
    """Whether rows of these keys are oblique ones, ours or ReasonIR's, and no stance triplets or claims."""
    keys = set(keys)
    return "query" in keys and not {"pos", "positive"}.isdisjoint(keys)


def read_path(path: Path, entry: DataEntry) -> tuple[str | None, Dataset]:
    """The config and the rows of a folder or file.

    Raises:
        ValueError: As `read_oblique_rows` does, or if no row is of the entry's task, or one has no instruction.
    """
    rows = read_oblique_rows(path, entry.config, task=entry.task, split=entry.split)
    configs = shards(path) if path.is_dir() else {}
    config = entry.config or (ALL if ALL in configs else next(iter(configs), None))
    return config, _table(_of_task(rows, entry, str(path)))


def read_loaded(rows: Dataset, entry: DataEntry) -> Dataset:
    """The rows of a data set of the Hub.

    Raises:
        ValueError: If a row is faulty or has no instruction, or none is of the entry's task.
    """
    where = str(entry.repo)
    found = [r for n, row in enumerate(rows, start=1) for r in parse(row, f"{where}, row {n}", entry.task)]
    return _table(_of_task(found, entry, where))


def _of_task(rows: list[ObliqueRow], entry: DataEntry, where: str) -> list[ObliqueRow]:
    own = [row for row in rows if entry.task in (None, row.task)]
    if not own:
        there = sorted({str(row.task) for row in rows})
        raise ValueError(f"data {where}: got rows of {there}, wanted the task {entry.task!r}; leave `task` out")
    bare = sum(not row.instruction for row in own)
    if bare:
        raise ValueError(
            f"data {where}: {bare} of {len(own)} rows name neither an instruction nor a task, and a query stands "
            f"behind its task's instruction in training as in search; set `task` to one of {list(TASKS)}"
        )
    return own


def _table(rows: Sequence[ObliqueRow]) -> Dataset:
    """By the columns that a built folder of such rows has, so that equal rows have one hash wherever they lie."""
    features = STYLE_PAIRS if any(row.anchor_id is not None for row in rows) else OBLIQUE_ROWS
    content = [
        asdict(row) | {key: getattr(row, key) or "unknown" for key in ("source", "licence")} | _negatives(row)
        for row in rows
    ]
    return Dataset(pa.Table.from_pylist(content, schema=features.arrow_schema))


def _negatives(row: ObliqueRow) -> dict[str, list[dict[str, str]]]:
    return {"negatives": [asdict(negative) for negative in row.negatives]}


def together(tables: Sequence[Dataset]) -> Dataset:
    """Rows of several tables as one; ``anchor_id`` is null where a table has none."""
    names, schema = list(STYLE_PAIRS), STYLE_PAIRS.arrow_schema
    columns = [
        t if "anchor_id" in t.column_names else t.append_column("anchor_id", pa.nulls(len(t), pa.string()))
        for t in (table.data.table for table in tables)
    ]
    return Dataset(pa.concat_tables([t.select(names).cast(schema) for t in columns]))


def check_replacing(rows: Dataset, where: str) -> None:
    """Refuse an entry of ``mode: replace`` that is no style pairs: nothing else takes over another's place (O N.1).

    Raises:
        ValueError: If a row is not of the style graph, or not of writing.
    """
    wrong = [i for i, r in enumerate(zip(rows["lens"], rows["task"], strict=True)) if r != ("style", PAIRS)]
    if wrong:
        row = rows[wrong[0]]
        raise ValueError(
            f"data {where}: got mode 'replace' and {len(wrong)} of {len(rows)} rows that are no style pairs, such as "
            f"row {wrong[0]} (task {row['task']!r}, lens {row['lens']!r}); style pairs alone replace the written "
            f"queries of {PAIRS!r}: set mode=blend"
        )


def without_replaced(rows: Dataset) -> Dataset:
    """The rows that stay where style pairs replace the written queries of their task (O N.1)."""
    stays = [lens == "style" or task != PAIRS for lens, task in zip(rows["lens"], rows["task"], strict=True)]
    return rows if all(stays) else Dataset(rows.data.table.filter(pa.array(stays)))


def keys(rows: Dataset) -> RowKeys:
    """What the batch sampler must know of each row. See `RowKeys.from_queries`.

    An attribute counts as one thing asked for, but in a tip-of-the-tongue task, where a query means one document.
    """
    tasks = [task or "" for task in rows["task"]]
    one_document = {task for task, lens in LENS_OF.items() if lens == "tip_of_tongue"}
    attributes = [
        f"{task}/{attribute}" if attribute is not None and task not in one_document else None
        for task, attribute in zip(tasks, rows["attribute"], strict=True)
    ]
    return RowKeys.from_queries(
        [f"{i} {q}" for i, q in zip(rows["instruction"], rows["query"], strict=True)],
        attributes,
        [f"{task}/{i}" for task, i in zip(tasks, rows["positive_id"], strict=True)],
        rows["positive"][:],
        [[n["text"] for n in negatives] for negatives in rows["negatives"]],
    )
