"""Read dataset folders and triplets: parquet directly, with the Features of the contract, never from a cache."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Dataset, Features

from dataset_builders.folder import shards
from dataset_builders.instructions import STANCES
from dataset_builders.rows import Row, check_keys, one_of, read_rows
from dataset_builders.schema import CURRICULA, TRIPLETS, NegativeKind, same_columns
from dataset_builders.text import check_text, did_you_mean, text_id

NEGATIVE_KINDS: tuple[NegativeKind, ...] = get_args(NegativeKind)


def read_config(folder: Path, config: str, features: Features) -> dict[str, pa.Table]:
    """Every split of one config of a dataset folder, in the order of its README.

    Raises:
        ValueError: If the folder has no such config, or a file has other columns.
    """
    found = shards(folder)
    if config not in found:
        raise ValueError(
            f"{folder}: got configs {list(found)}, wanted {config!r}.{did_you_mean(config, found)}"
            f"{'' if found else ' Is this a dataset folder? It needs a README.md with configs.'}"
        )
    return {split: _read_table(files, features) for split, files in found[config].items()}


def _read_table(files: list[Path], features: Features) -> pa.Table:
    tables = []
    for file in files:
        same_columns(pq.read_schema(file).names, features, str(file))
        tables.append(pq.read_table(file, columns=list(features)).cast(features.arrow_schema))
    return pa.concat_tables(tables) if tables else features.arrow_schema.empty_table()


def read_triplets(path: Path, config: str = "mixed_aug", split: str = "train") -> Dataset:
    """Training triplets (``schema.TRIPLETS``) from a built folder, or from one parquet or JSONL file.

    In JSONL, ids that are absent are made from the texts; ``source`` and ``licence`` may be absent.

    Args:
        path: A folder of ``build {source}-stance-triplets``, or a file, for which config and split do not matter.
        config: The curriculum.
        split: ``train`` or ``validation``.

    Raises:
        FileNotFoundError: If there is nothing at ``path``.
        ValueError: If config or split is not there, columns are wrong, or a text is empty or broken.
    """
    if path.is_dir():
        if config not in CURRICULA:
            raise ValueError(
                f"got curriculum {config!r}, wanted one of {list(CURRICULA)}.{did_you_mean(config, CURRICULA)}"
            )
        splits = read_config(path, config, TRIPLETS)
        if split not in splits:
            raise ValueError(
                f"{path}: config {config!r} has the splits {list(splits)}, wanted {split!r}."
                f"{did_you_mean(split, splits)}"
            )
        return Dataset(splits[split])
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file or folder; build one with `python -m dataset_builders build`")
    if path.suffix == ".parquet":
        return Dataset(_read_table([path], TRIPLETS))
    rows = [_triplet(row, where) for where, row in read_rows(path)]
    return Dataset(pa.Table.from_pylist(rows, schema=TRIPLETS.arrow_schema))


def _triplet(row: Row, where: str) -> Row:
    optional = ("claim_id", "positive_id", "source", "licence")
    check_keys(row, [c for c in TRIPLETS if c not in optional], optional, where)
    for key in ("claim", "instruction", "positive"):
        check_text(row[key], f"{where}: {key}")
    one_of("stance", row["stance"], STANCES, where)
    if not isinstance(row["negatives"], list):
        raise ValueError(
            f"{where}: negatives: got {type(row['negatives']).__name__} {row['negatives']!r}, wanted a list"
        )
    for negative in row["negatives"]:
        check_keys(negative, ("text", "kind"), ("id",), f"{where}: negative")
        check_text(negative["text"], f"{where}: negative")
        one_of("kind", negative["kind"], NEGATIVE_KINDS, f"{where}: negative")
    return {
        **row,
        "claim_id": row.get("claim_id") or text_id("claim", row["claim"]),
        "positive_id": row.get("positive_id") or text_id("argument", row["positive"]),
        "negatives": [{**n, "id": n.get("id") or text_id("argument", n["text"])} for n in row["negatives"]],
        "source": row.get("source") or "unknown",
        "licence": row.get("licence") or "unknown",
    }
