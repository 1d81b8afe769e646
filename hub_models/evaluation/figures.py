"""A task's figures: what the top R is made of (stance paper, figure 3), and one claim's top five (figure 1).

Drawn from results and data alone. The same numbers give the same bytes: no date, no version, a fixed hash salt.
"""

from __future__ import annotations

import io
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dataset_builders.atomic import write_bytes
from hub_models.evaluation import stance
from hub_models.evaluation.ablation_results import read_ablation
from hub_models.evaluation.figure_cost import cost_quality
from hub_models.evaluation.figures_ablation import direction, heatmap, median_query, sensitivity
from hub_models.evaluation.figures_oblique import gain_by_rank
from hub_models.evaluation.measured import OWN, Table
from hub_models.evaluation.metrics import COMPOSITION, STANCE_BIT, document_kinds
from hub_models.evaluation.oblique import ObliqueJudgements
from hub_models.evaluation.probe import Probe, picture
from hub_models.evaluation.results import Results, TaskResult
from hub_models.evaluation.run import Evaluation, read_table
from hub_models.evaluation.systems import REFERENCES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AGAINST_A_BASELINE = ("top5", "gain")
KINDS = (
    "composition",
    "cost",
    *AGAINST_A_BASELINE,
    *(f"ablation-{n}" for n in ("sensitivity", "direction", "heatmap")),
)
"""Of a figure: its name is that of the task, and one of these."""
EXAMPLE_INSTRUCTION = "attack-unseen-04"
"""'Find statements rejecting', the paper's own example."""

COLOURS = {"precision": "#3a9b5c", "hard": "#c8443a", "semi_hard": "#c9c9c9", "easy": "#7d7d7d"}
_INK = {"semi_hard": "#8a8a8a"}  # light grey does for an area, not for letters
NAMES = {
    "precision": "right",
    "hard": "hard: wrong stance",
    "semi_hard": "semi-hard: wrong claim",
    "easy": "easy: wrong both",
}
STYLE: dict[str, Any] = {
    "svg.hashsalt": "slant",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "svg.fonttype": "path",
    "text.parse_math": False,  # names, claims and arguments come from outside
}
_TOP = 5


def draw(evaluation: Evaluation, task_name: str) -> list[Path]:
    """Draw a task's figures as PNG and SVG into ``figures/`` beside the results.

    Returns:
        The PNG files: of a stance task the composition, and the example where there is a baseline to set it beside,
        and those of a word ablation; of an oblique task the gain over the baseline by rank, where there is one, and
        what its rerankers cost, where there are some. Figures of earlier numbers, and of tasks that the results do not
        hold, are removed.
    """
    import matplotlib

    with matplotlib.rc_context(STYLE):
        drawn: dict[str, Figure | None] = {}
        if isinstance(evaluation.judged[task_name], stance.Judgements):
            drawn["composition"] = composition(evaluation, task_name)
            drawn["top5"] = top_five(evaluation, task_name) if evaluation.baseline else None
            drawn |= _ablation(evaluation, task_name)
        elif isinstance(evaluation.judged[task_name], ObliqueJudgements):
            if evaluation.baseline:
                drawn["gain"] = gain_by_rank(evaluation.results, task_name, evaluation.baseline)
            drawn["cost"] = cost_quality(evaluation.results.tasks[task_name], task_name)
        paths = [
            save(figure, evaluation.folder / "figures", _stem(task_name, name))
            for name, figure in drawn.items()
            if figure is not None
        ]
    _remove_stale(evaluation.results, evaluation.folder / "figures", task_name, {path.stem for path in paths})
    return paths


def _remove_stale(results: Results, folder: Path, task_name: str, drawn: set[str]) -> None:
    """Remove what shows numbers that the results no longer hold: cards take every figure that lies here."""
    kept = {_stem(name, kind) for name in results.tasks if name != task_name for kind in KINDS} | drawn
    if any(c.baseline != OWN for run in results.tasks[task_name].runs for c in run.compare):
        kept |= {_stem(task_name, kind) for kind in AGAINST_A_BASELINE}
    for path in folder.glob("*.png"):
        ours = path.stem.endswith(tuple(f"-{kind}" for kind in KINDS)) and path.with_suffix(".svg").exists()
        if ours and path.stem not in kept:
            path.unlink()
            path.with_suffix(".svg").unlink()


def _ablation(evaluation: Evaluation, task_name: str) -> dict[str, Figure]:
    """The figures of a word ablation, beside the baseline's if that has one too."""
    judged, run = evaluation.judged[task_name], evaluation.results.tasks[task_name].run("dense")
    own = read_ablation(evaluation.folder, run) if run else None
    if own is None or not isinstance(judged, stance.Judgements):
        return {}
    tables: dict[str, Table] = {}
    if evaluation.baseline and evaluation.baseline_folder:
        of_base = evaluation.baseline.tasks[task_name].run("dense")
        base = read_ablation(evaluation.baseline_folder, of_base) if of_base else None
        tables |= {} if base is None else {"base": base}
    tables[_label(evaluation)] = own
    title = _title(evaluation, task_name)
    example = median_query(own)
    drawn = {"ablation-sensitivity": sensitivity(tables, title), "ablation-direction": direction(tables, title)}
    return drawn | ({"ablation-heatmap": heatmap(judged, tables, example)} if example else {})


def draw_probe(found: Probe, folder: Path) -> Path:
    """Draw a probe's picture into its folder, as PNG and SVG."""
    import matplotlib

    with matplotlib.rc_context(STYLE):
        return save(picture(found), folder, "probe")


def composition(evaluation: Evaluation, task_name: str) -> Figure:
    """Stacked bars: the shares of right, hard, semi-hard and easy documents at R, for each slice and model."""
    from matplotlib.figure import Figure

    systems = [(_base_label(evaluation), evaluation.baseline)] if evaluation.baseline else []
    systems += [(_label(evaluation), evaluation.results)]
    runs = [(label, results.tasks[task_name].runs[0]) for label, results in systems]
    slices = [name for name in runs[-1][1].slices if name in runs[0][1].slices]
    figure = Figure(figsize=(1.6 + 1.25 * len(slices) * len(runs) / 2 + 1.2, 3.6), layout="constrained")
    axes = figure.add_subplot()
    ticks, labels = [], []
    for group, slice_name in enumerate(slices):
        for i, (label, run) in enumerate(runs):
            x, bottom = group * (len(runs) + 0.6) + i, 0.0
            ticks.append(x)
            labels.append(label)
            for kind in COMPOSITION:
                share = run.mean(slice_name, f"{kind}_at_r") or 0.0
                axes.bar(x, share, 0.86, bottom, color=COLOURS[kind], label=NAMES[kind] if not x else None)
                if share >= 0.06:
                    colour = "black" if kind == "semi_hard" else "white"
                    axes.text(
                        x, bottom + share / 2, f"{share:.2f}", ha="center", va="center", color=colour, fontsize=8
                    )
                bottom += share
        middle = group * (len(runs) + 0.6) + (len(runs) - 1) / 2
        axes.text(
            middle, 1.02, slice_name.replace("style=", "").replace("instructions=", ""), ha="center", va="bottom"
        )
    axes.set_xticks(ticks, labels)
    axes.set_ylim(0, 1)
    axes.set_ylabel("share of the top R")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="x", length=0)
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(_title(evaluation, task_name), fontsize=9)
    return figure


def top_five(evaluation: Evaluation, task_name: str) -> Figure | None:
    """What base and tuned model find first for one claim to reject: the one whose P@R changes by the median.

    Returns:
        The figure, or None if no claim can be asked about with that instruction.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyBboxPatch

    assert evaluation.baseline is not None and evaluation.baseline_folder is not None
    judged = evaluation.judged[task_name]
    assert isinstance(judged, stance.Judgements)
    tuned = _first(evaluation.folder, evaluation.results.tasks[task_name])
    base = _first(evaluation.baseline_folder, evaluation.baseline.tasks[task_name])
    claim_id = _median_claim(base, tuned)
    if claim_id is None:
        return None
    row = next(i for i, c in enumerate(judged.claims) if c.claim_id == claim_id)
    kinds = document_kinds(judged.labels[row], judged.anywhere, np.uint8(STANCE_BIT["attack"]))
    kind_of = {d.argument_id: COMPOSITION[k] for d, k in zip(judged.documents, kinds, strict=True)}
    text_of = {d.argument_id: d.text for d in judged.documents}

    figure = Figure(figsize=(10, 5.2))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    heading = textwrap.shorten(f"Find statements rejecting: {judged.claims[row].claim}", 110, placeholder=" …")
    axes.text(0.5, 0.965, heading, ha="center", va="top", fontsize=11, weight="bold")
    for x, label, found in ((0.015, _base_label(evaluation), base), (0.51, _label(evaluation), tuned)):
        axes.text(x, 0.895, label, va="top", fontsize=10, weight="bold")
        for place, argument_id in enumerate(_top_of(found, claim_id)):
            y, colour = 0.71 - place * 0.152, COLOURS[kind_of[argument_id]]
            box = FancyBboxPatch(
                (x, y), 0.475, 0.125, boxstyle="round,pad=0,rounding_size=0.01", fc="white", ec=colour
            )
            box.set_linewidth(2)
            axes.add_patch(box)
            name, shade = NAMES[kind_of[argument_id]], _INK.get(kind_of[argument_id], colour)
            axes.text(x + 0.01, y + 0.117, name, va="top", fontsize=7, color=shade, weight="bold")
            lines = textwrap.wrap(text_of[argument_id], 72, max_lines=3, placeholder=" …")
            axes.text(x + 0.01, y + 0.09, "\n".join(lines), va="top", fontsize=8)
    note = "The claim whose P@R changes by the median over claims; " + _title(evaluation, task_name)
    axes.text(0.5, 0.02, note, ha="center", fontsize=7, color="#555555")
    return figure


def _median_claim(base: Table, tuned: Table) -> str | None:
    before, after = _asked(base), _asked(tuned)
    changes = sorted(
        (after[c]["precision_at_r"] - before[c]["precision_at_r"], c) for c in after.keys() & before.keys()
    )
    return changes[(len(changes) - 1) // 2][1] if changes else None


def _top_of(table: Table, claim_id: str) -> list[str]:
    return list(_asked(table)[claim_id]["top"])[:_TOP]


def _asked(table: Table) -> dict[str, dict[str, Any]]:
    """The rows of the example's instruction over all candidates, by claim."""
    rows = np.flatnonzero((table["candidates"] == stance.ALL) & (table["instruction_id"] == EXAMPLE_INSTRUCTION))
    return {table["claim_id"][i]: {name: table[name][i] for name in ("precision_at_r", "top")} for i in rows}


def _first(folder: Path, task: TaskResult) -> Table:
    """The per-query values of a task's first run: dense, and of BM25 or chance their only one."""
    return read_table(folder, task, task.runs[0].strategy, task.runs[0].params)


def _base_label(evaluation: Evaluation) -> str:
    name = evaluation.baseline.model.id if evaluation.baseline else ""
    return name if name in REFERENCES else "base"


def _label(evaluation: Evaluation) -> str:
    return "tuned" if evaluation.results.model.adapter_sha256 else "model"


def _title(evaluation: Evaluation, task_name: str) -> str:
    counts = evaluation.results.tasks[task_name].counts
    return f"{task_name}: {counts['claims']} claims, unseen instructions, corpus of {counts['documents']} arguments"


def _stem(task_name: str, name: str) -> str:
    return f"{task_name.replace(':', '-')}-{name}"


def save(figure: Figure, folder: Path, stem: str) -> Path:
    """Write ``stem.svg`` and ``stem.png``, the same bytes for the same figure, and return the path of the latter."""
    folder.mkdir(parents=True, exist_ok=True)
    for suffix, metadata in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=suffix, dpi=160, metadata=metadata)
        write_bytes(folder / f"{stem}.{suffix}", buffer.getvalue())
    return folder / f"{stem}.png"
