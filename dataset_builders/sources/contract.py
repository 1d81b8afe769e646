"""Stance data as we publish it: ``{source}-stance-arguments``, with ``{source}-stance-inversions`` beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from datasets import Features, Value

from dataset_builders.folder import shards
from dataset_builders.instructions import STANCES
from dataset_builders.read import read_config
from dataset_builders.rows import Row, one_of
from dataset_builders.schema import (
    ARGUMENTS,
    CLAIMS,
    INVERSIONS,
    RELATIONS,
    SPLITS,
    STYLES,
    Argument,
    Claim,
    Inversion,
    Relation,
    Split,
)
from dataset_builders.sources.merge import merge
from dataset_builders.stance.data import StanceData
from dataset_builders.text import check_text

_MAY_BE_NULL = ("domain", "veracity", "style", "prompt_sha256")
_NAMES: dict[str, tuple[str, ...]] = {"stance": STANCES, "original_stance": STANCES, "style": STYLES}


def is_contract(folder: Path) -> bool:
    """Whether the folder's README names configs: then it is a dataset folder, and no folder of short-form files."""
    return folder.is_dir() and bool(shards(folder))


def read(name: str, folder: Path) -> StanceData:
    """Read a folder of `{source}-stance-arguments`.

    Inversions are read from the folder's own config ``inversions``, or from the folder ``{source}-stance-inversions``
    beside a folder ``{source}-stance-arguments``.

    Raises:
        ValueError: If a config is missing, or columns or rows are not those of the contract.
    """
    claims = [Claim(split=split, **{c: row[c] for c in CLAIMS}) for split, row in _rows(folder, "claims", CLAIMS)]
    arguments = [Argument(**row) for _, row in _rows(folder, "arguments", ARGUMENTS)]
    relations = [
        Relation(row["argument_id"], row["claim_id"], row["stance"])
        for _, row in _rows(folder, "relations", RELATIONS)
    ]
    beside = folder.with_name(folder.name.removesuffix("-stance-arguments") + "-stance-inversions")
    inversions = [
        Inversion(**{field: row[field] for field in Inversion.__slots__} | {"checks": tuple(row["checks"] or ())})
        for home in (folder, beside)
        if "inversions" in shards(home)
        for _, row in _rows(home, "inversions", INVERSIONS)
    ]
    return merge(name, claims, arguments, relations, inversions, keep_own=True)


def _rows(folder: Path, config: str, features: Features) -> Iterator[tuple[Split, Row]]:
    splits = read_config(folder, config, features)
    for split in SPLITS:
        if split in splits:
            for number, row in enumerate(splits[split].to_pylist(), start=1):
                _check(row, features, f"{folder}: {config}, {split}, row {number}")
                yield split, row


def _check(row: Row, features: Features, where: str) -> None:
    for column, feature in features.items():
        value = row[column]
        if feature != Value("string") or (value is None and column in _MAY_BE_NULL):
            continue
        if column in _NAMES:
            one_of(column, value, _NAMES[column], where)
        else:
            check_text(value, f"{where}: {column}")
