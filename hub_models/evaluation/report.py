"""The table that an evaluation ends with: plain text, 120 columns at most. The one of stance tasks is here."""

from __future__ import annotations

from collections.abc import Iterator

from hub_models.evaluation.measured import OWN, run_name
from hub_models.evaluation.nanobeir import nanobeir_table
from hub_models.evaluation.report_ablation import ablation_table
from hub_models.evaluation.report_oblique import oblique_table
from hub_models.evaluation.results import Comparison, Results, RunResult, TaskResult
from hub_models.evaluation.stance_ranking import ORACLE

COLUMNS = {
    "ndcg_at_10": "NDCG@10",
    "precision_at_r": "P@R",
    "hard_at_r": "hard",
    "semi_hard_at_r": "semi-hard",
    "easy_at_r": "easy",
}
WIDTH = 114
_LABEL, _CELL = 19, 19
_UNCLEAR = "°"
_SLICES = ("overall", "support", "attack", "style=explicit", "style=natural", "instructions=seen")


def report(results: Results, task_name: str, baseline: Results | None = None) -> str:
    """One task's results, of any family, beside a baseline's if there is one; a word ablation has its own table."""
    counts = results.tasks[task_name].counts
    if "claims" in counts:
        ablation = ablation_table(results, task_name, baseline)
        return table(results, task_name, baseline) + (f"\n{ablation}" if ablation else "")
    return (nanobeir_table if "datasets" in counts else oblique_table)(results, task_name, baseline)


def table(results: Results, task_name: str, baseline: Results | None = None) -> str:
    """One stance task's results, beside a baseline's if there is one.

    Args:
        results: Of the model.
        task_name: A key of ``results.tasks``.
        baseline: Of the baseline, with the same task.

    Raises:
        KeyError: If a file does not hold the task.
    """
    task = results.tasks[task_name]
    other = baseline.tasks[task_name] if baseline else None
    name = "tuned" if results.model.adapter_sha256 else "model"
    lines = ["", f"{task_name} · {_sizes(task)}"]
    if baseline:
        lines.append(f"base   {_identity(baseline)}")
    lines.append(f"{name}  {_identity(results)}")
    lines += ["─" * WIDTH, _line("", list(COLUMNS.values())), "─" * WIDTH]
    dense = task.runs[0]
    compared = _compared(dense, baseline)
    for slice_name in (s for s in _SLICES if s in dense.slices):
        lines += _slice(slice_name, task, other, name, compared)
    bare = {"base": other.run("claim_only") if other else None, name: task.run("claim_only")}
    if any(bare.values()):
        lines.append("claim alone, no instruction")
    lines += [_line(f"  {label}", _means(run, "overall")) for label, run in bare.items() if run]
    for run in task.runs[1:]:
        if run.strategy != "claim_only":
            lines += _further(run, name)
    reached = dense.mean("overall", ORACLE)
    ceiling = ["", _number(reached), "0.000", _number(None if reached is None else 1 - reached), "0.000"]
    topic = "the base" if results.model.adapter_sha256 else "the model itself"
    lines += [f"stance oracle: topic by {topic}, stance perfect; a ceiling", _line("", ceiling), "─" * WIDTH]
    return "\n".join([*lines, *_notes(task, dense, compared)]) + "\n"


def _slice(
    slice_name: str,
    task: TaskResult,
    other: TaskResult | None,
    name: str,
    compared: dict[tuple[str, str], Comparison],
) -> Iterator[str]:
    dense = task.runs[0]
    yield _title(slice_name, task, dense)
    if other:
        yield _line("  base", _means(other.runs[0], slice_name))
    yield _line(f"  {name}", _means(dense, slice_name))
    if any((slice_name, metric) in compared for metric in COLUMNS):
        yield _line("  difference", [_difference(compared.get((slice_name, metric))) for metric in COLUMNS])


def _further(run: RunResult, name: str) -> Iterator[str]:
    """A run beside the first one, and the difference to that."""
    own = {c.metric: c for c in run.compare if (c.baseline, c.slice) == (OWN, "overall")}
    what, told = run_name(run.strategy, run.params), "overall, and its difference to the dense run"
    yield from [f"{what} · {told}"] if len(f"{what} · {told}") <= WIDTH else [what, f"  {told}"]
    yield _line(f"  {name}", _means(run, "overall"))
    yield _line("  difference", [_difference(own.get(metric)) for metric in COLUMNS])
    if unknown := run.diagnostics.get("claims_without_a_known_word"):
        yield f"  claims of which no word is in the corpus, ranked as in the dense run: {unknown}"
    if chosen := run.diagnostics.get("lambda"):
        gain = chosen["auto_minus_fixed"]
        interval = "" if gain["low"] is None else f" [{gain['low']:+.3f},{gain['high']:+.3f}]"
        yield (
            f"  P@R at the best fixed weight of validation, {chosen['fixed_weight']}: {chosen['fixed']:.3f}; "
            f"auto: {gain['delta']:+.3f}{interval}; an oracle for each query: {chosen['oracle']:.3f}"
        )


def _title(slice_name: str, task: TaskResult, dense: RunResult) -> str:
    """What the slice is, with its number of queries and the size of the corpus they search."""
    style = slice_name.partition("style=")[2]
    documents = task.counts["style"][style]["documents"] if style else task.counts["documents"]
    label = f"{style} arguments only" if style else "seen instructions" if "seen" in slice_name else slice_name
    n = dense.slices[slice_name]["precision_at_r"].n
    return f"{label} · {n} queries, corpus of {documents}"


def _notes(task: TaskResult, dense: RunResult, compared: dict[tuple[str, str], Comparison]) -> Iterator[str]:
    yield "Of the first R documents (R = how many are right) P@R are right; hard: on the claim, of the other stance;"
    yield "semi-hard: of the stance, on another claim; easy: neither. The four sum to 1."
    if trained_on := task.counts.get("trained_on"):
        yield f"{trained_on} of the {task.counts['claims']} claims were trained on: this says little about new claims."
    left_out = sum(task.counts["left_out"].values())
    if left_out:
        yield f"Left out: {left_out} (claim, stance) pairs without a single right document."
    if dense.diagnostics["ties"]:
        yield f"Ties: in {dense.diagnostics['ties']:.1%} of the queries equal scores were put in order by id."
    if not compared:
        return
    first = next(iter(compared.values()))
    yield (
        f"[low,high]: {first.level:.0%} intervals, {first.resamples:,} resamples of whole {first.unit}s, "
        f"{first.n_units} of them in all."
    )
    unclear = [c for c in compared.values() if not c.excludes_zero]
    if unclear:
        few = min(c.n_units for c in unclear)
        yield f"{_UNCLEAR} The interval includes 0: {few} claims are too few to say which of the two is better."


def _compared(dense: RunResult, baseline: Results | None) -> dict[tuple[str, str], Comparison]:
    return {(c.slice, c.metric): c for c in dense.compare if baseline and c.baseline == baseline.model.id}


def _sizes(task: TaskResult) -> str:
    counts = task.counts
    return (
        f"{counts['split']} · {counts['claims']} claims · {counts['queries']} queries (unseen instructions) · "
        f"corpus of {counts['documents']} arguments"
    )


def _identity(results: Results) -> str:
    model = results.model
    revision = f" @ {model.revision[:8]}" if model.revision else ""
    base = f" on {model.base}" if model.base else ""
    return f"{model.id}{revision}{base}"


def _means(run: RunResult, slice_name: str) -> list[str]:
    return [_number(run.mean(slice_name, metric)) for metric in COLUMNS]


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"


def _difference(found: Comparison | None) -> str:
    if found is None:
        return ""
    if found.low is None or found.high is None:
        return f"{found.delta:+.3f}"
    mark = "" if found.excludes_zero else _UNCLEAR
    return f"{found.delta:+.3f} [{found.low:+.2f},{found.high:+.2f}]{mark}".replace("0.", ".")


def _line(label: str, cells: list[str]) -> str:
    return (f"{label:<{_LABEL}}" + "".join(f"{cell:<{_CELL}}" for cell in cells)).rstrip()
