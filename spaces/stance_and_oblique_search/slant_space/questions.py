"""What a visitor asks, and the same as the address of a page."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self
from urllib.parse import parse_qs, urlencode

from dataset_builders.instructions import INSTRUCTIONS, OBLIQUE_INSTRUCTIONS, Stance

OWN = "own"
MODELS = ("tuned", "base")
RESULTS = (3, 20)
SCALES = (0.0, 1.5)
SCALE_STEP = 0.25
POSITIONS = [i * SCALE_STEP for i in range(round(SCALES[1] / SCALE_STEP) + 1)]
"""Of the adapter dial."""
ADDRESS_CHARACTERS = 2_000
"""Longer texts do not go into a link."""


def instruction_pairs() -> dict[str, dict[Stance, str]]:
    """``seen-01`` and so on to the instruction of either stance."""
    pairs: dict[str, dict[Stance, str]] = {}
    for instruction in INSTRUCTIONS:
        pairs.setdefault(instruction.id.removeprefix(f"{instruction.stance}-"), {})[instruction.stance] = (
            instruction.text
        )
    return pairs


PAIRS = instruction_pairs()


class _Address:
    """Reads and writes a dataclass as a query string; what is missing, unknown or out of range is the default."""

    VIEW = ""

    def address(self) -> str:
        """``?view=…``, with what differs from the default; empty where a text is too long for a link."""
        values = asdict(self)  # type: ignore[call-overload]
        changed = {f.name: values[f.name] for f in fields(self) if values[f.name] != f.default}  # type: ignore[arg-type]
        words = {k: str(int(v) if isinstance(v, bool) else v) for k, v in changed.items()}
        if any(len(word) > ADDRESS_CHARACTERS for word in words.values()):
            return ""
        return "?" + urlencode({"view": self.VIEW, **words})

    @classmethod
    def of_address(cls, address: str) -> Self | None:
        """The question in an address, or None if it is none of this view."""
        try:
            found = parse_qs(address.lstrip("?")[: 8 * ADDRESS_CHARACTERS], max_num_fields=50)
        except ValueError:
            return None
        if found.get("view") != [cls.VIEW]:
            return None
        given = {f.name: found[f.name][0] for f in fields(cls) if f.name in found}  # type: ignore[arg-type]
        return cls.of(given)

    @classmethod
    def of(cls, given: dict[str, Any]) -> Self:
        """Make a question of what came from outside."""
        values = {}
        for f in fields(cls):  # type: ignore[arg-type]
            if given.get(f.name) is not None:
                try:
                    values[f.name] = f.metadata["read"](given[f.name])
                except (TypeError, ValueError, OverflowError):
                    continue
        return cls(**values)


def _text(value: object) -> str:
    return str(value)


def _one_of(*known: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in known:
            raise ValueError(value)
        return str(value)

    return read


def _number(low: float, high: float) -> Callable[[object], float]:
    def read(value: object) -> float:
        number = float(value)  # type: ignore[arg-type]
        if not math.isfinite(number):
            raise ValueError(value)
        return min(max(number, low), high)

    return read


def _flag(value: object) -> bool:
    return value in (True, 1, "1", "true")


def _whole(value: object) -> int:
    return round(_number(*RESULTS)(value))


def _field(default: Any, read: Callable[[object], Any]) -> Any:
    return field(default=default, metadata={"read": read})


@dataclass(frozen=True)
class StanceQuestion(_Address):
    """A stance search.

    Attributes:
        claim: The claim.
        instruction: A key of `PAIRS`, or ``own``.
        own_support, own_attack: The visitor's own words.
        model: ``tuned`` or ``base``.
        weight: λ of BM25, in [0, 1].
        auto: Let the λ model choose, where there is one.
        scale: Of the adapter; None is as released.
        source, style: Show only those; empty for all.
        k: Results in each column.
    """

    VIEW = "stance"

    claim: str = _field("", _text)
    instruction: str = _field("seen-01", _one_of(*PAIRS, OWN))
    own_support: str = _field("", _text)
    own_attack: str = _field("", _text)
    model: str = _field("tuned", _one_of(*MODELS))
    weight: float = _field(0.1, _number(0, 1))
    auto: bool = _field(False, _flag)
    scale: float | None = _field(None, _number(*SCALES))
    source: str = _field("", _text)
    style: str = _field("", _text)
    k: int = _field(6, _whole)

    def words(self, stance: Stance) -> str:
        """The instruction of a stance."""
        if self.instruction == OWN:
            return self.own_support if stance == "support" else self.own_attack
        return PAIRS[self.instruction][stance]


@dataclass(frozen=True)
class ObliqueQuestion(_Address):
    """An oblique search: a task, a query and the number of results."""

    VIEW = "oblique"

    task: str = _field("twitter", _one_of(*OBLIQUE_INSTRUCTIONS))
    query: str = _field("", _text)
    k: int = _field(5, _whole)
