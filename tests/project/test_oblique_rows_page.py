"""The tables of the page on training queries and approximate neighbours are those of their files."""

from __future__ import annotations

import json
from pathlib import Path

from dataset_builders import builds
from dataset_builders.oblique import query_quality

RESULTS = Path(__file__).parents[2] / "results"
PAGE = (RESULTS / "README.md").read_text(encoding="utf-8")


def test_the_overlap_table_is_that_of_the_report_and_of_a_build_today() -> None:
    report = json.loads((RESULTS / "oblique-queries" / "report.json").read_text())
    for cells in query_quality.table(report["overlap"]):
        assert f"| {' | '.join(cells)} |" in PAGE
    made = builds.prepare("sample-obliq-queries").report
    assert made is not None and json.loads(json.dumps(made.as_dict())) == report


def test_the_recall_table_is_that_of_its_file() -> None:
    for row in json.loads((RESULTS / "neighbours" / "results.json").read_text()):
        cells = f"{row['vectors']:,}", f"{row['spread']:g}", f"{row['recall_at_10']:.4f}", f"{row['seconds']:.0f}"
        assert f"| {' | '.join(cells)} |" in PAGE
        assert row["spread"] > 1 or row["recall_at_10"] >= 0.95
