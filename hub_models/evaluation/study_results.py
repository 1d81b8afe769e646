"""A study's results.json: metrics over seeds, and the systems held against each other.

Every number is read off the results files and per-query values of the study's cells; nothing is measured here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dataset_builders.atomic import write_bytes
from hub_models.evaluation.measured import Table
from hub_models.evaluation.results import (
    RESULTS_NAME,
    Comparison,
    Metric,
    Results,
    RunResult,
    Strategy,
    TaskResult,
    read_per_query,
)
from hub_models.evaluation.stance_table import COMPARED, compare

ZERO_SHOT = "zero-shot"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Spread(_Part):
    """A metric over the seeds of a system.

    Attributes:
        mean: Of the seeds' means; None where a seed has none.
        spread: Sample std (n - 1) of the seeds' means; None of a single seed.
        std: Mean of the seeds' sample stds over queries, which is what S prints; None where a seed has none.
        n: Queries of each seed.
        seeds: The seeds' means, in order of the seeds.
    """

    mean: float | None
    spread: float | None
    std: float | None
    n: int = Field(ge=0)
    seeds: list[float | None]

    @classmethod
    def over(cls, found: Sequence[Metric]) -> Self:
        means, stds = [m.mean for m in found], [m.std for m in found]
        known, known_stds = [m for m in means if m is not None], [s for s in stds if s is not None]
        whole = len(known) == len(found)
        return cls(
            mean=float(np.mean(known)) if whole else None,
            spread=float(np.std(known, ddof=1)) if whole and len(known) > 1 else None,
            std=float(np.mean(known_stds)) if len(known_stds) == len(found) else None,
            n=found[0].n,
            seeds=means,
        )


class StudyRun(_Part):
    """One way of searching with one system, over its seeds."""

    system: str
    strategy: Strategy
    params: dict[str, Any]
    slices: dict[str, dict[str, Spread]]

    def value(self, slice_name: str, metric: str) -> Spread | None:
        """A metric of a slice, or None where it was not measured."""
        return self.slices.get(slice_name, {}).get(metric)


class Pair(_Part):
    """Two systems' dense runs on the same queries, each averaged over its seeds; the baseline is the second's name.

    The intervals say how far claims chosen anew would move the difference of these very models; how far another seed
    would move it is `Spread.spread`.
    """

    system: str
    against: str
    compare: list[Comparison]

    def difference(self, slice_name: str, metric: str) -> Comparison | None:
        return next((c for c in self.compare if (c.slice, c.metric) == (slice_name, metric)), None)


class StudyTask(_Part):
    """One evaluation set."""

    dataset: str
    revision: str
    counts: dict[str, Any]
    runs: list[StudyRun]
    pairs: list[Pair]

    def dense(self, system: str) -> StudyRun:
        return next(run for run in self.runs if run.system == system and run.strategy == "dense" and not run.params)

    def pair(self, system: str, against: str) -> Pair | None:
        return next((p for p in self.pairs if (p.system, p.against) == (system, against)), None)


class Training(_Part):
    """What one cell was trained on, and how much of it.

    Attributes:
        rows: Triplets, all distinct draws.
        steps: Of the optimiser.
        tokens: That reached the encoder as anchors, positives and negatives, without padding.
    """

    system: str
    seed: int
    overrides: list[str]
    rows: int
    steps: int
    tokens: int
    train_loss: float | None
    adapter_sha256: str


class StudyResults(_Part):
    """The whole file."""

    schema_version: Literal[1] = 1
    recipe: str
    base: str
    base_revision: str | None
    quick: bool
    split: str
    seeds: list[int]
    systems: list[str]
    command: str
    environment: dict[str, Any]
    trainings: list[Training]
    tasks: dict[str, StudyTask]

    def write(self, path: Path) -> None:
        content = json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False, allow_nan=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, content.encode() + b"\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read and check a study's results file.

        Raises:
            FileNotFoundError: If it is not there.
            ValueError: If it is none, or of another version.
        """
        try:
            return cls.model_validate_json(path.read_bytes())
        except ValidationError as error:
            places = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:5])
            raise ValueError(f"{path}: no results file of a study ({places}); run the study anew") from None


def aggregate(cells: Mapping[str, Sequence[Path]], tasks: Sequence[str]) -> dict[str, StudyTask]:
    """Read the cells of a study and put them together.

    Args:
        cells: System to the folders of its seeds' results; the systems in the order in which each is held against all
            before it.
        tasks: Their names.

    Raises:
        FileNotFoundError: If a cell's results or per-query values are not there.
        ValueError: If they are damaged, or two seeds answered different queries.
    """
    read = {name: [(folder, Results.read(folder / RESULTS_NAME)) for folder in cells[name]] for name in cells}
    found = {}
    for task in tasks:
        first = next(iter(read.values()))[0][1].tasks[task]
        runs = [run for system, seeds in read.items() for run in _runs(system, [r.tasks[task] for _, r in seeds])]
        tables = {
            system: mean_table([_dense_table(folder, results.tasks[task]) for folder, results in seeds])
            for system, seeds in read.items()
        }
        names = list(tables)
        pairs = [
            Pair(system=name, against=other, compare=compare(tables[name], tables[other], other))
            for i, name in enumerate(names)
            for other in names[:i]
        ]
        found[task] = StudyTask(
            dataset=first.dataset, revision=first.revision, counts=_shared(first.counts), runs=runs, pairs=pairs
        )
    return found


def _shared(counts: dict[str, Any]) -> dict[str, Any]:
    """What does not depend on the model."""
    return {key: value for key, value in counts.items() if key != "trained_on"}


def _runs(system: str, seeds: Sequence[TaskResult]) -> list[StudyRun]:
    """The runs that all seeds have."""
    found = []
    for run in seeds[0].runs:
        same = [other.run(run.strategy, run.params) for other in seeds]
        whole = [r for r in same if r is not None]
        if len(whole) == len(seeds):
            found.append(StudyRun(system=system, strategy=run.strategy, params=run.params, slices=_over_seeds(whole)))
    return found


def _over_seeds(runs: Sequence[RunResult]) -> dict[str, dict[str, Spread]]:
    return {
        name: {metric: Spread.over([run.slices[name][metric] for run in runs]) for metric in metrics}
        for name, metrics in runs[0].slices.items()
    }


def _dense_table(folder: Path, task: TaskResult) -> Table:
    run = task.run("dense", {})
    if run is None:
        raise ValueError(f"{folder}: has no dense run of {task.dataset}; evaluate anew")
    table = read_per_query(folder, run.per_query)
    return {name: column.to_numpy() for name, column in zip(table.column_names, table.columns, strict=True)}


def mean_table(tables: Sequence[Table]) -> Table:
    """The compared metrics of each query, averaged over tables whose rows may stand in any order.

    Raises:
        ValueError: If the tables do not hold the same queries.
    """
    first = tables[0]
    keys = _keys(first)
    matched = []
    for table in tables:
        place = {key: i for i, key in enumerate(_keys(table))}
        if place.keys() != set(keys):
            raise ValueError(
                f"got seeds that answered {len(keys)} and {len(place)} queries, of which "
                f"{len(place.keys() & set(keys))} are the same; evaluate all on the same data and split"
            )
        matched.append(np.array([place[key] for key in keys]))
    means = {m: np.mean([t[m][rows] for t, rows in zip(tables, matched, strict=True)], axis=0) for m in COMPARED}
    return first | means


def _keys(table: Table) -> list[tuple[str, str]]:
    return list(zip(table["candidates"].tolist(), table["query_id"].tolist(), strict=True))
