"""Committed results can be read, and the tables of results/README.md are theirs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hub_models.evaluation.oblique_metrics import MAIN
from hub_models.evaluation.results import Results, read_per_query

FOLDER = Path(__file__).resolve().parents[2] / "results"
SAMPLE = FOLDER / "oblique-sample"
TASKS = ("twitter", "math", "writing", "congress", "wildchat")
ROWS = {
    "random": ("random", "random"),
    "BM25": ("bm25", "bm25"),
    "MiniLM, with the instruction": ("all-MiniLM-L6-v2", "dense"),
    "MiniLM, query alone": ("all-MiniLM-L6-v2", "claim_only"),
}


@pytest.mark.parametrize("path", sorted(SAMPLE.glob("*/results.json")), ids=lambda p: p.parent.name)
def test_committed_results_are_whole(path: Path) -> None:
    results = Results.read(path)
    assert results.tasks
    for task in results.tasks.values():
        for run in task.runs:
            assert read_per_query(path.parent, run.per_query).num_rows == task.counts["queries"]


def oblique_sample_table() -> list[str]:
    lines = [f"| NDCG@10 | {' | '.join(TASKS)} |", f"|---|{'---|' * len(TASKS)}"]
    for label, (model, strategy) in ROWS.items():
        results = Results.read(SAMPLE / model / "results.json")
        cells = []
        for task in TASKS:
            (run,) = [r for r in results.tasks[f"sample-obliq-{task}"].runs if r.strategy == strategy]
            interval = run.diagnostics["interval"]
            cells.append(f"{run.mean('overall', MAIN):.3f} [{interval['low']:.3f}, {interval['high']:.3f}]")
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines


def oblique_sample_first_documents() -> list[str]:
    lines = [f"| different first documents of queries | {' | '.join(TASKS)} |", f"|---|{'---|' * len(TASKS)}"]
    for label, (model, strategy) in ROWS.items():
        tasks = Results.read(SAMPLE / model / "results.json").tasks
        cells = []
        for task in TASKS:
            (run,) = [r for r in tasks[f"sample-obliq-{task}"].runs if r.strategy == strategy]
            cells.append(f"{run.diagnostics['top1_distinct']} of {tasks[f'sample-obliq-{task}'].counts['queries']}")
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines


def probe_table() -> list[str]:
    lines = ["| | argument | instruction | both |", "|---|---|---|---|"]
    for style in ("explicit", "natural"):
        for label, model in (("base", "all-MiniLM-L6-v2"), ("quickstart", "quickstart")):
            slices = json.loads((FOLDER / "probe-sample" / model / "probe.json").read_text())["slices"]
            shares = [slices[f"style={style}"][measure] for measure in ("argument", "instruction", "both")]
            cells = [f"{s['mean']:.3f} [{s['low']:.3f}, {s['high']:.3f}]" for s in shares]
            lines.append(f"| {label}, {style} | {' | '.join(cells)} |")
    return lines


@pytest.mark.parametrize("table", [probe_table, oblique_sample_table, oblique_sample_first_documents])
def test_the_tables_of_the_page_are_those_of_the_files(table) -> None:
    assert "\n".join(table()) in (FOLDER / "README.md").read_text()
