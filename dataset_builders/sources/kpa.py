"""KPA-2021 (Friedman et al., ArgMining 2021; CDLA-Sharing-1.0): crowd-written arguments on debate motions."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from dataset_builders.instructions import Stance
from dataset_builders.rows import one_of
from dataset_builders.schema import Argument, Claim, Relation, Split
from dataset_builders.sources.merge import merge
from dataset_builders.stance.data import StanceData
from dataset_builders.text import check_text, text_id

NAME = "kpa"
LICENCE = "cdla-sharing-1.0"

_FILES: dict[str, Split] = {
    "arguments_train.csv": "train",
    "arguments_dev.csv": "validation",
    "arguments_test.csv": "test",
}
_FOLDERS = (".", "kpm_data", "test_data")  # as upstream has them, or side by side
_COLUMNS = ["arg_id", "argument", "topic", "stance"]
_STANCES: dict[str, Stance] = {"1": "support", "-1": "attack"}


def files_in(folder: Path) -> dict[Path, Split]:
    """The argument files in a folder, or in a copy of the upstream repository, with the split of each."""
    found = {folder / place / name: split for name, split in _FILES.items() for place in _FOLDERS}
    return {path: split for path, split in found.items() if path.is_file()}


def read(folder: Path) -> StanceData:
    """Read those of upstream's three argument files that are there; ``dev`` becomes ``validation``.

    A claim is a topic. Arguments are of style ``natural``; a topic has about 115 of them a side.

    Raises:
        FileNotFoundError: If there is none of the files.
        ValueError: If a file has other columns, no row or is no UTF-8, or a row another stance
            than 1 or -1, or an empty or broken text.
    """
    files = files_in(folder)
    if not files:
        raise FileNotFoundError(
            f"{folder}: wanted at least one of {list(_FILES)} of github.com/IBM/KPA_2021_shared_task"
        )
    claims: dict[tuple[str, Split], Claim] = {}
    arguments: list[Argument] = []
    relations: list[Relation] = []
    for path, split in files.items():
        for where, row in _rows(path):
            text = check_text(row["topic"], f"{where}: topic")
            claim_id = f"{NAME}-{text_id('topic', text)}"
            claims.setdefault((claim_id, split), Claim(claim_id, text, None, None, claim_id, split, NAME, LICENCE))
            argument_id = f"{NAME}-{check_text(row['arg_id'], f'{where}: arg_id')}"
            argument = check_text(row["argument"], f"{where}: argument")
            arguments.append(Argument(argument_id, argument, "natural", NAME, LICENCE))
            stance = _STANCES[one_of("stance", row["stance"], _STANCES, where)]
            relations.append(Relation(argument_id, claim_id, stance))
    return merge(NAME, list(claims.values()), arguments, relations)


def _rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    with path.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.DictReader(lines, strict=True)
        empty = True
        try:
            if reader.fieldnames != _COLUMNS:
                raise ValueError(f"{path.name}: got the columns {reader.fieldnames}, wanted {_COLUMNS}")
            for row in reader:
                empty = False
                where = f"{path.name}:{reader.line_num}"
                if None in row or None in row.values():
                    raise ValueError(f"{where}: got another number of fields than {len(_COLUMNS)}; mend the quotes")
                yield where, row
        except UnicodeDecodeError as error:  # met where a block is read: the line is not known
            raise ValueError(
                f"{path.name}: the file is no UTF-8 ({error.reason}: byte 0x{error.object[error.start]:02x}); save it "
                "as UTF-8, as upstream has it"
            ) from None
        except csv.Error as error:
            raise ValueError(f"{path.name}:{reader.line_num + 1}: the line cannot be read ({error})") from None
    if empty:
        raise ValueError(f"{path.name}: there is no row below the columns; fetch the file anew, or remove it")
