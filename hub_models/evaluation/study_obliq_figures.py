"""The oblique study's figures: the curves over dose and neighbours (O figure 2, inset), and the systems by task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dataset_builders.atomic import write_text
from dataset_builders.oblique.read import PAIRS
from dataset_builders.oblique.style_graph import K
from hub_models.evaluation.figures import STYLE, save
from hub_models.evaluation.oblique_metrics import MAIN
from hub_models.evaluation.study_obliq_grid import CENTRAL, KS, NO_PAIRS, PAIRS_, doses
from hub_models.evaluation.study_obliq_report import label, report
from hub_models.evaluation.study_obliq_results import ObliqueStudyResults
from hub_models.evaluation.study_results import ZERO_SHOT, Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_OTHERS = "mean of the other tasks"


def draw(study: ObliqueStudyResults, out: Path) -> list[Path]:
    """Draw all figures into ``out/figures``, as PNG and SVG, and show them in ``out/report.md``.

    Returns:
        The PNG files.
    """
    import matplotlib

    with matplotlib.rc_context(STYLE):
        drawn = {"systems": systems(study)}
        found = curves(study)
        if found is not None:
            drawn["dose-and-neighbours"] = found
        paths = [save(figure, out / "figures", name) for name, figure in drawn.items()]
    write_text(out / "report.md", report(study, [f"figures/{path.name}" for path in paths]))
    return paths


def systems(study: ObliqueStudyResults) -> Figure:
    """NDCG@10 of base and central systems on each task of the sample, the seeds as dots."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.4), layout="constrained")
    axes = figure.subplots()
    shown = [s for s in (ZERO_SHOT, *CENTRAL) if s in study.systems]
    tasks = list(study.of_sample())
    width = 0.8 / len(shown)
    for i, system in enumerate(shown):
        found = [_value(study, task, system) for task in tasks]
        places = [x + (i - (len(shown) - 1) / 2) * width for x in range(len(tasks))]
        axes.bar(places, [_mean(f) for f in found], 0.92 * width, label=label(system))
        for x, spread in zip(places, found, strict=True):
            seeds = _seeds(spread)
            axes.plot([x] * len(seeds), seeds, ".", color="black", markersize=4)
    axes.set_xticks(range(len(tasks)), tasks)
    axes.set_ylabel("NDCG@10")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    axes.set_title(_heading(study), fontsize=9)
    return figure


def curves(study: ObliqueStudyResults) -> Figure | None:
    """Writing, and the mean of the other tasks, by the number of pairs and by k; None without a sweep."""
    from matplotlib.figure import Figure

    whole = K * study.documents
    by_dose = {0: NO_PAIRS, **{dose: f"dose-{dose}" for dose in doses(study.documents)}, whole: PAIRS_}
    by_k = {k: f"dose-{study.documents}" if k == K else f"k-{k}" for k in KS}
    panels = [
        ("pairs", {x: s for x, s in by_dose.items() if s in study.systems}),
        (f"k, at {study.documents} pairs", {x: s for x, s in by_k.items() if s in study.systems}),
    ]
    panels = [panel for panel in panels if len(panel[1]) > 2]
    if not panels:
        return None
    figure = Figure(figsize=(0.6 + 4.2 * len(panels), 3.2), layout="constrained")
    grid = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, (name, points) in zip(grid, panels, strict=True):
        _curve(axes, study, points, [PAIRS], PAIRS)
        _curve(axes, study, points, [task for task in study.of_sample() if task != PAIRS], _OTHERS)
        axes.set_xlabel(name)
        axes.set_xticks(list(points))
        axes.spines[["top", "right"]].set_visible(False)
    grid[0].set_ylabel("NDCG@10")
    grid[0].legend(frameon=False, fontsize=8)
    figure.suptitle(_heading(study), fontsize=9)
    return figure


def _curve(axes: Axes, study: ObliqueStudyResults, points: dict[int, str], tasks: Sequence[str], name: str) -> None:
    found = {x: [_value(study, task, system) for task in tasks] for x, system in points.items()}
    (line,) = axes.plot(
        list(found), [sum(map(_mean, f)) / len(f) for f in found.values()], "o-", markersize=4, label=name
    )
    if len(tasks) == 1:
        for x, (spread,) in found.items():
            seeds = _seeds(spread)
            axes.plot([x] * len(seeds), seeds, ".", color=line.get_color(), alpha=0.5, markersize=4)


def _value(study: ObliqueStudyResults, task: str, system: str) -> Spread | None:
    return study.of_sample()[task].dense(system).value("overall", MAIN)


def _mean(found: Spread | None) -> float:
    return 0.0 if found is None or found.mean is None else found.mean


def _seeds(found: Spread | None) -> list[float]:
    return [] if found is None or found.spread is None else [v for v in found.seeds if v is not None]


def _heading(study: ObliqueStudyResults) -> str:
    quick = "; quick" if study.quick else ""
    return f"{study.base.split('/')[-1]}, {len(study.seeds)} seed(s), {study.split} queries of the sample{quick}"
