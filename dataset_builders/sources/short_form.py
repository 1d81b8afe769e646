"""The short form: one row a claim, with the texts that support and those that attack it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dataset_builders.instructions import STANCES
from dataset_builders.rows import Name, Row, check_keys, files_of, one_of, read_rows
from dataset_builders.schema import SPLITS, STYLES, Argument, Claim, Relation, Split
from dataset_builders.sources.merge import merge
from dataset_builders.stance.data import StanceData
from dataset_builders.text import check_text, shown, text_id

REQUIRED = ("claim", *STANCES)
OPTIONAL = ("claim_id", "group_id", "domain", "veracity", "style", "split", "source", "licence")


def read(name: str, path: Path) -> StanceData:
    """Read a JSONL or parquet file in short form, or a folder of such files.

    ``split`` may stand in the rows; else the name of a file decides where it is one (``test.jsonl``,
    ``test-00000-of-00002.parquet``), else the claim has none. Absent ids are made from the texts, so that one text has
    one id everywhere. Several rows may hold one claim, for instance one row for each style.

    Args:
        name: Name of the source, and what ``source`` is where a row has none.
        path: The file or folder.

    Raises:
        FileNotFoundError: If there is nothing at ``path``.
        ValueError: Naming file and line: an unknown or missing key, a value of the wrong type, an empty or broken
            text, an unknown style or split, contradicting rows for one claim; or if there is no row at all.
    """
    claims: list[Claim] = []
    arguments: list[Argument] = []
    relations: list[Relation] = []
    for file in files_of(path):
        for where, row in read_rows(file):
            check_keys(row, REQUIRED, OPTIONAL, where)
            claim = _claim(name, row, split_of(file), where)
            claims.append(claim)
            style = _choice(row, "style", STYLES, where)
            for stance in STANCES:
                for text in _texts(row[stance], f"{where}: {stance}"):
                    argument_id = text_id("argument", text)
                    arguments.append(Argument(argument_id, text, style, claim.source, claim.licence))
                    relations.append(Relation(argument_id, claim.claim_id, stance))
    if not claims:
        raise ValueError(f"{path}: there is no row; wanted one JSON object a claim with {list(REQUIRED)}")
    return merge(name, claims, arguments, relations)


def _claim(name: str, row: Row, split: Split | None, where: str) -> Claim:
    text = check_text(row["claim"], f"{where}: claim")
    claim_id = _optional(row, "claim_id", where) or text_id("claim", text)
    return Claim(
        claim_id=claim_id,
        claim=text,
        domain=_optional(row, "domain", where),
        veracity=_optional(row, "veracity", where),
        group_id=_optional(row, "group_id", where) or claim_id,
        split=_choice(row, "split", SPLITS, where) or split,
        source=_optional(row, "source", where) or name,
        licence=_optional(row, "licence", where) or "unknown",
    )


def split_of(file: Path) -> Split | None:
    """The split that a file is named after, if it is."""
    return next((s for s in SPLITS if file.stem == s or file.stem.startswith(f"{s}-")), None)


def _texts(value: Any, where: str) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{where}: got {type(value).__name__} {shown(value)}, wanted a list of texts")
    return [check_text(text, f"{where}, text {i}") for i, text in enumerate(value, start=1)]


def _optional(row: Row, key: str, where: str) -> str | None:
    value = row.get(key)
    if value is None:
        return None
    return check_text(value, f"{where}: {key}")


def _choice(row: Row, key: str, known: tuple[Name, ...], where: str) -> Name | None:
    value = _optional(row, key, where)
    return None if value is None else one_of(key, value, known, where)
