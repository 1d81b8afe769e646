"""The committed reports of the stance study are those of its results, and so are the figures of the pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hub_models.evaluation.study_report import report
from hub_models.evaluation.study_results import ZERO_SHOT, StudyResults
from hub_models.evaluation.study_text import difference_text

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
PAGES = {
    name: " ".join((ROOT / name).read_text(encoding="utf-8").split()) for name in ("README.md", "results/README.md")
}
FOLDERS = ("study-minilm", "study-minilm-300")


def read(name: str) -> StudyResults:
    return StudyResults.read(RESULTS / name / "results.json")


def said(study: StudyResults, system: str, metric: str, cut: str = "overall") -> str:
    run = study.tasks["sample-stance"].dense(system)
    assert run is not None
    value = run.slices[cut][metric]
    return f"{value.mean:.3f}" if value.spread is None else f"{value.mean:.3f} ± {value.spread:.3f}"


@pytest.mark.parametrize("name", FOLDERS)
def test_the_report_is_that_of_the_results(name: str) -> None:
    page = (RESULTS / name / "report.md").read_text(encoding="utf-8")
    figures = [line.split("](")[1].rstrip(")") for line in page.splitlines() if line.startswith("![")]
    assert len(figures) == 6 and all((RESULTS / name / figure).is_file() for figure in figures)
    assert report(read(name), figures) == page


def test_the_pages_say_what_the_studies_say() -> None:
    study, short = (read(name) for name in FOLDERS)
    metrics = ("precision_at_r", "hard_at_r", "semi_hard_at_r")
    for system in study.systems:
        row = " | ".join(said(study, system, m) for m in metrics)
        styles = " | ".join(
            said(study, system, "precision_at_r", f"style={style}") for style in ("explicit", "natural")
        )
        assert f"| {row} | {styles} |" in PAGES["README.md"], system
    for system in short.systems:
        if system != ZERO_SHOT:
            cell = said(short, system, "precision_at_r", "style=explicit")
            run = short.tasks["sample-stance"].dense(system).slices["style=explicit"]["precision_at_r"]
            seeds = ", ".join(f"{seed:.3f}" for seed in run.seeds)
            assert f"| {system} | {cell} | {seeds} |" in PAGES["results/README.md"], (system, cell)
    tuned = said(study, "mixed_aug", "precision_at_r", "style=explicit")
    assert f"over three seeds {tuned}" in PAGES["README.md"]


@pytest.mark.parametrize(
    ("system", "against", "cut", "metric", "name"),
    [
        ("homogeneous", ZERO_SHOT, "overall", "semi_hard_at_r", "semi-hard"),
        ("mixed", "homogeneous", "overall", "semi_hard_at_r", "semi-hard"),
        ("mixed", "homogeneous", "overall", "hard_at_r", "hard"),
        ("mixed_aug", "mixed", "overall", "hard_at_r", "hard"),
        ("mixed_aug", "homogeneous", "overall", "semi_hard_at_r", "semi-hard"),
        ("mixed_aug", "homogeneous", "overall", "hard_at_r", "hard"),
        ("mixed_aug", "mixed", "style=explicit", "precision_at_r", "P@R, explicit"),
        ("homogeneous", ZERO_SHOT, "style=natural", "hard_at_r", "hard"),
        ("homogeneous", ZERO_SHOT, "style=natural", "semi_hard_at_r", "semi-hard"),
    ],
)
def test_the_readme_says_what_a_curriculum_changes(
    system: str, against: str, cut: str, metric: str, name: str
) -> None:
    found = read("study-minilm").tasks["sample-stance"].pair(system, against).difference(cut, metric)
    assert found.excludes_zero and f"{name} {difference_text(found)}" in PAGES["README.md"]


def test_the_page_on_curricula_says_what_the_dials_showed() -> None:
    page = (RESULTS / "curriculum" / "README.md").read_text(encoding="utf-8")
    found = json.loads((RESULTS / "curriculum" / "dials.json").read_text(encoding="utf-8"))
    metrics = ("precision_at_r", "hard_at_r", "semi_hard_at_r")
    assert found["split"] == "validation" and len(found["rows"]) == 60
    printed = 0
    for row in found["rows"]:
        plain = (row["system"], row["adapter_scale"], row["anchor"]) == ("mixed_aug", 1, 0)
        assert all(len(row[m]["seeds"]) == 3 for m in metrics)
        assert not all(row[m]["against"][0] < 0 for m in metrics[1:])  # both errors lower
        means = " | ".join(f"{row[m]['mean']:.3f}" for m in metrics)
        differences = " | ".join(
            "" if plain else "{:+.3f} [{:+.3f}, {:+.3f}]".format(*row[m]["against"]) for m in metrics
        )
        line = f"| `{row['system']}` | {row['adapter_scale']:g} | {row['anchor']:g} | {means} | {differences} |"
        printed += line in page
    assert printed == 12
