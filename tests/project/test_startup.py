"""What starts fast: no command loads a model library, or the data sets library, to show its help."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.startup import commands

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "transformers", "sentence_transformers", "datasets", "mteb", "sklearn", "faiss")

# One process for all: each command's module is run as `python` runs it, and what that has loaded is asked each time.
ASK = """
import json, runpy, sys
heavy, commands = json.loads(sys.stdin.read())
found = {}
for command in commands:
    name, *rest = command[1:] if command[0] == "-m" else command
    sys.argv = [name, *rest, "--help"]
    try:
        if name.endswith(".py"):
            runpy.run_path(name, run_name="__main__")
        else:
            runpy.run_module(name, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        found[" ".join(command)] = [end.code or 0, [module for module in heavy if module in sys.modules]]
print("\\n" + json.dumps(found))
"""


def loaded(statement: str) -> list[str]:
    code = f"{statement}\nimport sys\nprint(' '.join(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_no_help_loads_a_model_library() -> None:
    asked = json.dumps([HEAVY, commands()])
    done = subprocess.run(
        [sys.executable, "-c", ASK], cwd=ROOT, input=asked, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert {"train.py", "-m hub_models", "-m hub_models study", "-m hub_models study stance"} <= set(found)
    assert found == {" ".join(command): [0, []] for command in commands()}


@pytest.mark.parametrize("package", ["hub_models", "dataset_builders"])
def test_importing_a_package_loads_none_of_them(package: str) -> None:
    assert loaded(f"import {package}") == []
    assert loaded("import torch") == ["torch"]  # the question is one that can be answered otherwise
