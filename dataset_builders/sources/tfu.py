"""The training arguments of TFU (Freedman et al., 2026), rebuilt from the triplets of the stance paper (S).

The arguments themselves are not public. What the triplets let us see: the claims with an argument on either side (no
other claim can be an anchor), their arguments as far as they were drawn, and the inversions of S 5.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dataset_builders.instructions import SEEN, STANCES, Stance
from dataset_builders.rows import Row, read_rows
from dataset_builders.schema import Argument, Claim, Inversion, Relation
from dataset_builders.sources.merge import merge
from dataset_builders.stance.data import StanceData
from dataset_builders.text import check_text, did_you_mean, jaccard, text_id, text_key

NAME = "tfu"
REPO = "as9122/stance-tfu-training"
LICENCE = "unknown"  # the repository names none
HOMOGENEOUS, MIXED, MIXED_AUG = FILES = ("homogeneous.json", "mixed.json", "mixed_aug.json")

_COLUMNS = ("instruction", "claim", "positive", "negative")
_GENERATOR = "gemini-3.5-flash"  # S appendix H

_key = cache(text_key)  # the three files say each text some hundred times


@dataclass(frozen=True, slots=True)
class _Triplet:
    stance: Stance
    claim: str
    positive: str
    negative: str

    def keys(self) -> tuple[str, ...]:
        return (self.stance, _key(self.claim), _key(self.positive), _key(self.negative))


def read(folder: Path) -> StanceData:
    """Rebuild claims, arguments, relations and inversions; every claim is ``train``.

    A row of ``homogeneous.json`` says that its positive has the stance of its instruction towards the claim, and its
    negative the other one. The negatives of the rows that ``mixed_aug.json`` has and ``mixed.json`` has not are
    inversions, if they are no argument's text; the original is the claim's argument of that stance with the largest
    word overlap, which need not be the row's positive.

    Raises:
        FileNotFoundError: If one of the three files is absent.
        ValueError: If an instruction is none of the 20 seen ones, a text is empty or broken, or ``mixed_aug.json``
            has a claim or a positive that ``homogeneous.json`` has not.
    """
    absent = [name for name in FILES if not (folder / name).is_file()]
    if absent:
        raise FileNotFoundError(f"{folder}: {absent} not found; wanted the files of the Hub data set {REPO}")
    claims: dict[str, Claim] = {}
    sides: dict[tuple[str, Stance], dict[str, Argument]] = {}
    for _, row in _triplets(folder / HOMOGENEOUS):
        if _key(row.claim) not in claims:
            claim_id = text_id("claim", row.claim)
            claims[_key(row.claim)] = Claim(claim_id, row.claim, None, None, claim_id, "train", NAME, LICENCE)
        for stance, text in ((row.stance, row.positive), (_other(row.stance), row.negative)):
            side = sides.setdefault((_key(row.claim), stance), {})
            if _key(text) not in side:
                side[_key(text)] = Argument(text_id("argument", text), text, None, NAME, LICENCE)
    known = {key for side in sides.values() for key in side}
    mixed = Counter(row.keys() for _, row in _triplets(folder / MIXED))
    unclaimed = {keys[-1] for keys in mixed} - known
    inversions: dict[tuple[str, Stance, str], Inversion] = {}
    for where, row in _triplets(folder / MIXED_AUG):
        if mixed[row.keys()]:
            mixed[row.keys()] -= 1
            continue
        claim, positive, negative = _key(row.claim), _key(row.positive), _key(row.negative)
        side = sides.get((claim, row.stance), {})
        if positive not in side:
            raise ValueError(
                f"{where}: {HOMOGENEOUS} has no argument {row.positive!r} that would {row.stance} {row.claim!r}; "
                "wanted three files of one release"
            )
        if negative in known or negative in unclaimed or (claim, row.stance, negative) in inversions:
            continue
        likeliest = [side[positive], *side.values()]  # the positive wins a tie
        original = max(likeliest, key=lambda argument: jaccard(argument.text, row.negative))
        inversions[claim, row.stance, negative] = Inversion(
            inversion_id=text_id("inversion", f"{row.claim}\n{row.stance}\n{row.negative}"),
            claim_id=claims[claim].claim_id,
            claim=claims[claim].claim,
            argument_id=original.argument_id,
            original=original.text,
            original_stance=row.stance,
            style=None,
            inverted=row.negative,
            generator=_GENERATOR,
            prompt_sha256=None,
            source=NAME,
            licence=LICENCE,
        )
    return merge(
        NAME,
        list(claims.values()),
        [argument for side in sides.values() for argument in side.values()],
        [Relation(a.argument_id, claims[c].claim_id, s) for (c, s), side in sides.items() for a in side.values()],
        list(inversions.values()),
        counts={"negatives of claims that are not public, left out": len(unclaimed)},
    )


def _triplets(path: Path) -> Iterator[tuple[str, _Triplet]]:
    """The rows of one file with the words that say where each stands."""
    stances = {_key(i.text): i.stance for i in SEEN}
    for where, row in read_rows(path):
        texts = {column: _text(row, column, where) for column in _COLUMNS}
        instruction = texts.pop("instruction")
        stance = stances.get(_key(instruction))
        if stance is None:
            hint = did_you_mean(instruction, [i.text for i in SEEN])
            raise ValueError(f"{where}: got the instruction {instruction!r}, wanted one of the 20 seen ones.{hint}")
        yield where, _Triplet(stance, **texts)


def _text(row: Row, column: str, where: str) -> str:
    if column not in row:
        raise ValueError(f"{where}: got the keys {list(row)}, wanted {list(_COLUMNS)}.{did_you_mean(column, row)}")
    return check_text(row[column], f"{where}: {column}")


def _other(stance: Stance) -> Stance:
    return STANCES[1 - STANCES.index(stance)]
