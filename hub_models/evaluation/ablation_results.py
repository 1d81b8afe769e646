"""A word ablation in a results file: four metrics in the dense run's slices, and its table beside the file."""

from __future__ import annotations

import time
from pathlib import Path

from hub_models.evaluation.ablation import ablate
from hub_models.evaluation.measured import Encode, Table
from hub_models.evaluation.results import PerQuery, RunResult, read_per_query, write_per_query
from hub_models.evaluation.stance import Judgements

KEY = "ablation"
"""Where a run's diagnostics say how many texts were encoded, what was skipped, and where the table lies."""


def add_ablation(folder: Path, stem: str, run: RunResult, judged: Judgements, encode: Encode, template: str) -> None:
    """Measure it, write its table to ``folder/per_query/stem.parquet``, and put its metrics into the run."""
    start = time.perf_counter()
    found = ablate(judged, encode, template)
    for slice_name in found.slices():
        run.slices[slice_name] |= found.metrics(slice_name)
    kept = write_per_query(folder, stem, found.table)
    run.diagnostics[KEY] = {"texts": found.texts, "skipped": dict(found.skipped), "per_query": kept.model_dump()}
    run.timing["ablation_s"] = time.perf_counter() - start


def read_ablation(folder: Path, run: RunResult) -> Table | None:
    """The table of a run's word ablation (`Ablation.table`), or None where there was none.

    Raises:
        FileNotFoundError: If the results speak of one that is not there.
        ValueError: If it is another one.
    """
    if KEY not in run.diagnostics:
        return None
    table = read_per_query(folder, PerQuery(**run.diagnostics[KEY]["per_query"]))
    return {name: column.to_numpy() for name, column in zip(table.column_names, table.columns, strict=True)}
