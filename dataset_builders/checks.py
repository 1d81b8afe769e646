"""A check, which is a bound with its figure, and what a measured part consists of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Check:
    """One bound with its figure.

    Attributes:
        name: Unique within a report.
        figure: What was measured.
        limit: The bound.
        at_least: Whether the figure may not fall below the limit; else it may not rise above it.
        faults: What breaks the bound or weighs most against it; shown if the check fails.
    """

    name: str
    figure: float
    limit: float
    at_least: bool = False
    faults: tuple[str, ...] = ()

    @property
    def passes(self) -> bool:
        """Whether the bound is kept."""
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit


def none_of(name: str, faults: Iterable[object]) -> Check:
    """The check that there is not one fault."""
    found = tuple(str(fault) for fault in faults)
    return Check(name, len(found), 0, faults=found)


@dataclass
class Part:
    """What measuring one part of the data gives.

    Attributes:
        tables: Rows of cells by title, the first row the header; for people.
        statistics: The figures for machines: nested dicts of numbers, null where there is nothing to measure.
        checks: In the order in which they are shown.
    """

    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    statistics: dict[str, Any] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)


def show(figure: float | None) -> str:
    """A figure as it stands in a table: whole numbers whole, others to three digits, ``-`` for none."""
    if figure is None:
        return "-"
    return f"{figure:,}" if isinstance(figure, int) else f"{figure:.3f}"


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines of equal columns."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
