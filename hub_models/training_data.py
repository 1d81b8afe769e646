"""The ``data:`` of a recipe as training rows: read, pinned, drawn, and put into the columns that a loss takes."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Dataset, concatenate_datasets, load_dataset

from dataset_builders.folder import rows_sha256, shards
from dataset_builders.instructions import format_query
from dataset_builders.read import read_triplets
from dataset_builders.rows import read_rows
from dataset_builders.schema import CURRICULA, TRIPLETS, same_columns
from dataset_builders.sources import load as load_source
from dataset_builders.stance import splits, tables
from dataset_builders.text import did_you_mean
from hub_models.batching import RowKeys
from hub_models.manifest import TrainingData
from hub_models.recipe import DataEntry, Recipe

logger = logging.getLogger(__name__)

SAMPLE_TRIPLETS = "sample-stance-triplets"


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """The rows of a run (`schema.TRIPLETS`), and where each part of them comes from."""

    triplets: Dataset
    parts: tuple[TrainingData, ...]

    @property
    def hash(self) -> str:
        """SHA-256 over the rows of all parts, in order."""
        return hashlib.sha256("".join(part.sha256 for part in self.parts).encode()).hexdigest()

    def keys(self) -> RowKeys:
        """What the batch sampler must know of each row."""
        rows = self.triplets
        negatives = [[n["text"] for n in row] for row in rows["negatives"][:]]
        return RowKeys.from_columns(
            rows["claim_id"][:], rows["claim"][:], rows["stance"][:], rows["positive"][:], negatives
        )

    def columns(self, query_template: str, negatives: int) -> Dataset:
        """The texts that reach the tokenizer: ``anchor``, ``positive``, ``negative_1`` to ``negative_n``, no others.

        A trainer takes *every* column for an input, by position: ids and stances would be trained on.

        Raises:
            ValueError: If a row has fewer negatives than asked for.
        """
        found = self.triplets["negatives"][:]
        short = [i for i, row in enumerate(found) if len(row) < negatives]
        if short:
            raise ValueError(
                f"{len(short)} of {len(found)} rows have fewer than negatives_per_anchor = {negatives} negatives, "
                f"such as row {short[0]} with {len(found[short[0]])}; set it lower or build other triplets"
            )
        queries = zip(self.triplets["instruction"][:], self.triplets["claim"][:], strict=True)
        columns: dict[str, list[str]] = {
            "anchor": [format_query(query_template, instruction, claim) for instruction, claim in queries],
            "positive": self.triplets["positive"][:],
        }
        for n in range(negatives):
            columns[f"negative_{n + 1}"] = [row[n]["text"] for row in found]
        return Dataset.from_dict(columns)


def read(recipe: Recipe) -> TrainingSet:
    """Read the rows of a recipe, in the order of its entries.

    An entry's ``path`` is a built ``{source}-stance-triplets`` folder, a parquet or JSONL file of triplets, or claims
    with arguments (short form, a folder of it, or ``{source}-stance-arguments``), whose triplets are then made here.
    The sample triplets are built where they are absent.

    Raises:
        FileNotFoundError: If there is nothing at a path.
        ValueError: If columns, config or split are not there, the rows are not those that ``sha256`` pins, or there
            are fewer than ``dose``.
    """
    parts = [read_entry(entry, recipe.seed) for entry in recipe.data]
    return TrainingSet(concatenate_datasets([rows for rows, _ in parts]), tuple(part for _, part in parts))


def read_entry(entry: DataEntry, seed: int) -> tuple[Dataset, TrainingData]:
    """The rows of one entry, see `read`; the seed draws those of its ``dose``."""
    where = str(entry.path or entry.repo)
    if entry.mode != "blend":
        raise ValueError(f"data {where}: got mode {entry.mode!r}; triplets can only be blended, set mode=blend")
    config, rows = _read_repo(entry) if entry.repo else _read_path(Path(where), entry, seed)
    digest = rows_sha256(rows.data.table)
    if entry.sha256 not in (None, digest):
        raise ValueError(
            f"data {where}: the rows have SHA-256 {digest}, the recipe pins {entry.sha256}; restore the data that was "
            "pinned, or set sha256 to null to train on what is there"
        )
    if entry.dose is not None and entry.dose > len(rows):
        raise ValueError(f"data {where}: got {len(rows)} rows, the recipe's dose is {entry.dose}; lower it")
    if entry.dose is not None and entry.dose < len(rows):
        drawn = np.random.default_rng(seed).choice(len(rows), entry.dose, replace=False)
        rows = Dataset(rows.data.table.take(np.sort(drawn)))
        digest = rows_sha256(rows.data.table)
    if not len(rows):
        raise ValueError(f"data {where}: there are no rows in the split {entry.split!r}")
    logger.info("%s: %d triplets%s", where, len(rows), f" of {config}" if config else "")
    part = TrainingData(
        name=entry.repo or Path(where).name,
        config=config,
        sha256=digest,
        rows=len(rows),
        licence=_all(rows["licence"][:]),
        source=_all(rows["source"][:]),
        revision=entry.revision,
    )
    return rows, part


def _read_repo(entry: DataEntry) -> tuple[str | None, Dataset]:
    rows = load_dataset(entry.repo, entry.config, split=entry.split, revision=entry.revision)
    same_columns(rows.column_names, TRIPLETS, f"data {entry.repo}")
    return entry.config, rows.select_columns(list(TRIPLETS)).cast(TRIPLETS)


def _read_path(path: Path, entry: DataEntry, seed: int) -> tuple[str | None, Dataset]:
    if path.name == SAMPLE_TRIPLETS and not path.exists():
        from dataset_builders.__main__ import build

        build(name=SAMPLE_TRIPLETS, out=path)
    if not path.exists():
        near = did_you_mean(path.name, [p.name for p in path.parent.iterdir()]) if path.parent.is_dir() else ""
        raise FileNotFoundError(f"data {path}: there is no such file or folder.{near}")
    if path.is_file() and _holds_triplets(path):
        return None, read_triplets(path)
    curricula = [name for name in shards(path) if name in CURRICULA] if path.is_dir() else []
    if curricula:
        config = entry.config or curricula[-1]
        return config, read_triplets(path, config, entry.split)
    return _from_claims(path, entry, seed)


def _holds_triplets(path: Path) -> bool:
    if path.suffix == ".parquet":
        return "positive" in pq.read_schema(path).names
    _, row = next(read_rows(path), ("", {}))
    return "positive" in row


def _from_claims(path: Path, entry: DataEntry, seed: int) -> tuple[str, Dataset]:
    data = splits.assign(load_source(path.stem, path), seed)
    built = tables.triplet_tables(data, triplets=None, seed=seed)
    wanted = entry.config or built.default
    found = {(t.config, t.split): t for t in built.tables}
    table = found.get((wanted, entry.split))
    if table is None:
        raise ValueError(
            f"data {path}: its claims give {sorted(found)}, wanted {(wanted, entry.split)}."
            f"{did_you_mean(wanted, [config for config, _ in found])}"
        )
    return wanted, Dataset(pa.Table.from_batches(table.batches).cast(TRIPLETS.arrow_schema))


def _all(values: list[str]) -> str:
    return " and ".join(sorted(set(values)))
