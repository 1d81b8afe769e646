"""Which reranker a task gets (O 3.4, equation 8), decided on development queries and kept in ``slant.json``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hub_models.evaluation.metrics import Float64
from hub_models.evaluation.results import Results
from hub_models.evaluation.significance import PairedDifference, paired_difference
from hub_models.evaluation.variants import ObliqueVariant
from hub_models.manifest import FILE_NAME, Manifest

IDENTITY = "identity"


@dataclass(frozen=True, slots=True)
class Choice:
    """The policy of a task and why.

    Attributes:
        policy: The one chosen.
        queries: How many development queries it was chosen on.
        means: Each policy's NDCG@10 on them.
        differences: Each other policy against identity.
    """

    policy: str
    queries: int
    means: dict[str, float]
    differences: dict[str, PairedDifference]

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the choice, and each policy's mean with the interval of its difference to identity."""
        candidates: dict[str, Any] = {name: {"ndcg_at_10": mean} for name, mean in self.means.items()}
        for name, d in self.differences.items():
            candidates[name] |= {"delta": d.delta, "low": d.low, "high": d.high, "level": d.level, "p": d.p}
        groups = next((d.n_units for d in self.differences.values()), None)
        return {"policy": self.policy, "queries": self.queries, "groups": groups, "candidates": candidates}


def choose(values: Mapping[str, Float64], groups: Sequence[str], *, seed: int = 0) -> Choice:
    """The policy of the largest mean among those better than identity beyond the interval; else identity, which costs
    nothing. Of several equally good ones the first.

    Args:
        values: Policy to NDCG@10, float64[n_queries], the same development queries in each; ``identity`` among them.
        groups: Each query's group, the unit of the interval. With one group there is no interval, hence identity.
        seed: Of the interval.

    Raises:
        ValueError: If ``identity`` is missing or there is no query.
    """
    if IDENTITY not in values or not len(groups):
        raise ValueError(
            f"got the policies {list(values)} on {len(groups)} development queries, wanted {IDENTITY!r} among the "
            "policies and at least one query"
        )
    means = {name: float(np.mean(found)) for name, found in values.items()}
    differences = {
        name: paired_difference(found - values[IDENTITY], groups, seed=seed)
        for name, found in values.items()
        if name != IDENTITY
    }
    better = [name for name, d in differences.items() if d.low is not None and d.low > 0]
    return Choice(max(better, key=means.__getitem__, default=IDENTITY), len(groups), means, differences)


def store(run_dir: Path, task: str, choice: Mapping[str, Any]) -> None:
    """Write a task's choice into ``slant.json``, beside those of other tasks.

    Raises:
        FileNotFoundError: If the folder has none.
        ValueError: If it is damaged.
    """
    Manifest.update(run_dir, lambda there: {"rerank_policy": {**(there.rerank_policy or {}), task: dict(choice)}})


def keep_choices(model: str, results: Results, tasks: Iterable[str], asked: Sequence[ObliqueVariant]) -> list[str]:
    """Store what ``--rerank auto`` chose, where the model is a run folder.

    Args:
        model: As given.
        results: Which may hold the choices of earlier commands, too.
        tasks: Names of those that were measured.
        asked: The runs that this command asked for.

    Returns:
        The tasks whose choice was stored.
    """
    run_dir = Path(model)
    if not (run_dir / FILE_NAME).is_file():
        return []
    kept = []
    for task in tasks:
        for run in (results.tasks[task].run(variant.strategy, variant.params) for variant in asked):
            if run is not None and "choice" in run.diagnostics:
                store(run_dir, task, run.diagnostics["choice"])
                kept.append(task)
    return kept
