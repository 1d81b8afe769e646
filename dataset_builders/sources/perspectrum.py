"""Perspectrum (Chen et al., NAACL 2019; CC BY-SA 4.0): claims from debate sites with people's perspectives on them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from dataset_builders.instructions import Stance
from dataset_builders.schema import Argument, Claim, Relation, Split
from dataset_builders.sources.merge import merge
from dataset_builders.stance.data import StanceData
from dataset_builders.text import did_you_mean

NAME = "perspectrum"
LICENCE = "cc-by-sa-4.0"
CLAIMS = "perspectrum_with_answers_v1.0.json"
POOL = "perspective_pool_v1.0.json"
SPLIT = "dataset_split_v1.0.json"

T = TypeVar("T")

_STANCES: dict[str, Stance] = {"SUPPORT": "support", "UNDERMINE": "attack"}
_SPLITS: dict[str, Split] = {"train": "train", "dev": "validation", "test": "test"}


def read(folder: Path) -> StanceData:
    """Read the three upstream files ``data/dataset/*_v1.0.json``; ``dev`` becomes ``validation``.

    The ids of a cluster are paraphrases of its first one, the original wording: that one is an argument of the claim,
    style ``natural``. A perspective that serves several claims is one argument of each. Claim 542 (dev) has the text
    of claim 241 (train): upstream splits are kept, so both stay, in one group. Three claims are perspectives on
    themselves, word for word: they stay too, and `check` counts them.

    Raises:
        FileNotFoundError: If one of the files is absent.
        ValueError: If a label or a split is none of version 1.0's.
    """
    absent = [name for name in (CLAIMS, POOL, SPLIT) if not (folder / name).is_file()]
    if absent:
        raise FileNotFoundError(
            f"{folder}: {absent} not found; wanted the files of github.com/CogComp/perspectrum, data/dataset"
        )
    pool = {p["pId"]: p for p in _load(folder / POOL)}
    split_of = _load(folder / SPLIT)
    claims: list[Claim] = []
    arguments: dict[str, Argument] = {}
    relations: list[Relation] = []
    for row in _load(folder / CLAIMS):
        claim_id = f"perspectrum-{row['cId']}"
        claims.append(
            Claim(
                claim_id=claim_id,
                claim=row["text"],
                domain=None,  # upstream gives several topics a claim, or none
                veracity=None,
                group_id=claim_id,
                split=_known("split", split_of[str(row["cId"])], _SPLITS),
                source=NAME,
                licence=LICENCE,
            )
        )
        for cluster in row["perspectives"]:
            stance = _known("stance_label_3", cluster["stance_label_3"], _STANCES)
            original = cluster["pids"][0]
            argument_id = f"perspective-{original}"
            arguments[argument_id] = Argument(argument_id, pool[original]["text"], "natural", NAME, LICENCE)
            relations.append(Relation(argument_id, claim_id, stance))
    return merge(NAME, claims, list(arguments.values()), relations, keep_own=True)


def _load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _known(field: str, value: str, known: Mapping[str, T]) -> T:
    try:
        return known[value]
    except KeyError:
        hint = did_you_mean(value, known)
        raise ValueError(f"perspectrum: got {field} {value!r}, wanted one of {list(known)}.{hint}") from None
