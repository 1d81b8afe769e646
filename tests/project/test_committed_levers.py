"""The committed runs with levers can be read, and the tables of results/README.md are theirs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hub_models.evaluation.results import Results, RunResult, TaskResult, read_per_query

FOLDER = Path(__file__).resolve().parents[2] / "results"
LEVERS = {
    "anchor 0.2": ("dense", {"anchor": 0.2}),
    "anchor 0.5": ("dense", {"anchor": 0.5}),
    "adapter scale 0.6": ("dense", {"adapter_scale": 0.6}),
    "BM25 at 0.1": ("hybrid", {"weight": 0.1, "lexical": "slant"}),
    "BM25 at 0.15": ("hybrid", {"weight": 0.15, "lexical": "slant"}),
    "BM25 at 0.2": ("hybrid", {"weight": 0.2, "lexical": "slant"}),
    "BM25 at 0.15 and anchor 0.2": ("hybrid", {"weight": 0.15, "lexical": "slant", "anchor": 0.2}),
    "BM25, auto": ("hybrid", {"weight": "auto", "lexical": "slant"}),
}
COLUMNS = {
    "sample, explicit": ("quickstart-on-sample", "style=explicit"),
    "sample, natural": ("quickstart-on-sample", "style=natural"),
    "Perspectrum dev": ("perspectrum-homogeneous-on-dev", "overall"),
}


def run_of(task: TaskResult, strategy: str, params: dict[str, Any]) -> RunResult | None:
    """The run with these settings; the digest of a λ model is none of them."""
    found = [r for r in task.runs if r.strategy == strategy]
    return next((r for r in found if {k: v for k, v in r.params.items() if k != "lambda_model"} == params), None)


def levers_task(folder: str) -> TaskResult:
    (task,) = Results.read(FOLDER / "levers" / folder / "results.json").tasks.values()
    return task


def levers_table(metric: str = "precision_at_r", name: str = "P@R") -> list[str]:
    lines = [f"| {name} | {' | '.join(COLUMNS)} |", f"|---|{'---|' * len(COLUMNS)}"]
    rows = {"as trained": ("dense", {})} | LEVERS
    for label, (strategy, params) in rows.items():
        cells = []
        for folder, slice_name in COLUMNS.values():
            run = run_of(levers_task(folder), strategy, params)
            own = [c for c in run.compare if (c.slice, c.metric) == (slice_name, metric)] if run else []
            interval = "".join(f" ({c.delta:+.3f} [{c.low:+.3f}, {c.high:+.3f}])" for c in own)
            cells.append(f"{run.mean(slice_name, metric):.3f}{interval}" if run else "")
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines


def levers_ceiling() -> list[str]:
    oracle = "stance_oracle_precision_at_r"
    cells = [f"{levers_task(f).run('dense', {}).mean(s, oracle):.3f}" for f, s in COLUMNS.values()]
    return [*levers_table(), f"| stance oracle | {' | '.join(cells)} |"]


def levers_errors() -> list[str]:
    hard, semi_hard = levers_table("hard_at_r", "hard"), levers_table("semi_hard_at_r", "semi-hard")
    return [*hard, "", *semi_hard]


def lambda_table() -> list[str]:
    rows = json.loads((FOLDER / "levers" / "lambda-by-query.json").read_text(encoding="utf-8"))
    lines = ["| P@R | best fixed λ | auto | by query | oracle |", "|---|---|---|---|---|"]
    for gated, free in zip(rows[::2], rows[1::2], strict=True):
        assert (gated["choice"], free["choice"], gated["fixed"]) == ("auto", "by query", free["fixed"])
        cells = [f"{gated['fixed']:.3f} at {gated['fixed_weight']:g}"]
        for row in (gated, free):
            found = row["auto_minus_fixed"]
            cells.append(f"{row['auto']:.3f} ({found['delta']:+.3f} [{found['low']:+.3f}, {found['high']:+.3f}])")
        name = gated["model"].rpartition("/")[2]
        lines.append(f"| {name}, {gated['on']} | {' | '.join(cells)} | {gated['oracle']:.3f} |")
    return lines


@pytest.mark.parametrize("path", sorted(FOLDER.glob("levers/*/results.json")), ids=lambda p: p.parent.name)
def test_committed_runs_beside_the_dense_one_are_whole(path: Path) -> None:
    (task,) = Results.read(path).tasks.values()
    assert len(task.runs) > 5
    for run in task.runs:
        assert read_per_query(path.parent, run.per_query).num_rows


@pytest.mark.parametrize("table", [levers_ceiling, levers_errors, lambda_table])
def test_the_tables_of_the_page_are_those_of_the_files(table) -> None:
    assert "\n".join(table()) in (FOLDER / "README.md").read_text()


def test_the_choice_by_query_did_what_the_page_says() -> None:
    found = run_of(levers_task("quickstart-on-sample"), *LEVERS["BM25, auto"]).diagnostics["lambda"]
    page = " ".join((FOLDER / "README.md").read_text().split())
    assert f"would gain {100 * (found['oracle'] - found['fixed']):.1f} points of P@R over the best fixed λ" in page
    assert found["fixed_weight"] == found["auto_minus_fixed"]["delta"] == 0
    assert "For the quickstart both are 0" in page
