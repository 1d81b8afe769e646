"""The README says what is so."""

from __future__ import annotations

import re
from pathlib import Path

from hub_models.evaluation.report import table
from hub_models.evaluation.results import Results

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
QUICKSTART = ROOT / "results" / "quickstart"


def test_the_table_is_that_of_the_results_file() -> None:
    results, base = (Results.read(QUICKSTART / f) for f in ("results.json", "baseline/results.json"))
    assert table(results, "sample-stance", base).strip("\n") in README


def test_the_first_numbers_are_those_of_the_results_file() -> None:
    run = Results.read(QUICKSTART / "results.json").tasks["sample-stance"].run("dense")
    assert run is not None
    delta = {c.slice: c for c in run.compare if c.metric == "precision_at_r"}["style=explicit"]
    mean = run.slices["style=explicit"]["precision_at_r"].mean
    assert mean is not None and delta.low is not None and delta.high is not None
    said = (
        f"from {mean - delta.delta:.3f} to {mean:.3f} (difference +{delta.delta:.3f}, "
        f"95 % interval by claim {delta.low:.3f} to {delta.high:.3f}"
    )
    assert said in " ".join(README.split())


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert len(targets) > 10 and [t for t in targets if not (ROOT / t).exists()] == []
