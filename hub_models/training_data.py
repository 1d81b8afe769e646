"""The ``data:`` of a recipe as training rows: read, pinned, drawn, and put into the columns that a loss takes."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Dataset, concatenate_datasets, load_dataset

from dataset_builders import builds
from dataset_builders.folder import rows_sha256, shards
from dataset_builders.instructions import format_query
from dataset_builders.oblique.read import PAIRS
from dataset_builders.read import check_ids, read_triplets
from dataset_builders.rows import read_rows
from dataset_builders.schema import CURRICULA, TRIPLETS, same_columns
from dataset_builders.sources import load as load_source
from dataset_builders.stance import splits, tables
from dataset_builders.text import did_you_mean
from hub_models import oblique_rows
from hub_models.batching import RowKeys
from hub_models.manifest import TrainingData
from hub_models.recipe import DataEntry, Recipe

logger = logging.getLogger(__name__)

SAMPLE_TRIPLETS = "sample-stance-triplets"

Family = Literal["stance", "oblique"]


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """The rows of a run, of stance (`schema.TRIPLETS`) or oblique (`schema.STYLE_PAIRS`), and where each part of them
    comes from."""

    triplets: Dataset
    parts: tuple[TrainingData, ...]

    @property
    def hash(self) -> str:
        """SHA-256 over the rows of all parts, in order."""
        return hashlib.sha256("".join(part.sha256 for part in self.parts).encode()).hexdigest()

    @property
    def family(self) -> Family:
        """Which kind of search the rows train."""
        return _family(self.triplets)

    def keys(self) -> RowKeys:
        """What the batch sampler must know of each row."""
        rows = self.triplets
        if self.family == "oblique":
            return oblique_rows.keys(rows)
        negatives = [[n["text"] for n in row] for row in rows["negatives"][:]]
        return RowKeys.from_columns(
            rows["claim_id"][:], rows["claim"][:], rows["stance"][:], rows["positive"][:], negatives
        )

    def asked(self) -> list[str]:
        """What each row asks about, without an instruction: its claim, or its query."""
        texts: list[str] = self.triplets["query" if self.family == "oblique" else "claim"][:]
        return texts

    def trained_on(self) -> list[str]:
        """The texts by which an evaluation knows that it asks about what was trained on: claims, or oblique queries
        and the documents that are right for them, which may be queries elsewhere."""
        return [*self.asked(), *(self.triplets["positive"][:] if self.family == "oblique" else [])]

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
                f"such as row {short[0]} with {len(found[short[0]])}; set it lower or build other rows"
            )
        queries = zip(self.triplets["instruction"][:], self.asked(), strict=True)
        columns: dict[str, list[str]] = {
            "anchor": [format_query(query_template, instruction, asked) for instruction, asked in queries],
            "positive": self.triplets["positive"][:],
        }
        for n in range(negatives):
            columns[f"negative_{n + 1}"] = [row[n]["text"] for row in found]
        return Dataset.from_dict(columns)


def read(recipe: Recipe) -> TrainingSet:
    """Read the rows of a recipe, in the order of its entries.

    An entry's ``path`` is a built folder of ``{source}-stance-triplets``, ``{source}-obliq-queries`` or
    ``{source}-obliq-style-pairs``; a parquet or JSONL file of such rows, or a file or folder of rows in ReasonIR's
    shape; or claims with arguments (short form, a folder of it, or ``{source}-stance-arguments``), whose triplets are
    then made here. The sample's triplets and oblique rows are built where they are absent.

    Raises:
        FileNotFoundError: If there is nothing at a path.
        ValueError: If columns, config, split or task are not there, the rows are not those that ``sha256`` pins, or
            there are fewer than ``dose``; if stance and oblique rows stand in one recipe; or if ``mode: replace``
            finds nothing to replace, or other rows than style pairs in its place.
    """
    found = [_rows(entry, recipe.seed) for entry in recipe.data]
    families = [_family(rows) for _, rows in found]
    if len(set(families)) > 1:
        kinds = ", ".join(f"{_where(e)}: {f}" for e, f in zip(recipe.data, families, strict=True))
        raise ValueError(
            f"recipe {recipe.name}: got stance triplets and oblique rows in one run ({kinds}); what is a claim's, and "
            "which prompts a release carries, differs: train two runs"
        )
    if recipe.replaces and all(len(oblique_rows.without_replaced(rows)) == len(rows) for _, rows in found):
        raise ValueError(
            f"recipe {recipe.name}: got mode 'replace', but no entry holds a written query of {PAIRS!r} "
            "that style pairs could replace; set mode=blend"
        )
    parts = [_part(entry, *of, recipe) for entry, of in zip(recipe.data, found, strict=True)]
    tables = [rows for rows, _ in parts]
    rows = oblique_rows.together(tables) if families[0] == "oblique" else concatenate_datasets(tables)
    return TrainingSet(rows, tuple(part for _, part in parts))


def read_entry(entry: DataEntry, recipe: Recipe) -> tuple[Dataset, TrainingData]:
    """The rows of one entry in the place of one of a recipe, see `read`; the recipe's seed draws those of its
    ``dose``."""
    return _part(entry, *_rows(entry, recipe.seed), recipe)


def _family(rows: Dataset) -> Family:
    return "oblique" if oblique_rows.are_oblique(rows.column_names) else "stance"


def _where(entry: DataEntry) -> str:
    return str(entry.path or entry.repo)


def _rows(entry: DataEntry, seed: int) -> tuple[str | None, Dataset]:
    """All rows of an entry, as pinned, and the config that they are."""
    config, rows = _read_repo(entry) if entry.repo else _read_path(Path(_where(entry)), entry, seed)
    digest = rows_sha256(rows.data.table)
    if entry.sha256 not in (None, digest):
        raise ValueError(
            f"data {_where(entry)}: the rows have SHA-256 {digest}, the recipe pins {entry.sha256}; restore the data "
            "that was pinned, or set sha256 to null to train on what is there"
        )
    family = _family(rows)
    if family == "stance" and entry.mode != "blend":
        raise ValueError(
            f"data {_where(entry)}: got mode {entry.mode!r}; triplets can only be blended, set mode=blend"
        )
    if family == "stance" and entry.task is not None:
        raise ValueError(
            f"data {_where(entry)}: got the task {entry.task!r} for stance triplets, wanted it of oblique rows alone; "
            "leave `task` out"
        )
    if entry.mode == "replace":
        oblique_rows.check_replacing(rows, _where(entry))
    return config, rows


def _part(entry: DataEntry, config: str | None, rows: Dataset, recipe: Recipe) -> tuple[Dataset, TrainingData]:
    """What a run takes of an entry's rows."""
    where = _where(entry)
    if recipe.replaces and _family(rows) == "oblique":
        found, rows = len(rows), oblique_rows.without_replaced(rows)
        if found > len(rows):
            logger.info("%s: %d rows of %s replaced by style pairs", where, found - len(rows), PAIRS)
        if not len(rows):
            raise ValueError(
                f"data {where}: style pairs replace all of its {found} rows (mode 'replace'); leave the entry out"
            )
    if entry.dose is not None and entry.dose > len(rows):
        raise ValueError(f"data {where}: got {len(rows)} rows, the recipe's dose is {entry.dose}; lower it")
    if entry.dose is not None and entry.dose < len(rows):
        drawn = np.random.default_rng(recipe.seed).choice(len(rows), entry.dose, replace=False)
        rows = Dataset(rows.data.table.take(np.sort(drawn)))
    if not len(rows):
        raise ValueError(f"data {where}: there are no rows in the split {entry.split!r}")
    logger.info("%s: %d triplets%s", where, len(rows), f" of {config}" if config else "")
    part = TrainingData(
        name=entry.repo or Path(where).name,
        config=config,
        sha256=rows_sha256(rows.data.table),
        rows=len(rows),
        licence=_all(rows["licence"][:]),
        source=_all(rows["source"][:]),
        revision=entry.revision,
    )
    return rows, part


def _read_repo(entry: DataEntry) -> tuple[str | None, Dataset]:
    rows = load_dataset(entry.repo, entry.config, split=entry.split, revision=entry.revision)
    if oblique_rows.are_oblique(rows.column_names):
        return entry.config, oblique_rows.read_loaded(rows, entry)
    same_columns(rows.column_names, TRIPLETS, f"data {entry.repo}")
    rows = rows.select_columns(list(TRIPLETS)).cast(TRIPLETS)
    check_ids(rows.data.table, f"data {entry.repo}")
    return entry.config, rows


def _read_path(path: Path, entry: DataEntry, seed: int) -> tuple[str | None, Dataset]:
    if path.name in (SAMPLE_TRIPLETS, *oblique_rows.SAMPLE_ROWS) and not path.exists():
        builds.prepare(path.name).write(path)
        logger.info("built: %s", path)
    if not path.exists():
        near = did_you_mean(path.name, [p.name for p in path.parent.iterdir()]) if path.parent.is_dir() else ""
        raise FileNotFoundError(f"data {path}: there is no such file or folder.{near}")
    if oblique_rows.holds_oblique_rows(path):
        return oblique_rows.read_path(path, entry)
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
