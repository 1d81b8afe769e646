"""The figures of a word ablation: distributions (stance paper, figures 4 to 7) and one query word by word (figure 8).

Drawn from the ablation's own table, so that no model is needed; the same numbers give the same bytes.
"""

from __future__ import annotations

import itertools
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from dataset_builders.instructions import DEFAULT_QUERY_TEMPLATE, INSTRUCTIONS
from hub_models.evaluation.ablation import deletions
from hub_models.evaluation.measured import Table
from hub_models.evaluation.stance import Judgements

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BASE = "#c8443a"
_TUNED = ("#3566a8", "#3a9b5c", "#8a5fb0", "#c98a1b", "#2aa5a0", "#555555")
"""Base and tuned, as in the paper's left panels; a study has several tuned ones."""

_KINDS = {"positive": ("right arguments", "#3a9b5c"), "hard": ("hard negatives", "#c8443a")}
_BINS = 40


def sensitivity(tables: dict[str, Table], title: str) -> Figure:
    """How RIS and RCS are spread over queries and documents, a panel each, the models over each other.

    Args:
        tables: Label of a model to its table, the base first.
        title: What was measured.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    panels = {"ris": "relative instruction sensitivity (RIS)", "rcs": "relative claim sensitivity (RCS)"}
    for axes, (metric, name) in zip(figure.subplots(1, 2, sharey=True), panels.items(), strict=True):
        for (label, table), colour in zip(tables.items(), _colours(tables), strict=True):
            _histogram(axes, table[metric], (0.0, 1.0), label, colour)
        axes.set_xlabel(name)
    figure.axes[0].set_ylabel("share of queries × documents")
    figure.axes[0].legend(frameon=False)
    figure.suptitle(title, fontsize=9)
    return figure


def direction(tables: dict[str, Table], title: str) -> Figure:
    """What taking out the stance word does to right arguments and to hard negatives, a panel for each model.

    Args:
        tables: Label of a model to its table, the base first.
        title: What was measured.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * len(tables), 3.4), layout="constrained")
    reach = max(float(np.nanmax(np.abs(table["di"]), initial=0.0)) for table in tables.values()) or 1.0
    rows = figure.subplots(1, len(tables), sharey=True, squeeze=False)
    for axes, (label, table) in zip(rows[0], tables.items(), strict=True):
        axes.axvline(0, color="#999999", linewidth=0.8)
        for kind, (name, colour) in _KINDS.items():
            values = table["di"][(table["kind"] == kind) & ~np.isnan(table["di"])]
            mean = f", mean {values.mean():+.3f}" if len(values) else ""
            _histogram(axes, values, (-reach, reach), name + mean, colour)
        axes.set_title(label, fontsize=9)
        axes.set_xlabel("Δ of the cosine without the stance word")
        axes.legend(frameon=False, fontsize=8, loc="upper left")
    rows[0][0].set_ylim(0, 1.3 * rows[0][0].get_ylim()[1])  # room for the legend
    rows[0][0].set_ylabel("share of queries × documents")
    figure.suptitle(title, fontsize=9)
    return figure


def heatmap(judged: Judgements, tables: dict[str, Table], query_id: str) -> Figure:
    """One query word by word against each document of its claim: Δ of the cosine without that word.

    Args:
        judged: What was asked.
        tables: Label of a model to its table, the base first.
        query_id: A query of all of them.
    """
    from matplotlib.figure import Figure

    found = {label: np.flatnonzero(table["query_id"] == query_id) for label, table in tables.items()}
    first, rows = next(iter(tables.values())), next(iter(found.values()))
    instruction = next(i for i in INSTRUCTIONS if i.id == first["instruction_id"][rows[0]])
    claim = next(c.claim for c in judged.claims if c.claim_id == first["claim_id"][rows[0]])
    words = [d.word for d in deletions(instruction.text, claim, DEFAULT_QUERY_TEMPLATE)]
    text_of = {d.argument_id: d.text for d in judged.documents}
    grids = {
        label: np.stack([tables[label]["deltas"][i] for i in _right_first(tables[label], at)])
        for label, at in found.items()
    }
    order = _right_first(first, rows)
    ids = [(first["kind"][i], text_of[first["argument_id"][i]]) for i in order]
    reach = max(float(np.abs(grid).max()) for grid in grids.values()) or 1.0

    height = 0.36 * len(ids) + 1.1
    figure = Figure(figsize=(4.4 + 0.62 * len(words), height * len(grids) + 0.5), layout="constrained")
    for axes, (label, grid) in zip(figure.subplots(len(grids), 1, squeeze=False)[:, 0], grids.items(), strict=True):
        axes.imshow(grid, cmap="RdBu", vmin=-reach, vmax=reach, aspect="auto")
        for (y, x), value in np.ndenumerate(grid):
            colour = "white" if abs(value) > 0.6 * reach else "black"
            axes.text(x, y, f"{value:+.2f}".replace("0.", "."), ha="center", va="center", fontsize=6.5, color=colour)
        axes.set_xticks(range(len(words)), words, rotation=30, ha="right", fontsize=7.5)
        axes.set_yticks(range(len(ids)), [_of(kind, text) for kind, text in ids], fontsize=7)
        for tick, (kind, _) in zip(axes.get_yticklabels(), ids, strict=True):
            tick.set_color(_KINDS[kind][1])
        axes.axvline(len(instruction.text.split()) - 0.5, color="black", linewidth=1)
        axes.set_title(label, fontsize=9, loc="left")
    figure.colorbar(figure.axes[0].images[0], ax=figure.axes, label="Δ of the cosine without the word", shrink=0.6)
    heading = textwrap.shorten(f"{instruction.text}: {claim}", 100, placeholder=" …")
    figure.suptitle(heading, fontsize=10, weight="bold")
    return figure


def median_query(table: Table) -> str | None:
    """The query whose hard negatives and right arguments are pushed apart by the median: neither the best nor the
    worst example. None where no query has both."""
    ids, query = np.unique(table["query_id"].astype(str), return_inverse=True)
    means = {}
    for kind in _KINDS:
        rows = (table["kind"] == kind) & ~np.isnan(table["di"])
        sums = np.bincount(query[rows], weights=table["di"][rows], minlength=len(ids))
        counts = np.bincount(query[rows], minlength=len(ids))
        means[kind] = np.divide(sums, counts, out=np.full(len(ids), np.nan), where=counts > 0)
    apart = means["hard"] - means["positive"]
    order = np.argsort(apart, kind="stable")[: int(np.isfinite(apart).sum())]  # NaN comes last
    return str(ids[order[(len(order) - 1) // 2]]) if len(order) else None


def _histogram(axes: Any, values: Any, reach: tuple[float, float], label: str, colour: str) -> None:
    """An outline above a light area: two of them can be read where they cross."""
    weights = np.full(len(values), 1 / max(1, len(values)))
    for style in ({"histtype": "stepfilled", "alpha": 0.25}, {"histtype": "step", "label": label}):
        axes.hist(values, bins=_BINS, range=reach, weights=weights, color=colour, **style)
    axes.spines[["top", "right"]].set_visible(False)


def _colours(tables: dict[str, Table]) -> list[str]:
    """A colour a model: the base's for the first of several, a model alone is a tuned one."""
    tuned = list(itertools.islice(itertools.cycle(_TUNED), len(tables)))
    return tuned if len(tables) == 1 else [_BASE, *tuned[:-1]]


def _right_first(table: Table, rows: Any) -> list[int]:
    """The query's rows, right arguments first, then by document: the same order for every model."""
    return sorted(map(int, rows), key=lambda i: (table["kind"][i] != "positive", table["argument_id"][i]))


def _of(kind: str, text: str) -> str:
    mark = "[POS]" if kind == "positive" else "[NEG]"
    return f"{mark} {textwrap.shorten(text, 60, placeholder=' …')}"
