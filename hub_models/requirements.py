"""What an adapter needs to load as it was trained, with reasons: stands on every card."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Requirement:
    """A library with the versions that it may have, and why."""

    name: str
    versions: str
    reason: str


REQUIREMENTS = (
    Requirement("sentence-transformers", ">=6.2,<7", "reads this layout of modules, prompts and adapter"),
    Requirement(
        "transformers", ">=5.23,<5.24", "5.24 asks for peft 0.22, which is not released, and then refuses adapters"
    ),
    Requirement("peft", ">=0.21.2,<0.22", "puts the adapter on; it and transformers are a pair that was run together"),
)
