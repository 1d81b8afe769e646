"""Perspectrum (Chen et al., NAACL 2019; CC BY-SA 4.0): claims from debate sites with people's perspectives on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from dataset_builders.instructions import Stance
from dataset_builders.rows import one_of, read_json
from dataset_builders.schema import Argument, Claim, Relation, Split
from dataset_builders.sources.merge import merge
from dataset_builders.stance.data import StanceData
from dataset_builders.text import check_text

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
        ValueError: If a file is no JSON of version 1.0's shape, a text is empty or broken, or a label or a
            split is none of its own.
    """
    absent = [name for name in (CLAIMS, POOL, SPLIT) if not (folder / name).is_file()]
    if absent:
        raise FileNotFoundError(
            f"{folder}: {absent} not found; wanted the files of github.com/CogComp/perspectrum, data/dataset"
        )
    pool = {_field(p, "pId", int, where): (where, p) for where, p in _list(read_json(folder / POOL), POOL)}
    split_of = read_json(folder / SPLIT)
    claims: list[Claim] = []
    arguments: dict[str, Argument] = {}
    relations: list[Relation] = []
    for where, row in _list(read_json(folder / CLAIMS), CLAIMS):
        number = _field(row, "cId", int, where)
        claim_id = f"perspectrum-{number}"
        claims.append(
            Claim(
                claim_id=claim_id,
                claim=check_text(_field(row, "text", str, where), where),
                domain=None,  # upstream gives several topics a claim, or none
                veracity=None,
                group_id=claim_id,
                split=_SPLITS[one_of("split", _field(split_of, str(number), str, SPLIT), _SPLITS, SPLIT)],
                source=NAME,
                licence=LICENCE,
            )
        )
        for place, cluster in _list(_field(row, "perspectives", list, where), f"{where}: perspectives"):
            label = one_of("stance_label_3", _field(cluster, "stance_label_3", str, place), _STANCES, place)
            original = next(iter(_field(cluster, "pids", list, place)), None)
            if not isinstance(original, int) or original not in pool:
                raise ValueError(f"{place}: got the first of pids {original!r}, wanted a pId of {POOL}")
            text = check_text(_field(pool[original][1], "text", str, pool[original][0]), pool[original][0])
            argument_id = f"perspective-{original}"
            arguments[argument_id] = Argument(argument_id, text, "natural", NAME, LICENCE)
            relations.append(Relation(argument_id, claim_id, _STANCES[label]))
    return merge(NAME, claims, list(arguments.values()), relations, keep_own=True)


def _list(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    """The items of a list with the words that say where each stands."""
    if not isinstance(value, list):
        raise ValueError(f"{where}: got {type(value).__name__}, wanted a list, as version 1.0 has it")
    return ((f"{where}, item {number}", item) for number, item in enumerate(value, start=1))


def _field(item: Any, key: str, kind: type[T], where: str) -> T:
    """The value of a key, of the type that version 1.0 gives it."""
    value = item.get(key) if isinstance(item, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(
            f"{where}: got {type(value).__name__} for {key!r}, wanted {kind.__name__}, as version 1.0 has it"
        )
    return value
