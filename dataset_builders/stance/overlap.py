"""What two sources have in common: claims and arguments, equal or nearly so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dataset_builders.stance.data import StanceData
from dataset_builders.stance.splits import near_duplicates
from dataset_builders.stance.statistics import bodies
from dataset_builders.text import claim_key, text_key


@dataclass(frozen=True, slots=True)
class Shared:
    """Texts of one source that another has too.

    Attributes:
        total: How many texts the one source has.
        equal: Those whose normalised text the other has.
        near: Those that have a near duplicate there and no equal, with it.
    """

    total: int
    equal: tuple[str, ...]
    near: tuple[tuple[str, str], ...]


def shared_claims(one: StanceData, other: StanceData) -> Shared:
    """Claims of ``one`` that are claims of ``other``."""
    return _shared([c.claim for c in one.claims], [c.claim for c in other.claims], claim_key)


def shared_arguments(one: StanceData, other: StanceData) -> Shared:
    """Arguments of ``one`` that are arguments of ``other``, explicit openings left aside."""
    return _shared(list(bodies(one).values()), list(bodies(other).values()), text_key)


def _shared(one: Sequence[str], other: Sequence[str], key: Callable[[str], str]) -> Shared:
    here, there = ({key(text): text for text in reversed(texts)} for texts in (one, other))
    union = {**there, **here}
    keys, texts = list(union), list(union.values())
    near: dict[str, str] = {}
    for pair in near_duplicates(texts):
        for i, j in (pair, pair[::-1]):
            if keys[i] in here and keys[i] not in there and keys[j] in there:
                near.setdefault(texts[i], there[keys[j]])
    equal = tuple(text for k, text in here.items() if k in there)
    return Shared(len(here), tuple(sorted(equal)), tuple(sorted(near.items())))
