"""Cases 28 and 32: whatever writes numbers for others to read writes strict JSON, or names what is none."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path
    for place in ("train.py", "evaluate.py", "dataset_builders", "hub_models", "spaces", "benchmarks")
    for path in ([ROOT / place] if place.endswith(".py") else (ROOT / place).rglob("*.py"))
)
# Hashes, requests and questions to a process of our own: no number in them comes from a measurement.
NO_NUMBERS = {
    "dataset_builders/markdown.py",
    "dataset_builders/readback.py",
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
    """Lines of calls that let NaN pass: of ``json.dump`` and ``json.dumps`` without ``allow_nan=False``, and of
    pydantic's ``model_dump_json``, which makes a null of it in silence."""
    calls = (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if isinstance(call.func, ast.Attribute) and _is_lax(call, call.func)]


def _is_lax(call: ast.Call, called: ast.Attribute) -> bool:
    if called.attr == "model_dump_json":
        return True
    is_json = called.attr in ("dump", "dumps") and isinstance(called.value, ast.Name) and called.value.id == "json"
    given = [k.value for k in call.keywords if k.arg == "allow_nan"]
    return is_json and not any(isinstance(value, ast.Constant) and value.value is False for value in given)


@pytest.mark.parametrize(
    ("call", "is_lax"),
    [
        ("json.dumps(x, allow_nan=False)", False),
        ("json.dumps(x)", True),
        ("json.dump(x, file, allow_nan=True)", True),
        ("json.dumps(x, allow_nan=strict)", True),
        ("x.model_dump_json()", True),
        ("yaml.dump(x)", False),
    ],
)
def test_what_lets_nan_pass_is_found(call: str, is_lax: bool, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(call)
    assert lax(tmp_path / "a.py") == [1] * is_lax


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_numbers_are_written_strictly(path: Path) -> None:
    name = path.relative_to(ROOT).as_posix()
    assert not lax(path) or name in NO_NUMBERS, f"{name}:{lax(path)}: json.dumps without allow_nan=False"


def test_the_list_holds_only_what_needs_it() -> None:
    assert {name for name in NO_NUMBERS if lax(ROOT / name)} == NO_NUMBERS
