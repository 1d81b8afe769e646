"""What a way of searching leaves behind, whatever it is: a per-query table, seconds, and how it was set."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from hub_models.evaluation.metrics import Float32
from hub_models.evaluation.results import Metric, Strategy

OWN = "dense"
"""The baseline that every variant is compared with: the same model's dense run (of BM25 and chance their only one)."""

Encode = Callable[[Sequence[str]], Float32]
"""Texts to float32[n, d], L2-normalised, equal for equal texts."""

Table = dict[str, NDArray[Any]]
"""Per-query values: columns of one length."""

OWN = "dense"
"""The baseline that every variant is compared with: the same model's dense run."""


@dataclass(frozen=True, eq=False)
class Measured:
    """One way of searching, measured.

    Attributes:
        table: Its per-query values.
        timing: The seconds that its parts took.
        params: How it was set; with the strategy, what tells a task's runs apart.
        seed: Of what was left to chance; None where nothing was.
        diagnostics: What it has to say about itself, beside what is read off the table.
        metrics: Slice to further metrics, which stand beside those that are read off the table.
    """

    table: Table
    timing: dict[str, float]
    params: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    diagnostics: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, dict[str, Metric]] = field(default_factory=dict)


def run_name(strategy: Strategy, params: dict[str, Any]) -> str:
    """A file name for a run, its own among all runs of a task: ``dense``, ``dense-anchor-0.2``."""
    said = "-".join([strategy, *(f"{key}-{value}" for key, value in params.items())])
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", said)[:100]
    if name == said:
        return name
    return f"{name}-{hashlib.sha256(json.dumps(params, sort_keys=True).encode()).hexdigest()[:8]}"
