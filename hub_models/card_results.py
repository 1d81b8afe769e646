"""A results file as a card shows it: the model-index of its metadata, and tables with intervals.

Everything here is read from the results file; nothing is computed but the baseline's mean, which is ours minus the
paired difference.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from huggingface_hub import EvalResult

from hub_models.evaluation.nanobeir import METRIC as NANOBEIR_METRIC
from hub_models.evaluation.nanobeir import NAME as NANOBEIR
from hub_models.evaluation.report import COLUMNS
from hub_models.evaluation.results import Comparison, Results, RunResult, TaskResult
from hub_models.evaluation.stance_ranking import ORACLE, TOPIC
from hub_models.manifest import is_machine_path

NOT_COMPUTED = "not computed"
TASK_NAME = "Stance-aware argument retrieval"
SEEN_SLICE = "instructions=seen"


OBLIQUE_COLUMNS = {
    "ndcg_at_10_gold": "NDCG@10",
    "ndcg_at_50_gold": "NDCG@50",
    "recall_at_10_gold": "R@10",
    "recall_at_50_gold": "R@50",
}


def evaluation_results(results: Results, columns: Mapping[str, str] = COLUMNS) -> list[EvalResult]:
    """The model-index entries of a results file: the dense runs, by task and slice; what is null is left out.

    Args:
        results: Of the model.
        columns: Metric to its name, `OBLIQUE_COLUMNS` for a model of that kind.

    Raises:
        ValueError: If a value is not finite, or a task lacks a count.
    """
    entries = []
    for name, task in results.tasks.items():
        run = task.run("dense")
        if run is None or name == NANOBEIR:
            continue
        for slice_name, metrics in run.slices.items():
            if slice_name == SEEN_SLICE:  # what training asked for flatters
                continue
            for metric, label in columns.items():
                if metric not in metrics or (value := metrics[metric].mean) is None:
                    continue
                entries.append(
                    EvalResult(
                        task_type="retrieval",
                        task_name="Oblique retrieval" if columns is OBLIQUE_COLUMNS else TASK_NAME,
                        dataset_type=public_name(task.dataset),
                        dataset_name=f"{name} ({slice_name})",
                        dataset_config=slice_name,
                        dataset_split=_count(name, task.counts, "split"),
                        dataset_revision=task.revision,
                        metric_type=metric,
                        metric_name=label,
                        metric_value=finite(value, f"{name}, {slice_name}, {metric}"),
                    )
                )
    return entries


def finite(value: float, where: str) -> float:
    """``value`` as a plain float of four decimals: YAML would write a numpy number as a Python object.

    Raises:
        ValueError: If it is NaN or infinite.
    """
    number = round(float(value), 4)
    if not math.isfinite(number):
        raise ValueError(f"{where}: got {number}, wanted a finite number; a value that was not computed is null")
    return number


def public_name(name: str) -> str:
    """A Hub id as it is; of a path of this machine the last part only."""
    return re.split(r"[/\\]", name.rstrip("/\\"))[-1] if is_machine_path(name) else name


@dataclass(frozen=True)
class Row:
    """One line of a results table: who, and the formatted value by metric."""

    label: str
    values: dict[str, str]


@dataclass(frozen=True)
class SliceTable:
    """The results on one slice of a task, over ``queries`` queries that search ``documents`` documents."""

    name: str
    queries: int
    documents: int
    rows: list[Row]


@dataclass(frozen=True)
class TaskTable:
    """The results on one task, and what stands beside them."""

    name: str
    dataset: str
    revision: str
    query_template: str
    split: str
    claims: int
    slices: list[SliceTable]
    interval: str | None


def task_table(name: str, task: TaskResult) -> TaskTable | None:
    """The table of one stance task: base, adapter, their difference with its interval, claim only, and the ceiling.

    Raises:
        ValueError: If the task lacks a count, or a slice its P@R.
    """
    dense = task.run("dense")
    if dense is None or "claims" not in task.counts:
        return None
    claim_only = task.run("claim_only")
    slices = []
    for slice_name, metrics in dense.slices.items():
        rows = _compared_rows(dense, claim_only, slice_name, COLUMNS)
        if ORACLE in metrics:
            rows.append(
                Row("ceiling: topic by the base, stance perfect", {"precision_at_r": _number(metrics[ORACLE].mean)})
            )
        style = slice_name.partition("style=")[2]
        documents = _count(name, task.counts, *(("style", style) if style else ()), "documents")
        if "precision_at_r" not in metrics:
            raise ValueError(
                f"{name}, {slice_name}: got the metrics {list(metrics)}, wanted 'precision_at_r' among them; evaluate "
                "anew"
            )
        slices.append(SliceTable(slice_name, metrics["precision_at_r"].n, documents, rows))
    return TaskTable(
        name,
        public_name(task.dataset),
        task.revision,
        task.query_template,
        _count(name, task.counts, "split"),
        task.counts["claims"],
        slices,
        _how(dense.compare),
    )


@dataclass(frozen=True)
class ObliqueTable:
    """The results on one oblique task, and what stands beside them."""

    name: str
    dataset: str
    revision: str
    query_template: str
    split: str
    queries: int
    groups: int
    documents: int
    trained_on: int
    rows: list[Row]
    interval: str | None


def oblique_table(name: str, task: TaskResult) -> ObliqueTable | None:
    """The table of one oblique task over all its queries: base, adapter, difference, and the bare query.

    Raises:
        ValueError: If the task lacks a count.
    """
    dense = task.run("dense")
    if dense is None or "groups" not in task.counts:
        return None
    return ObliqueTable(
        name,
        public_name(task.dataset),
        task.revision,
        task.query_template,
        _count(name, task.counts, "split"),
        _count(name, task.counts, "queries"),
        _count(name, task.counts, "groups"),
        _count(name, task.counts, "documents"),
        task.counts.get("trained_on", 0),
        _compared_rows(dense, task.run("claim_only"), "overall", OBLIQUE_COLUMNS),
        _how(dense.compare),
    )


def _compared_rows(
    dense: RunResult, claim_only: RunResult | None, slice_name: str, columns: Mapping[str, str]
) -> list[Row]:
    """Each baseline, the adapter, the differences, and the adapter without an instruction."""
    compared = [c for c in dense.compare if c.slice == slice_name and c.metric in columns]
    baselines = list(dict.fromkeys(c.baseline for c in compared))
    rows = []
    for baseline in baselines:
        by_metric = {c.metric: c for c in compared if c.baseline == baseline}
        rows.append(Row(f"base: {public_name(baseline)}", _before(dense, slice_name, by_metric)))
    rows.append(Row("this adapter", _means(dense, slice_name, columns)))
    for baseline in baselines:
        by_metric = {c.metric: c for c in compared if c.baseline == baseline}
        rows.append(
            Row(
                f"difference to {public_name(baseline)}" if len(baselines) > 1 else "difference",
                {m: _interval(c) for m, c in by_metric.items()},
            )
        )
    if claim_only is not None and slice_name in claim_only.slices:
        asked = "claim" if columns is COLUMNS else "query"
        rows.append(Row(f"{asked} only, no instruction", _means(claim_only, slice_name, columns)))
    return rows


COST_COLUMNS = ("base", "this adapter", "difference")


def cost_rows(results: Results | None) -> list[Row]:
    """What tuning changed apart from stance: topic precision of each stance task, by style, and NanoBEIR.

    Values are by `COST_COLUMNS`. NanoBEIR always has its row: its numbers, or why there are none.
    """
    tasks = results.tasks if results else {}
    rows = []
    for name, task in tasks.items():
        dense = task.run("dense")
        if dense is None or "claims" not in task.counts:
            continue
        slices = [s for s in dense.slices if s == "overall" or s.startswith("style=")]
        rows += [Row(f"{name}, {s}: topic precision at R", _cost(dense, s, TOPIC)) for s in slices]
    ordinary = tasks[NANOBEIR].run("dense") if NANOBEIR in tasks else None
    return [*rows, Row("NanoBEIR: NDCG@10", _cost(ordinary, "overall", NANOBEIR_METRIC) if ordinary else _UNMEASURED)]


_UNMEASURED = {
    "base": "n/a",
    "this adapter": "n/a: not measured; `evaluate.py --tasks nanobeir` does",
    "difference": "",
}


def _cost(dense: RunResult, slice_name: str, metric: str) -> dict[str, str]:
    found = dense.slices[slice_name].get(metric)
    if found is None or found.mean is None:
        return {"base": "n/a", "this adapter": f"n/a: {found.reason if found else NOT_COMPUTED}", "difference": ""}
    compared = next((c for c in dense.compare if (c.slice, c.metric) == (slice_name, metric)), None)
    if compared is None:
        return {"base": "n/a: not compared", "this adapter": _number(found.mean), "difference": ""}
    before = _before(dense, slice_name, {metric: compared})[metric]
    return {"base": before, "this adapter": _number(found.mean), "difference": _interval(compared)}


def _count(task_name: str, counts: Mapping[str, Any], *place: str) -> Any:
    found: Any = counts
    for key in place:
        if not isinstance(found, Mapping) or key not in found:
            raise ValueError(f"{task_name}: got counts without {'.'.join(place)!r}, wanted it there; evaluate anew")
        found = found[key]
    return found


def _means(run: RunResult, slice_name: str, columns: Mapping[str, str]) -> dict[str, str]:
    return {m: _number(run.mean(slice_name, m)) for m in columns if m in run.slices[slice_name]}


def _before(dense: RunResult, slice_name: str, by_metric: dict[str, Comparison]) -> dict[str, str]:
    # The difference is paired, over the same queries: what was there before is the mean minus it.
    # Rounded first, or the subtraction's last digit could tip the printed one.
    return {
        metric: NOT_COMPUTED
        if (mean := dense.mean(slice_name, metric)) is None
        else _number(round(mean - comparison.delta, 9))
        for metric, comparison in by_metric.items()
    }


def _number(value: float | None) -> str:
    return NOT_COMPUTED if value is None else f"{value:.3f}"


def _interval(comparison: Comparison) -> str:
    delta = f"{comparison.delta:+.3f}"
    if comparison.low is None or comparison.high is None:
        return f"{delta} (no interval)"
    return f"{delta} [{comparison.low:+.3f}, {comparison.high:+.3f}]"


def _how(compare: Sequence[Comparison]) -> str | None:
    with_interval = [c for c in compare if c.low is not None]
    if not with_interval:
        return None
    first = with_interval[0]
    return (
        f"{first.level:.0%} intervals, {first.resamples:,} resamples of whole {first.unit}s "
        f"({first.n_units} of them), seed {first.seed}"
    )
