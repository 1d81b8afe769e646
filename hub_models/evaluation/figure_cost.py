"""NDCG@10 by language-model calls a query, for each policy that was measured on a task (O figure E.1)."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from hub_models.evaluation.oblique_metrics import MAIN
from hub_models.evaluation.results import TaskResult
from hub_models.retrieval.rerank import DEPTH

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKERS = {"tourrank": "^", "listwise": "s", "sliding": "D", "cross-encoder": "v", "identity": "o"}
_COLOURS = {"tourrank": "#3a6ea5", "listwise": "#c8443a", "sliding": "#7d7d7d", "cross-encoder": "#3a9b5c"}


def cost_quality(task: TaskResult, task_name: str) -> Figure | None:
    """The figure, or None with fewer than two policies to compare."""
    from matplotlib.figure import Figure

    families: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for run in task.runs:
        mean = run.mean("overall", MAIN)
        if run.strategy == "rerank" and run.params["policy"] != "auto" and mean is not None:
            policy = run.diagnostics["policy"]
            label = policy if run.params["depth"] == DEPTH else f"{policy}, {run.params['depth']} deep"
            calls = run.diagnostics["cost"]["calls_per_query"]
            families[policy.partition(":")[0]].append((calls, mean, label))
    if sum(map(len, families.values())) < 2:
        return None
    figure = Figure(figsize=(5.6, 3.6), layout="constrained")
    axes = figure.add_subplot()
    first = task.runs[0].mean("overall", MAIN)
    if first is not None:
        axes.axhline(first, color="black", linestyle="--", linewidth=1)
        axes.plot([0], [first], "o", color="black", label=f"{task.runs[0].strategy}, not reranked")
    for family, points in families.items():
        points.sort()
        colour = _COLOURS.get(family, "black")
        axes.plot(
            *zip(*((x, y) for x, y, _ in points), strict=True), _MARKERS[family] + "-", color=colour, label=family
        )
        for x, y, label in points:
            axes.annotate(label, (x, y), textcoords="offset points", xytext=(4, 4), fontsize=7)
    axes.set_xscale("symlog", linthresh=1)
    calls_made = sorted({0.0, *(x for points in families.values() for x, _, _ in points)})
    axes.set_xticks(calls_made, [f"{calls:.4g}" for calls in calls_made])
    axes.set_xticks([], minor=True)
    axes.set_xlim(-0.1, 2 * max(1, calls_made[-1]))
    axes.set_xlabel("language-model calls a query")
    axes.set_ylabel("NDCG@10, gold")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    counts = task.counts
    figure.suptitle(f"{task_name}: {counts['queries']} queries, corpus of {counts['documents']} documents", fontsize=9)
    return figure
