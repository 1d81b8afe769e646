"""The trade-off of the two levers: hard errors against semi-hard ones, precision as colour."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hub_models.evaluation.figures import STYLE, save
from hub_models.retrieval.levers import Levers

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_levers(curve: Sequence[dict[str, float]], chosen: Levers, title: str, folder: Path) -> Path:
    """Draw the curve as PNG and SVG.

    Args:
        curve: Settings with their metrics, as `tuning.Tuned.curve`.
        chosen: The setting to mark.
        title: Said above.
        folder: Where the files go.

    Returns:
        The PNG.
    """
    import matplotlib

    with matplotlib.rc_context(STYLE):
        return save(_trade_off(curve, chosen, title), folder, "levers")


def _trade_off(curve: Sequence[dict[str, float]], chosen: Levers, title: str) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.6), layout="constrained")
    axes = figure.add_subplot()
    for anchor in sorted({row["anchor"] for row in curve}):
        path = sorted((r for r in curve if r["anchor"] == anchor), key=lambda r: r["adapter_scale"])
        xs, ys = [r["hard_at_r"] for r in path], [r["semi_hard_at_r"] for r in path]
        axes.plot(xs, ys, color="#c9c9c9", linewidth=0.8, zorder=1)
        axes.annotate(f"anchor {anchor:g}", (xs[-1], ys[-1]), xytext=(-4, 5), textcoords="offset points", fontsize=6)
    points = axes.scatter(
        [r["hard_at_r"] for r in curve],
        [r["semi_hard_at_r"] for r in curve],
        c=[r["precision_at_r"] for r in curve],
        cmap="viridis",
        s=28,
        zorder=2,
    )
    for row in (r for r in curve if not r["anchor"]):
        place = (row["hard_at_r"], row["semi_hard_at_r"])
        axes.annotate(f"{row['adapter_scale']:g}", place, xytext=(5, -9), textcoords="offset points", fontsize=7)
    (mark,) = [r for r in curve if Levers(r["adapter_scale"], r["anchor"]) == chosen]
    axes.scatter(
        [mark["hard_at_r"]], [mark["semi_hard_at_r"]], s=130, facecolors="none", edgecolors="#c8443a", zorder=3
    )
    axes.set_xlabel("hard: share of the first R on the claim, of the other stance")
    axes.set_ylabel("semi-hard: of the stance, on another claim")
    axes.spines[["top", "right"]].set_visible(False)
    figure.colorbar(points, label="P@R")
    figure.suptitle(f"{title}\nnumbers: adapter scale; red: chosen", fontsize=9)
    return figure
