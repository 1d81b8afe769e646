"""An oblique task's results in the shape of O's tables 1-4, 6 and L.1: plain text, 120 columns at most."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from dataset_builders.instructions import OUR_OBLIQUE_INSTRUCTIONS
from dataset_builders.sources.oblique import BENCH
from hub_models.evaluation.oblique_metrics import GAIN_AT, MAIN
from hub_models.evaluation.oblique_table import FEW_GROUPS, UNIT
from hub_models.evaluation.published import oblique_tables
from hub_models.evaluation.report_rerank import rerank_lines, run_label
from hub_models.evaluation.results import Comparison, Results, RunResult, TaskResult

WIDTH = 114
"""Below so many units a 95 % percentile interval covers less than 91 % (`significance.paired_differences`)."""

_UNCLEAR = "°"
_LABEL, _CELL = 36, 13
_COLUMNS = {
    "ndcg_at_10": "NDCG@10",
    "ndcg_at_50": "NDCG@50",
    "recall_at_10": "R@10",
    "recall_at_50": "R@50",
    "recall_at_100": "R@100",
    "recall_at_1000": "R@1000",
}


def oblique_table(results: Results, task_name: str, baseline: Results | None = None) -> str:
    """One oblique task's results, beside a baseline's if there is one, and the published cells on OBLIQ-Bench.

    Args:
        results: Of the model.
        task_name: A key of ``results.tasks``.
        baseline: Of the baseline, with the same task.

    Raises:
        KeyError: If a file does not hold the task.
    """
    task = results.tasks[task_name]
    pooled = "pooled" in task.counts["relevant"]
    counts = task.counts
    lines = [
        "",
        f"{task_name} · {counts['split']} · {counts['queries']} queries in {counts['groups']} groups · corpus of "
        f"{counts['documents']} documents ({counts['distinct_texts']} different)",
        f"{'gold / pooled judgements' if pooled else 'gold judgements; none pooled'}; "
        f"query: {task.query_template.replace('{claim}', '{query}')}",
        "─" * WIDTH,
        _line("", list(_COLUMNS.values())),
        "─" * WIDTH,
    ]
    main = task.runs[0]
    for slice_name in main.slices:
        n = main.slices[slice_name][MAIN].n
        lines.append({"overall": f"all {n} queries", "clean": f"without development: {n}"}.get(slice_name, slice_name))
        for owner in [baseline, results] if baseline else [results]:
            for run in owner.tasks[task_name].runs:
                name = owner.model.id.split("/")[-1] + run_label(run)
                lines.append(_line(f"  {name}", _means(run, slice_name, pooled)))
        for run in task.runs:
            differences = {c.metric: c for c in run.compare if c.slice == slice_name and _is_of(c, baseline)}
            if differences:
                label = f"  difference{run_label(run)}"
                lines.append(_line(label, [_delta(differences.get(f"{m}_gold")) for m in _COLUMNS]))
    lines += _published(task)
    return "\n".join([*lines, "─" * WIDTH, *_notes(task, baseline)]) + "\n"


def _published(task: TaskResult) -> Iterator[str]:
    if task.dataset != BENCH:
        return
    table = oblique_tables().get(task.counts["task"])
    if table is None:
        yield "published cells: not in this installation"
        return
    yield f"published (O table {table.table}; recall at 1000 from table 6), the full query set"
    for row in table.rows:
        pooled = any(metric.endswith("_pooled") for metric in row.cells)
        yield _line(
            f"  {row.pipeline}",
            [
                _cell(row.cells.get(f"{m}_gold"), row.cells.get(f"{m}_pooled"), pooled and m == "ndcg_at_10")
                for m in _COLUMNS
            ],
        )


def _notes(task: TaskResult, baseline: Results | None) -> Iterator[str]:
    nulls: dict[str, list[str]] = {}
    for metric, label in _COLUMNS.items():
        found = task.runs[0].slices["overall"][f"{metric}_gold"]
        if found.mean is None and found.reason:
            nulls.setdefault(found.reason.partition(" is ")[2] or found.reason, []).append(label)
    for reason, labels in nulls.items():
        yield f"n/a: {', '.join(labels)}: k is {reason}."
    if task.counts["left_out"]:
        yield f"Left out: {task.counts['left_out']} queries without a relevant document."
    if task.counts["dangling"]:
        ceiling = ", ".join(f"{metric} {value:.3f}" for metric, value in task.counts["ceiling"].items())
        yield f"{task.counts['dangling']} relevant documents are not in the corpus. Ceiling: {ceiling}."
    if trained_on := task.counts.get("trained_on"):
        yield f"{trained_on} of the {task.counts['queries']} queries were trained on: this says little about new ones."
    if tokens := task.counts.get("query_tokens"):
        yield f"Queries are cut after {tokens} tokens."
    if task.counts["task"] in OUR_OBLIQUE_INSTRUCTIONS:
        yield "The instruction is ours: O gives none for this task."
    if task.counts["groups"] < FEW_GROUPS:
        yield f"Intervals resample {task.counts['groups']} query groups: of so few they come out too narrow."
    if any(not c.excludes_zero for run in task.runs for c in run.compare if _is_of(c, baseline)):
        yield f"{_UNCLEAR} The interval of the difference includes 0."
    for run in task.runs:
        if "cost" not in run.diagnostics:
            yield from _behind(run, baseline)
    yield from rerank_lines(task)


def _behind(run: RunResult, baseline: Results | None) -> Iterator[str]:
    found = run.diagnostics
    parts = [f"{run.strategy}: zero NDCG@10 in {found['zero']:.0%} of the queries"]
    if found["interval"]["low"] is not None:
        parts.append(f"NDCG@10 {_span(found['interval'])} by {UNIT}")
    first, share = found["top1_distinct"], found["top1_max_share"]
    parts.append(f"{first} different documents come first, the most frequent in {share:.0%} of the queries")
    if found["shuffle"]["ratio"] is not None:
        parts.append(f"{found['shuffle']['ratio']:.1f} times what its first 100 give in random order")
    if found["ties"]:
        parts.append(f"equal scores put in order by id in {found['ties']:.0%}")
    yield from _wrapped("; ".join(parts) + ".")
    against = found.get("against")
    if against and baseline and against["baseline"] == baseline.model.id:
        gains = ", ".join(f"{against['gain_by_rank'][str(k)]:+.3f} at {k}" for k in GAIN_AT)
        yield from _wrapped(
            f"{run.strategy} against {against['baseline'].split('/')[-1]}: helped {against['helped']}, hurt "
            f"{against['hurt']}, tied {against['tied']}, zero in both {against['zero_in_both']}; NDCG@10 "
            f"{against['delta']:+.3f} {_span(against['interval'])}; gain in NDCG by rank: {gains}."
        )


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ")


def _span(interval: dict[str, float | None]) -> str:
    if interval["low"] is None or interval["high"] is None:
        return "(no interval)"
    return f"[{interval['low']:.3f}, {interval['high']:.3f}]"


def _is_of(comparison: Comparison, baseline: Results | None) -> bool:
    return baseline is not None and comparison.baseline == baseline.model.id


def _means(run: RunResult, slice_name: str, pooled: bool) -> list[str]:
    return [_cell(run.mean(slice_name, f"{m}_gold"), run.mean(slice_name, f"{m}_pooled"), pooled) for m in _COLUMNS]


def _cell(gold: float | None, pooled: float | None, both: bool) -> str:
    return f"{_number(gold)}/{_number(pooled)}" if both else _number(gold)


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}".replace("0.", ".")


def _delta(found: Comparison | None) -> str:
    if found is None:
        return ""
    return f"{found.delta:+.3f}".replace("0.", ".") + ("" if found.excludes_zero else _UNCLEAR)


def _line(label: str, cells: list[str]) -> str:
    label = label if len(label) < _LABEL else label[: _LABEL - 2] + "…"
    return (f"{label:<{_LABEL}}" + "".join(f"{cell:<{_CELL}}" for cell in cells)).rstrip()
