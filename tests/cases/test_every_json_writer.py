"""Cases 28 and 32: whatever writes numbers for others to read writes strict JSON, or names what is none."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path
    for folder in ("dataset_builders", "hub_models", "spaces", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
)
# Hashes, requests and questions to a process of our own: no number in them comes from a measurement.
NO_NUMBERS = {
    "dataset_builders/markdown.py",
    "dataset_builders/readback.py",
    "dataset_builders/folder.py",
    "dataset_builders/oblique/asking.py",
    "dataset_builders/stance/inversions.py",
    "hub_models/encoder.py",
    "hub_models/evaluation/measured.py",
    "hub_models/evaluation/nanobeir.py",
    "hub_models/evaluation/oblique.py",
    "hub_models/evaluation/probe.py",
    "hub_models/evaluation/stance.py",
    "hub_models/evaluation/study.py",
    "hub_models/recipe.py",
    "hub_models/release.py",
    "hub_models/reload.py",
    "hub_models/retrieval/adaptive.py",
    "hub_models/retrieval/rerank_prompts.py",
    "hub_models/space.py",
    "hub_models/staging.py",
    "hub_models/verify.py",
    "hub_models/verify_process.py",
}


def lax(path: Path) -> list[int]:
    """Lines of calls of ``json.dump`` and ``json.dumps`` that let NaN pass."""
    calls = (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
    return [
        call.lineno
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in ("dump", "dumps")
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "json"
        and not any(k.arg == "allow_nan" for k in call.keywords)
    ]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_numbers_are_written_strictly(path: Path) -> None:
    name = path.relative_to(ROOT).as_posix()
    assert not lax(path) or name in NO_NUMBERS, f"{name}:{lax(path)}: json.dumps without allow_nan=False"


def test_the_list_holds_only_what_needs_it() -> None:
    assert {name for name in NO_NUMBERS if lax(ROOT / name)} == NO_NUMBERS
