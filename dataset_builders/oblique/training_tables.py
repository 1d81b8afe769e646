"""The tables of ``{source}-obliq-queries`` and ``{source}-obliq-style-pairs``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from datasets import Features

from dataset_builders.description import read_description
from dataset_builders.folder import MANIFEST, Table, batches_of, shards
from dataset_builders.oblique.read import ALL, PAIRS, read_oblique_rows
from dataset_builders.rows import Row
from dataset_builders.schema import OBLIQUE_ROWS, STYLE_PAIRS
from dataset_builders.sources.obliq_bench import TASKS
from dataset_builders.stance.tables import Tables


def query_tables(rows: Sequence[Row]) -> Tables:
    """The config ``all``, which is loaded when none is named, and one for each task that has rows: a mixture takes an
    exact dose of a task, or leaves it out, by naming configs. All rows are ``train``."""
    tables = [_table(ALL, list(rows), OBLIQUE_ROWS)]
    for task in TASKS:
        own = [row for row in rows if row["task"] == task]
        tables += [_table(task, own, OBLIQUE_ROWS)] if own else []
    return Tables(tables, ALL, {})


def pair_tables(rows: Sequence[Row]) -> Tables:
    """The one config ``writing``; all rows are ``train``."""
    return Tables([_table(PAIRS, list(rows), STYLE_PAIRS)], PAIRS, {})


def _table(config: str, rows: list[Row], features: Features) -> Table:
    return Table(config, "train", features, len(rows), batches_of(rows, features))


def rebuilt(folder: Path, kind: str) -> tuple[list[Row], dict[str, Any]] | None:
    """The rows of an earlier build and what its manifest says of them; None if the folder is none of oblique rows.

    Raises:
        ValueError: If the rows are those of the other kind, or faulty.
    """
    found = shards(folder) if folder.is_dir() else {}
    if ALL not in found and PAIRS not in found:
        return None
    if (ALL in found) != (kind == "obliq-queries"):
        raise ValueError(f"{folder.name}: got the configs {list(found)}, which are not those of {kind}")
    rows = [asdict(row) for row in read_oblique_rows(folder)]
    for row in rows:
        row["negatives"] = list(row["negatives"])
        if kind == "obliq-queries":
            del row["anchor_id"]
        row |= {key: row[key] or "unknown" for key in ("source", "licence")}
    manifest = folder / MANIFEST
    facts: dict[str, Any] = json.loads(read_description(manifest)) if manifest.is_file() else {}
    return rows, {key: value for key, value in facts.items() if key not in ("name", "seed", "arguments", "configs")}
