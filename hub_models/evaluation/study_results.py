"""A study's results.json: metrics over seeds, and the systems held against each other.

Every number is read off the results files and per-query values of the study's cells; nothing is measured here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, ValidationError

from dataset_builders.atomic import write_bytes
from dataset_builders.description import read_description
from hub_models.evaluation import stance_table
from hub_models.evaluation.ablation_results import KEY as ABLATION
from hub_models.evaluation.measured import Table, matching_rows
from hub_models.evaluation.results import (
    RESULTS_NAME,
    Comparison,
    Metric,
    Part,
    Results,
    RunResult,
    Strategy,
    TaskResult,
    read_per_query,
)

ZERO_SHOT = "zero-shot"


class Spread(Part):
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
        """Of one metric, as each seed has it; None where a seed has no mean or std."""
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


class FirstDocuments(Part):
    """How many documents come first for some query, and the share of queries for which the same one does: an encoder
    that collapsed has few, and one that comes first for most (O H.1)."""

    distinct: int
    largest_share: float


class StudyRun(Part):
    """One way of searching with one system, over its seeds.

    Attributes:
        system: Its name.
        strategy: The way.
        params: How it was set.
        slices: Slice to metric to its values.
        first: Of each seed, where its task keeps the documents that come first.
    """

    system: str
    strategy: Strategy
    params: dict[str, Any]
    slices: dict[str, dict[str, Spread]]
    first: list[FirstDocuments | None] = Field(default_factory=list)

    def value(self, slice_name: str, metric: str) -> Spread | None:
        """A metric of a slice, or None where it was not measured."""
        return self.slices.get(slice_name, {}).get(metric)


class Pair(Part):
    """Two systems' dense runs on the same queries, each averaged over its seeds; the baseline is the second's name.

    The intervals say how far claims chosen anew would move the difference of these very models; how far another seed
    would move it is `Spread.spread`.
    """

    system: str
    against: str
    compare: list[Comparison]

    def difference(self, slice_name: str, metric: str) -> Comparison | None:
        """System minus baseline, or None where it was not compared."""
        return next((c for c in self.compare if (c.slice, c.metric) == (slice_name, metric)), None)


class StudyTask(Part):
    """One evaluation set.

    Attributes:
        skipped: How many queries the word ablation left whole a part of, by part, as it is a single word.
    """

    dataset: str
    revision: str
    counts: dict[str, Any]
    runs: list[StudyRun]
    pairs: list[Pair]
    skipped: dict[str, int] = Field(default_factory=dict)

    def dense(self, system: str) -> StudyRun:
        """The plain dense run, which every system has."""
        return next(run for run in self.runs if run.system == system and run.strategy == "dense" and not run.params)

    def pair(self, system: str, against: str) -> Pair | None:
        """The two held against each other, or None where they were not."""
        return next((p for p in self.pairs if (p.system, p.against) == (system, against)), None)


class Training(Part):
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


class StudyResults(Part):
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
        """Write strict JSON by rename; the folder is made."""
        content = json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False, allow_nan=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, content.encode() + b"\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read and check a study's results file.

        Raises:
            FileNotFoundError: If it is not there.
            ValueError: If it is too large, none, or of another version.
        """
        text = read_description(path)
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            places = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:5])
            raise ValueError(f"{path}: no results file of a study ({places}); run the study anew") from None


Compare = Callable[[Table, Table, str], list[Comparison]]
"""A table, a baseline's, and the baseline's name, to the differences between them."""


def aggregate(
    cells: Mapping[str, Sequence[Path]],
    tasks: Sequence[str],
    *,
    compare: Compare = stance_table.compare,
    metrics: Sequence[str] = stance_table.COMPARED,
    against: Sequence[str] | None = None,
) -> dict[str, StudyTask]:
    """Read the cells of a study and put them together.

    Args:
        cells: System to the folders of its seeds' results; the systems in the order in which each is held against
            those before it.
        tasks: Their names. A task that not all cells were asked is made of those that were.
        compare: Holds two per-query tables of the tasks' family against each other.
        metrics: Columns that are averaged over the seeds, as far as a table has them.
        against: The systems that the others are held against, in that order; None for all.

    Raises:
        FileNotFoundError: If a cell's results or per-query values are not there.
        ValueError: If they are damaged, or two seeds answered different queries.
    """
    read = {name: [(folder, Results.read(folder / RESULTS_NAME)) for folder in cells[name]] for name in cells}
    found = {}
    for task in tasks:
        asked = {name: [(f, r.tasks[task]) for f, r in seeds if task in r.tasks] for name, seeds in read.items()}
        asked = {name: seeds for name, seeds in asked.items() if seeds}
        first = next(iter(asked.values()))[0][1]
        runs = [run for system, seeds in asked.items() for run in _runs(system, [result for _, result in seeds])]
        tables = {
            system: mean_table([_dense_table(folder, result) for folder, result in seeds], metrics)
            for system, seeds in asked.items()
        }
        names = list(tables)
        pairs = [
            Pair(system=name, against=other, compare=compare(tables[name], tables[other], other))
            for i, name in enumerate(names)
            for other in names[:i]
            if against is None or other in against
        ]
        found[task] = StudyTask(
            dataset=first.dataset, revision=first.revision, counts=_shared(first.counts), runs=runs, pairs=pairs,
            skipped=_skipped(first),
        )  # fmt: skip
    return found


def _shared(counts: dict[str, Any]) -> dict[str, Any]:
    """What does not depend on the model."""
    return {key: value for key, value in counts.items() if key != "trained_on"}


def _skipped(task: TaskResult) -> dict[str, int]:
    """The same for every system: they share the queries' words."""
    dense = task.run("dense")
    return dict(dense.diagnostics[ABLATION]["skipped"]) if dense and ABLATION in dense.diagnostics else {}


def _runs(system: str, seeds: Sequence[TaskResult]) -> list[StudyRun]:
    """The runs that all seeds have."""
    found = []
    for run in seeds[0].runs:
        same = [other.run(run.strategy, run.params) for other in seeds]
        whole = [r for r in same if r is not None]
        if len(whole) == len(seeds):
            found.append(
                StudyRun(
                    system=system,
                    strategy=run.strategy,
                    params=run.params,
                    slices=_over_seeds(whole),
                    first=[_first(r) for r in whole],
                )
            )
    return found


def _first(run: RunResult) -> FirstDocuments | None:
    if "top1_distinct" not in run.diagnostics:
        return None
    return FirstDocuments(distinct=run.diagnostics["top1_distinct"], largest_share=run.diagnostics["top1_max_share"])


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


def mean_table(tables: Sequence[Table], metrics: Sequence[str] = stance_table.COMPARED) -> Table:
    """The metrics of each query, averaged over tables whose rows may stand in any order.

    Raises:
        ValueError: If the tables do not hold the same queries.
    """
    first = tables[0]
    matched = [matching_rows(first, table, "another seed") for table in tables]
    there = [m for m in metrics if m in first]
    means = {m: np.mean([t[m][rows] for t, rows in zip(tables, matched, strict=True)], axis=0) for m in there}
    return first | means
