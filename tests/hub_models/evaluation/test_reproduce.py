"""The page on reproducing the published numbers, and our numbers set beside them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hub_models.evaluation.published import FOLDER, stance_rows
from hub_models.evaluation.report_published import beside_published, curriculum_of
from hub_models.evaluation.reproduce import page
from hub_models.evaluation.results import Metric, ModelInfo, PerQuery, Results, RunResult, Strategy, TaskResult
from tests.run_folders import DATA, manifest

PAGE = FOLDER / "REPRODUCE.md"
ROOT = PAGE.parents[2]


def test_the_page_is_what_the_numbers_give() -> None:
    assert page() == PAGE.read_text(encoding="utf-8"), "write it anew with `python -m hub_models reproduce`"


def test_every_published_line_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    tables = {n: part.splitlines() for n, part in re.findall(r"^## Table (\d+): (.+?)(?=^## |\Z)", text, re.M | re.S)}
    for row in stance_rows():
        ablated = "ris" in row.cells
        (line,) = [
            found for found in tables[row.table]
            if found.startswith(f"| {row.base.split('/')[-1]} | {row.system} |" if ablated else f"| {row.system} |")
        ]  # fmt: skip
        cells = line.split(" | ")[3 if ablated else 2 :]
        place = 0 if ablated else ("attack", "support", "overall").index(row.slice)
        assert [float(cell.split(" / ")[place]) for cell in cells[: len(row.cells)]] == [
            cell.mean for cell in row.cells.values()
        ]
        trained = f"-{row.curriculum}`" if row.curriculum else f"`{row.base}`"
        assert trained in line
        small = row.corpus == "argtumour"
        assert line.endswith(f"| {0.005 if row.curriculum is None else 0.06 if small else 0.03} |")


def test_the_flags_of_the_page_exist() -> None:
    text = PAGE.read_text(encoding="utf-8")
    lines = re.findall(r"`python evaluate.py (.+?)`", text) + re.findall(r"hybrid rows with `(.+?)`", text)
    flags = {flag for line in lines for flag in re.findall(r"--[a-z-]+", line)}
    assert {"--compare", "--data", "--hybrid", "--lexical", "--ablation"} <= flags
    done = subprocess.run(
        [sys.executable, "evaluate.py", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert [flag for flag in flags if flag not in done.stdout] == []


@pytest.mark.parametrize(
    ("name", "curriculum"),
    [
        ("as9122/qwen3-8b-embedding-stance-mixed", "mixed"),
        ("as9122/bge-large-stance-mixed-aug", "mixed_aug"),
        ("org/stance-bge-large-homogeneous-lora", "homogeneous"),
        ("org/stance-bge-large-lora", "mixed_aug"),
        ("org/stance-bge-large-mixed-merged", "mixed"),
        ("BAAI/bge-large-en-v1.5", None),
    ],
)
def test_a_name_says_what_a_model_was_trained_on(name: str, curriculum: str | None) -> None:
    assert curriculum_of(name) == curriculum


def measured(model: ModelInfo, dataset: str = "argtumour") -> Results:
    """P@R of .7 and nothing wrong in stance, dense, and a hybrid run of λ .2 with S's tokenizer."""
    cells = {"ndcg_at_10": 0.8, "precision_at_r_cap10": 0.7, "hard_at_r_cap10": 0.0, "semi_hard_at_r_cap10": 0.3,
             "easy_at_r_cap10": 0.0}  # fmt: skip
    slices = {
        s: {m: Metric(mean=v, std=0.1, n=70) for m, v in cells.items()} for s in ("overall", "support", "attack")
    }
    searches: list[tuple[Strategy, dict[str, Any]]] = [("dense", {}), ("hybrid", {"weight": 0.2, "lexical": "s"})]
    runs = [
        RunResult(strategy=strategy, params=params, seed=None, slices=slices, compare=[], diagnostics={},
                  per_query=PerQuery(path="p", sha256="0" * 64), timing={})
        for strategy, params in searches
    ]  # fmt: skip
    task = TaskResult(dataset=dataset, revision="0" * 64, query_template="{claim}", counts={}, runs=runs)
    return Results(model=model, environment={}, tasks={f"{dataset}-stance": task})


def test_a_run_stands_beside_its_published_rows(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    manifest(data=[DATA | {"config": "mixed_aug"}]).write(run)
    base = "Qwen/Qwen3-Embedding-8B"
    info = ModelInfo(id="run", revision=None, base=base, base_revision=None, adapter_sha256="0" * 64)
    text = beside_published(measured(info), "argtumour-stance", curriculum_of(str(run)))
    lines = [line.split() for line in text.splitlines()]
    assert text.startswith("published · argtumour-stance · S tables 13, 23, cut at min(R, 10)")
    at = next(i for i, line in enumerate(lines) if line[:5] == ["Mixed", "+", "Aug", "·", "overall"])
    assert lines[at][-5:] == ["0.795", "0.690", "0.033", "0.278", "0.000"]  # table 13
    assert lines[at + 1][1:] == ["0.800", "0.700", "0.000", "0.300", "0.000"]
    assert lines[at + 2][1:] == ["+0.005", "+0.010", "-0.033", "+0.022", "+0.000"]
    assert "Hybrid λ=0.20 · overall" in text and "λ=0.10" not in text  # which was not measured
    assert "RIS" not in text.split("Hybrid")[1]  # nor were words deleted


def test_a_base_stands_beside_zero_shot_and_others_beside_nothing() -> None:
    base = ModelInfo(id="hkunlp/instructor-xl", revision=None, base=None, base_revision=None, adapter_sha256=None)
    text = beside_published(measured(base), "argtumour-stance", None)
    assert "Zero-Shot · attack" in text and "Mixed" not in text
    text = beside_published(measured(base, "sample"), "sample-stance", None)
    assert "nothing of hkunlp/instructor-xl, trained on nothing, on sample; S measured 18 pairs" in text
