"""The table of a word ablation, in the shape of the stance paper's tables 20 to 25."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hub_models.evaluation.results import Metric, Results, RunResult

HEADINGS = {"ris": "RIS", "rcs": "RCS", "di_positive": "DI (pos)", "di_hard": "DI (hard neg)"}
_LABEL, _CELL = 19, 18


def ablation_table(results: Results, task_name: str, baseline: Results | None = None) -> str:
    """One task's ablation metrics as mean ± std, beside a baseline's if it has them; empty where there are none."""
    dense = results.tasks[task_name].run("dense")
    if dense is None or "ablation" not in dense.diagnostics:
        return ""
    other = baseline.tasks[task_name].run("dense") if baseline else None
    if other is not None and "ablation" not in other.diagnostics:
        other = None
    name = "tuned" if results.model.adapter_sha256 else "model"
    facts = dense.diagnostics["ablation"]
    lines = [f"{task_name} · words deleted one at a time · {facts['texts']} texts", _line("", list(HEADINGS.values()))]
    for slice_name in (s for s, metrics in dense.slices.items() if "ris" in metrics):
        counts = dense.slices[slice_name]
        lines.append(f"{slice_name} · {counts['ris'].n} query-document pairs, {counts['di_positive'].n} queries")
        if other is not None:
            lines.append(_line("  base", _cells(other, slice_name)))
        lines.append(_line(f"  {name}", _cells(dense, slice_name)))
    lines += [
        "RIS, RCS: what share of all movement of the cosine is due to words of the instruction, of the claim.",
        "DI: what the cosine gains without the stance word: where stance is understood, below 0 for right arguments",
        "and above 0 for hard negatives. Mean ± sample std.",
    ]
    return "\n".join([*lines, *left_whole(facts["skipped"])]) + "\n"


def left_whole(skipped: Mapping[str, int]) -> Iterator[str]:
    """A line on the parts of queries that have a single word, by part; none where there is no such part."""
    parts = [f"{n} {part}s" for part, n in skipped.items() if n]
    if parts:
        yield f"Left whole, being a single word: {' and '.join(parts)}."


def _cells(run: RunResult, slice_name: str) -> list[str]:
    metrics = run.slices.get(slice_name, {})
    return [_cell(metrics.get(name)) for name in HEADINGS]


def _cell(metric: Metric | None) -> str:
    if metric is None or metric.mean is None:
        return "n/a"
    return f"{metric.mean:.3f}" + ("" if metric.std is None else f" ± {metric.std:.2f}")


def _line(label: str, cells: list[str]) -> str:
    return (f"{label:<{_LABEL}}" + "".join(f"{cell:<{_CELL}}" for cell in cells)).rstrip()
