"""What a model gains over its baseline at each rank of an oblique task (O figure 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hub_models.evaluation.oblique_metrics import GAIN_AT
from hub_models.evaluation.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = {"dense": "#2b6ca3", "claim_only": "#c98a1b"}
_NAMES = {"claim_only": "query alone", "dense": "with the instruction"}


def gain_by_rank(results: Results, task_name: str, baseline: Results) -> Figure | None:
    """Difference in NDCG at k, a line for each run that was held against the baseline.

    Returns:
        The figure, or None if no run was.
    """
    from matplotlib.figure import Figure

    task = results.tasks[task_name]
    gains = {
        run.strategy: run.diagnostics["against"]["gain_by_rank"]
        for run in task.runs
        if run.diagnostics.get("against", {}).get("baseline") == baseline.model.id
    }
    if not gains:
        return None
    figure = Figure(figsize=(5.6, 3.4), layout="constrained")
    axes = figure.add_subplot()
    axes.axhline(0, color="#555555", linewidth=0.8)
    for strategy, gain in gains.items():
        axes.plot(
            GAIN_AT,
            [gain[str(k)] for k in GAIN_AT],
            marker="o",
            markersize=4,
            color=_COLOURS.get(strategy),
            label=_NAMES.get(strategy, strategy),
        )
    axes.set_xscale("log")
    axes.set_xticks(GAIN_AT, [str(k) for k in GAIN_AT])
    axes.minorticks_off()
    axes.set_xlabel("k")
    axes.set_ylabel("gain in NDCG@k")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    ours, theirs = (r.model.id.split("/")[-1] for r in (results, baseline))
    axes.set_title(f"{task_name}: {ours} against {theirs}, {task.counts['queries']} queries", fontsize=9)
    return figure
