"""The table of cases names tests that exist, and the inputs that lie beside it are used."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS / "cases" / "README.md").read_text(encoding="utf-8")
ROWS = {row[0]: row[3] for row in re.findall(r"^\| (\w+) \| (.+?) \| (.+?) \| (`.+`) \|$", PAGE, re.MULTILINE)}


@cache
def names_in(file: str) -> frozenset[str]:
    """The names of the test functions of a file below ``tests/``."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return frozenset(n.name for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_"))


def test_every_case_has_a_row() -> None:
    assert list(ROWS) == [*map(str, range(1, 33)), "files", "descriptions", "surroundings"]


@pytest.mark.parametrize("case", ROWS)
def test_the_tests_of_a_case_exist(case: str) -> None:
    named = re.findall(r"`([\w/.]+)::(\w+)`", ROWS[case])
    assert named
    missing = [f"{file}::{name}" for file, name in named if not (TESTS / file).is_file() or name not in names_in(file)]
    assert not missing


def test_every_input_is_used() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    inputs = [path.name for path in (TESTS / "cases").iterdir() if path.name.startswith("case")]
    assert inputs and [name for name in inputs if name not in code] == []
