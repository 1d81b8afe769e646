"""What the stance paper printed, beside a study's numbers: S tables 2-25, cut at min(R, 10) as there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from hub_models.evaluation.published import StanceRow, stance_rows
from hub_models.evaluation.report_published import ABLATION, COLUMNS, searched_alike
from hub_models.evaluation.study_results import ZERO_SHOT, StudyResults, StudyRun, StudyTask
from hub_models.evaluation.study_text import spread_text, table

ORIENTATION = "tfu-heldout"
"""The corpus of S whose figures stand beside a set that S did not measure: as ours, claims of the training source."""


def beside_published(study: StudyResults, task: StudyTask, name: Callable[[StudyRun], str]) -> Iterator[str]:
    """Ours and S's: every line of the same base and corpus where S has it, else the overall ones for orientation.

    Args:
        study: Whose base is compared.
        task: One of its evaluation sets.
        name: A run's name as it is printed.
    """
    rows = stance_rows()
    same = [row for row in rows if (row.corpus, row.base) == (task.dataset, study.base)]
    found = same or [row for row in rows if (row.corpus, row.slice) == (ORIENTATION, "overall")]
    if not found:
        return  # an installed wheel has no published numbers
    tables = ", ".join(dict.fromkeys(row.table for row in found))
    if same:
        yield f"Beside S tables {tables}, cut at min(R, 10):"
    else:
        yield (
            "S did not measure this base on these claims. For orientation, S's own bases on S's held-out claims "
            f"(tables {tables}), cut at min(R, 10); other corpora, other sizes: compare the directions alone."
        )
    yield ""
    for columns in (COLUMNS, ABLATION):
        lines = list(_lines([row for row in found if set(row.cells) == set(columns)], task, columns, name))
        if lines:
            yield from table(["strategy", "stance", "of", *columns.values()], lines)
            yield ""
    words = {run.params.get("lexical") for run in task.runs if run.strategy == "hybrid"}
    if words and "s" not in words:
        yield "S's hybrid rows stand beside runs of `--lexical s` alone: those have S's own words and BM25."
        yield ""


def _lines(
    rows: Sequence[StanceRow], task: StudyTask, columns: Mapping[str, str], name: Callable[[StudyRun], str]
) -> Iterator[list[str]]:
    """Every dense run, and every other one that S has too, each followed by S's lines of it."""
    for run in task.runs:
        alike = [
            row
            for row in rows
            if (row.curriculum or ZERO_SHOT) == run.system and searched_alike(row, run.strategy, run.params)
        ]
        dense = run.strategy == "dense" and not run.params
        for slice_name in dict.fromkeys(row.slice for row in (rows if dense else alike)):
            ours = [run.value(slice_name, metric) for metric in columns]
            if None in ours:
                continue  # this set was not ablated
            yield [name(run), slice_name, "here", *map(spread_text, ours)]
            for row in alike:
                if row.slice == slice_name:
                    theirs = [f"{row.cells[metric].mean:.3f}" for metric in columns]
                    yield ["", "", f"S, {row.base.split('/')[-1]}", *theirs]
