"""What a way of searching leaves behind, whatever it is: a per-query table, seconds, and how it was set."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hub_models.evaluation.metrics import Float32
from hub_models.evaluation.results import Metric, Strategy

OWN = "dense"
"""The baseline that every variant is compared with: the same model's dense run (of BM25 and chance their only one)."""

Encode = Callable[[Sequence[str]], Float32]
"""Texts to float32[n, d], L2-normalised, equal for equal texts."""

Table = dict[str, NDArray[Any]]
"""Per-query values: columns of one length."""


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


def matching_rows(
    table: Mapping[str, NDArray[Any]], other: Mapping[str, NDArray[Any]], name: str
) -> NDArray[np.int64]:
    """int64[n_rows]: which row of ``other`` answers the query of each row of ``table``; both may stand in any order.

    Args:
        table: Per-query values. A query that was asked over several candidate sets has a row for each.
        other: Those of another system, or of another seed.
        name: What ``other`` is called.

    Raises:
        ValueError: If the two were not asked the same queries.
    """

    def keys(of: Mapping[str, NDArray[Any]]) -> list[tuple[str, ...]]:
        return list(zip(*(of[c].tolist() for c in ("candidates", "query_id") if c in of), strict=True))

    asked, place = keys(table), {key: i for i, key in enumerate(keys(other))}
    if set(asked) != place.keys():
        raise ValueError(
            f"{name} answered {len(place)} queries, this run {len(asked)}, of which {len(place.keys() & set(asked))} "
            "are the same; evaluate both on the same data and split"
        )
    return np.array([place[key] for key in asked])


def run_name(strategy: Strategy, params: dict[str, Any]) -> str:
    """A file name for a run, its own among all runs of a task: ``dense``, ``dense-anchor-0.2``."""
    said = "-".join([strategy, *(f"{key}-{value}" for key, value in params.items())])
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", said)[:100]
    if name == said:
        return name
    return f"{name}-{hashlib.sha256(json.dumps(params, sort_keys=True).encode()).hexdigest()[:8]}"
