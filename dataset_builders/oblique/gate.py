"""What a written description or query must be: not the document, and none of its words beyond a bound (O 3.1, J)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dataset_builders.oblique.statistics import content_words, overlap
from dataset_builders.schema import Lens
from dataset_builders.text import check_text, words

RUN: Final = 6
"""Words in a row that stand in the document too: a quotation."""


@dataclass(frozen=True)
class Bounds:
    """What a text may share with its document.

    The Jaccard overlap of O table J.1 has no bound of its own: it is never above the coverage.

    Attributes:
        coverage: Highest share of its content words that the document has.
        stems: The same, words counted as equal whose first five letters are.
        least: Words it must have.
        most: Words it may have.
    """

    coverage: float
    stems: float
    least: int
    most: int


QUERIES: Final[dict[Lens, Bounds]] = {
    "descriptive": Bounds(0.25, 0.34, 3, 60),
    "analogue": Bounds(0.34, 0.4, 8, 120),
    # O's own recollections cover .359 of their words on average, the benchmark's .102 (J): no single one here may
    # cover more than the benchmark's do on average.
    "tip_of_tongue": Bounds(0.1, 0.15, 8, 80),
}
DESCRIPTIONS: Final[dict[Lens, Bounds]] = {
    "descriptive": Bounds(0.4, 0.5, 4, 80),
    "analogue": Bounds(0.4, 0.5, 4, 80),
    "tip_of_tongue": Bounds(0.2, 0.25, 4, 80),
}


def failures(text: object, document: str, bounds: Bounds) -> dict[str, str]:
    """The checks that a text fails, each with what is wrong in words that its writer understands.

    Args:
        text: The candidate.
        document: What it was written for.
        bounds: Of its lens.

    Returns:
        Empty if it passes: ``text``, ``length``, ``quotes``, ``entities``, ``coverage``.
    """
    try:
        candidate = check_text(text, "the text")
    except ValueError as error:
        return {"text": str(error)}
    found: dict[str, str] = {}
    length = len(words(candidate))
    if not bounds.least <= length <= bounds.most:
        found["length"] = f"it has {length} words: write {bounds.least} to {bounds.most}"
    if run := _quotation(candidate, document):
        found["quotes"] = f'it repeats the document word by word: "{run}"'
    shared = overlap(candidate, document)
    if shared.leaked:
        found["entities"] = f"it names what the document names: leave out {', '.join(shared.leaked)}"
    if shared.coverage > bounds.coverage or shared.stem_coverage > bounds.stems:
        stems = {word[:5] for word in content_words(document)}
        leaked = sorted(w for w in content_words(candidate) if w[:5] in stems)
        found["coverage"] = f"too many of its words stand in the document: do without {', '.join(leaked)}"
    return found


def _quotation(candidate: str, document: str) -> str:
    there = f" {' '.join(words(document))} "
    own = words(candidate)
    runs = (" ".join(own[i : i + RUN]) for i in range(len(own) - RUN + 1))
    return next((run for run in runs if f" {run} " in there), "")
