"""A study's figures: what the top R is made of (S figures 2, 3), stance against topic, hybrid weights (S figure 9),
and the word ablation of each system's first seed (S figures 4-8)."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

from hub_models.evaluation import figures_ablation
from hub_models.evaluation.ablation_results import read_ablation
from hub_models.evaluation.figures import COLOURS, NAMES, STYLE, save
from hub_models.evaluation.measured import Table
from hub_models.evaluation.metrics import COMPOSITION
from hub_models.evaluation.named_tasks import Tasks
from hub_models.evaluation.results import RESULTS_NAME, Results
from hub_models.evaluation.stance import Judgements
from hub_models.evaluation.study_report import label
from hub_models.evaluation.study_results import ZERO_SHOT, StudyResults, StudyRun, StudyTask

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(study: StudyResults, tasks: Tasks, out: Path) -> list[Path]:
    """Draw all figures into ``out/figures``, as PNG and SVG.

    Args:
        study: The numbers.
        tasks: The evaluation sets.
        out: The study's folder, with its cells.

    Returns:
        The PNG files.
    """
    import matplotlib

    with matplotlib.rc_context(STYLE):
        drawn = {"composition": composition(study), "trade-off": trade_off(study)}
        fused = hybrid(study)
        if fused is not None:
            drawn["hybrid"] = fused
        for name, judged in tasks.items():
            if isinstance(judged, Judgements):
                drawn |= ablation(study, name, judged, out)
        return [save(figure, out / "figures", name.replace(":", "-")) for name, figure in drawn.items()]


def ablation(study: StudyResults, task_name: str, judged: Judgements, out: Path) -> dict[str, Figure]:
    """Distributions over queries and documents, and one query word by word under the base and the first system."""
    tables: dict[str, Table] = {}
    for system in study.systems:
        folder = out / "cells" / (system if system == ZERO_SHOT else f"{system}-seed{study.seeds[0]}")
        run = Results.read(folder / RESULTS_NAME).tasks[task_name].run("dense")
        table = read_ablation(folder, run) if run else None
        if table is not None:
            tables[label(system)] = table
    if not tables:
        return {}
    title = f"{task_name}: {_heading(study, f'seed {study.seeds[0]}')}"
    first_two = dict(list(tables.items())[:2])
    example = figures_ablation.median_query(list(first_two.values())[-1])
    drawn = {
        f"{task_name}-ablation-sensitivity": figures_ablation.sensitivity(tables, title),
        f"{task_name}-ablation-direction": figures_ablation.direction(tables, title),
    }
    if example is not None:
        drawn[f"{task_name}-ablation-heatmap"] = figures_ablation.heatmap(judged, first_two, example)
    return drawn


def composition(study: StudyResults) -> Figure:
    """Stacked bars for each set and system: the shares of right, hard, semi-hard and easy documents at R."""
    from matplotlib.figure import Figure

    n = len(study.tasks)
    figure = Figure(figsize=(max(4.6, 1.4 + n * (0.6 + 0.72 * len(study.systems))), 4.0), layout="constrained")
    axes_of = figure.subplots(1, n, sharey=True, squeeze=False)[0]
    for axes, (name, task) in zip(axes_of, study.tasks.items(), strict=True):
        for x, system in enumerate(study.systems):
            _stack(axes, x, task.dense(system))
        axes.set_xticks(range(len(study.systems)), [label(s) for s in study.systems], rotation=30, ha="right")
        axes.set_title(_title(name, task), fontsize=9)
        axes.set_ylim(0, 1)
        axes.spines[["top", "right"]].set_visible(False)
    axes_of[0].set_ylabel("share of the top R")
    handles, labels = axes_of[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(_heading(study), fontsize=9)
    return figure


def _stack(axes: Axes, x: int, run: StudyRun) -> None:
    bottom = 0.0
    for kind in COMPOSITION:
        share = _mean(run, f"{kind}_at_r")
        axes.bar(x, share, 0.8, bottom, color=COLOURS[kind], label=NAMES[kind] if x == 0 else None)
        if share >= 0.06:
            colour = "black" if kind == "semi_hard" else "white"
            axes.text(x, bottom + share / 2, f"{share:.2f}", ha="center", va="center", color=colour, fontsize=8)
        bottom += share


def trade_off(study: StudyResults) -> Figure:
    """Stance errors against topic errors: each system's mean, its seeds as small dots, P@R as colour."""
    from matplotlib.figure import Figure

    n = len(study.tasks)
    figure = Figure(figsize=(0.8 + 4.2 * n, 3.6), layout="constrained")
    axes_of = figure.subplots(1, n, squeeze=False)[0]
    for axes, (name, task) in zip(axes_of, study.tasks.items(), strict=True):
        runs = [task.dense(system) for system in study.systems]
        x, y = ([_mean(run, metric) for run in runs] for metric in ("hard_at_r", "semi_hard_at_r"))
        points = axes.scatter(x, y, c=[_mean(run, "precision_at_r") for run in runs], s=60, cmap="viridis", zorder=3)
        for i, (run, hard, semi) in enumerate(zip(runs, x, y, strict=True)):
            offset = (6, -12 if i % 2 else 4)  # curricula may lie on each other, their names may not
            axes.annotate(label(run.system), (hard, semi), offset, textcoords="offset points", fontsize=8)
            axes.plot(_seeds(run, "hard_at_r"), _seeds(run, "semi_hard_at_r"), ".", color="#999999", markersize=4)
        axes.set_title(_title(name, task), fontsize=9)
        axes.set_xlabel("hard: wrong stance")
        axes.margins(0.18)
        axes.spines[["top", "right"]].set_visible(False)
        figure.colorbar(points, ax=axes, label="P@R")
    axes_of[0].set_ylabel("semi-hard: wrong claim")
    figure.suptitle(_heading(study), fontsize=9)
    return figure


def hybrid(study: StudyResults) -> Figure | None:
    """P@R, hard and semi-hard by the fixed weight of BM25, for each system and each BM25; None where no hybrid was
    measured."""
    from matplotlib.figure import Figure

    fused = {name: [run for run in task.runs if _fixed_weight(run) is not None] for name, task in study.tasks.items()}
    words = list(dict.fromkeys(run.params.get("lexical") for runs in fused.values() for run in runs))
    if not words:
        return None
    shown = {"precision_at_r": "P@R", "hard_at_r": "hard@R", "semi_hard_at_r": "semi-hard@R"}
    figure = Figure(figsize=(9.6, 2.9 * len(study.tasks)), layout="constrained")
    grid = figure.subplots(len(study.tasks), len(shown), squeeze=False)
    for row, (name, task) in zip(grid, study.tasks.items(), strict=True):
        for axes, (metric, title) in zip(row, shown.items(), strict=True):
            for system, lexical in itertools.product(study.systems, words):
                runs = [r for r in fused[name] if (r.system, r.params.get("lexical")) == (system, lexical)]
                runs.sort(key=lambda run: _fixed_weight(run) or 0.0)
                if runs:
                    x = [0.0, *(_fixed_weight(run) or 0.0 for run in runs)]
                    y = [_mean(run, metric) for run in (task.dense(system), *runs)]
                    called = label(system) + (f", {lexical}" if len(words) > 1 else "")
                    axes.plot(x, y, "o-", markersize=4, label=called)
            axes.set_title(f"{name}: {title}", fontsize=9)
            axes.set_xlabel("λ")
            axes.spines[["top", "right"]].set_visible(False)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(study.systems), frameon=False)
    figure.suptitle(_heading(study), fontsize=9)
    return figure


def _fixed_weight(run: StudyRun) -> float | None:
    """The λ of a hybrid run that has one λ for all queries and nothing else beside the dense run."""
    weight = run.params.get("weight")
    plain = run.strategy == "hybrid" and set(run.params) <= {"weight", "lexical"}
    return weight if plain and isinstance(weight, float) else None


def _mean(run: StudyRun, metric: str) -> float:
    found = run.value("overall", metric)
    return 0.0 if found is None or found.mean is None else found.mean


def _seeds(run: StudyRun, metric: str) -> list[float]:
    found = run.value("overall", metric)
    return [] if found is None or found.spread is None else [v for v in found.seeds if v is not None]


def _title(name: str, task: StudyTask) -> str:
    return f"{name}: {task.counts['claims']} claims,\n{task.counts['documents']} arguments"


def _heading(study: StudyResults, seeds: str | None = None) -> str:
    quick = "; quick" if study.quick else ""
    return f"{study.base.split('/')[-1]}, {seeds or f'{len(study.seeds)} seed(s)'}, unseen instructions{quick}"
