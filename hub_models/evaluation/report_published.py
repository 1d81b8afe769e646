"""What the stance paper printed for a model, set beside our measurement of it, cut at min(R, 10) as there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hub_models.evaluation.published import StanceRow, stance_rows
from hub_models.evaluation.results import Results, RunResult, TaskResult
from hub_models.manifest import FILE_NAME, Manifest

COLUMNS = {
    "ndcg_at_10": "NDCG@10",
    "precision_at_r_cap10": "P@R",
    "hard_at_r_cap10": "hard",
    "semi_hard_at_r_cap10": "semi-hard",
    "easy_at_r_cap10": "easy",
}
ABLATION = {"ris": "RIS", "rcs": "RCS", "di_positive": "DI (pos)", "di_hard": "DI (hard)"}
_LABEL, _CELL = 40, 12


def curriculum_of(model: str) -> str | None:
    """What a model was trained on: by its ``slant.json`` where it is a run folder, else by its name; None for a base.

    S names its adapters as ``…-stance-mixed``, we name ours as ``{recipe}-mixed-lora``, and ``{recipe}-lora`` for
    ``mixed_aug``.

    Raises:
        ValueError: If the ``slant.json`` is damaged.
    """
    if (Path(model) / FILE_NAME).is_file():
        return Manifest.read(Path(model)).data[0].config
    name = model.rpartition("/")[2].replace("_", "-")
    found = re.search(r"-(homogeneous|mixed-aug|mixed)(-lora|-merged)?$", name)
    if found:
        return found[1].replace("-", "_")
    return "mixed_aug" if name.startswith("stance-") and name.endswith(("-lora", "-merged")) else None


def beside_published(results: Results, task_name: str, curriculum: str | None) -> str:
    """Every published line of this model and corpus that was measured here, with the difference.

    Args:
        results: Of the model.
        task_name: A stance task of it.
        curriculum: What the model was trained on, see `curriculum_of`.
    """
    task = results.tasks[task_name]
    base = results.model.base or results.model.id
    everything = stance_rows()
    if not everything:
        return "published: the paper's tables are not in this installation\n"
    rows = [r for r in everything if (r.corpus, r.base, r.curriculum) == (task.dataset, base, curriculum)]
    if not rows:
        measured = sorted({f"{r.base} on {r.corpus}" for r in everything})
        return (
            f"published: nothing of {base}, trained on {curriculum or 'nothing'}, on {task.dataset}; S measured "
            f"{len(measured)} pairs, such as {measured[0]}\n"
        )
    lines = [
        f"published · {task_name} · S tables {', '.join(dict.fromkeys(r.table for r in rows))}, cut at min(R, 10)"
    ]
    for columns in (COLUMNS, ABLATION):
        lines += _table([r for r in rows if set(r.cells) == set(columns)], task, columns)
    return "\n".join(lines) + "\n"


def _table(rows: list[StanceRow], task: TaskResult, columns: dict[str, str]) -> Iterator[str]:
    pairs = [(row, run) for row in rows if (run := _measured(row, task)) is not None]
    if pairs:
        yield _line("", list(columns.values()))
    for row, run in pairs:
        ours = [run.mean(row.slice, metric) for metric in columns]
        theirs = [row.cells[metric].mean for metric in columns]
        if None in ours:
            continue  # this task was not ablated
        yield _line(f"{row.system} · {row.slice} · S", [f"{value:.3f}" for value in theirs])
        yield _line("  here", [f"{value:.3f}" for value in ours])
        yield _line("  difference", [f"{a - b:+.3f}" for a, b in zip(ours, theirs, strict=True) if a is not None])


def _measured(row: StanceRow, task: TaskResult) -> RunResult | None:
    return next((run for run in task.runs if searched_alike(row, run.strategy, run.params)), None)


def searched_alike(row: StanceRow, strategy: str, params: Mapping[str, Any]) -> bool:
    """Whether a run of ours searched as a line's system did: a hybrid one with S's own tokenizer and BM25."""
    if row.reranked:
        return strategy == "rerank"
    if row.weight is None:
        return strategy == "dense" and not params
    return strategy == "hybrid" and params == {"weight": row.weight, "lexical": "s"}


def _line(label: str, cells: list[str]) -> str:
    return (f"{label:<{_LABEL}}" + "".join(f"{cell:<{_CELL}}" for cell in cells)).rstrip()
