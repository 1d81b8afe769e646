"""The files around the code: dependencies that resolve, one command that decides, a citation that parses."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def direct(*extras: str) -> list[Requirement]:
    texts = PROJECT["dependencies"] + [text for extra in extras for text in EXTRAS[extra]]
    return [r for r in map(Requirement, texts) if r.name != "slant"]


def pins() -> dict[str, Version]:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    split = [line.split("==") for line in lines]
    return {canonicalize_name(name): Version(version) for name, version in split}


@pytest.fixture(scope="module")
def lowest() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lowest", ROOT / ".github" / "lowest.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_direct_dependency_is_pinned_within_its_bounds() -> None:
    pinned = pins()
    for requirement in direct("sample-model", "dev"):
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), requirement


def test_the_pair_that_breaks_without_a_pin_is_pinned() -> None:
    pinned = pins()
    assert (pinned["transformers"], pinned["peft"]) == (Version("5.23.0"), Version("0.21.2"))
    assert not next(r for r in direct() if r.name == "transformers").specifier.contains("5.24.0")


def test_constraints_resolve_anywhere() -> None:
    text = (ROOT / "constraints.txt").read_text()
    assert "torch==2.13.0\n" in text, "without +cpu, or no other platform has it"
    assert "file:" not in text and "slant" not in pins()
    assert not [name for name in pins() if name.startswith(("nvidia-", "triton"))]


def test_each_floor_becomes_a_pin(lowest: ModuleType) -> None:
    text = """
[project]
dependencies = ["a>=1.2,<2", "b-c>=3", "d", "e[extra]>=4.5.6"]
[project.optional-dependencies]
more = ["f>=0.1"]
"""
    assert lowest.floors(text) == ["a==1.2", "b-c==3", "e==4.5.6", "f==0.1"]


def test_a_bound_without_a_floor_is_an_error(lowest: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"'a<2': wanted name>=version first"):
        lowest.floors('[project]\ndependencies = ["a<2"]\noptional-dependencies = {}')


def test_the_lowest_versions_are_allowed_and_not_above_the_tested_ones(lowest: ModuleType) -> None:
    floors = dict(line.split("==") for line in lowest.floors((ROOT / "pyproject.toml").read_text()))
    pinned = pins()
    for requirement in direct("sample-model", "dev"):
        if requirement.name in floors:
            assert requirement.specifier.contains(floors[requirement.name])
            assert Version(floors[requirement.name]) <= pinned[canonicalize_name(requirement.name)]


def test_every_dependency_that_runs_has_a_floor(lowest: ModuleType) -> None:
    without = [r.name for r in direct(*EXTRAS) if not r.specifier]
    assert [name for name in without if not name.startswith("types-")] == []


def test_the_workflow_runs_the_one_command_on_each_supported_python() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    jobs = workflow["jobs"]
    classified = [c.rsplit(" ", 1)[1] for c in PROJECT["classifiers"] if "Python :: 3." in c]
    assert jobs["test"]["strategy"]["matrix"]["python"] == classified
    commands = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()}
    assert commands.pop("audit")[-1] == "pip-audit --strict -r constraints.txt --no-deps --disable-pip"
    assert all(".ci/run" in of_job for of_job in commands.values())


def make(*arguments: str) -> str:
    done = subprocess.run(["make", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_help_lists_every_target() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    listed = re.findall(r"^  make (\S+) ", make(), re.MULTILINE)
    assert listed == phony[1].split()


def test_every_flag_of_the_quickstart_exists() -> None:
    printed = make("-n", "quickstart").replace("\\\n", " ")
    commands = [
        shlex.split(line) for line in printed.splitlines() if re.match(r"\S+/python (-m (?!pip|venv)|\w+\.py)", line)
    ]
    assert len(commands) == 4
    for command in commands:
        program = command[1:3] if command[1] == "-m" else command[1:2]
        subcommand = [word for word in command[1 + len(program) :][:1] if program[0] == "-m"]
        asked = subprocess.run(
            [sys.executable, *program, *subcommand, "--help"],
            cwd=ROOT,
            env={**os.environ, "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=True,
        )
        missing = [word for word in command if word.startswith("--") and word not in asked.stdout]
        assert missing == [], program


def test_a_python_that_is_not_supported_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text(
        '#!/bin/sh\nsed=$(printf "%s" "$2" | sed "s/sys.version_info\\[:2\\]/(3, 14)/")\nexec python3 -c "$sed"\n'
    )
    other.chmod(0o755)
    said = make("quickstart", f"PYTHON={other}", f"VENV={tmp_path}/venv")
    assert "got Python 3.14, wanted 3.11 to 3.13" in said
    assert not (tmp_path / "venv").exists()


def test_ci_run_decides_by_make_test_alone() -> None:
    subprocess.run(["bash", "-n", ".ci/run"], cwd=ROOT, check=True)
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1].startswith("exec make test")


def test_citation_names_the_project_and_both_papers() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0" and citation["title"] == "Slant"
    assert citation["version"] == PROJECT["version"] and citation["license"] == "Apache-2.0"
    papers = {paper["title"]: paper for paper in citation["references"]}
    stance = papers["Embedding Models for Stance-Aware Argument Retrieval"]
    assert [a["family-names"] for a in stance["authors"]] == ["Sparacino", "Toni", "Dejl"]
    oblique = papers["OBLIQ-IR: Training a Dense Retriever for Oblique Queries"]
    assert [a["family-names"] for a in oblique["authors"]] == ["Abdalla", "Abdallah", "Sedek", "Jatowt"]
    assert {p["identifiers"][0]["value"] for p in papers.values()} == {"arXiv:2608.28283", "arXiv:2609.29649"}


def test_the_changelog_has_the_version_that_is_built() -> None:
    heads = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heads[0] == "Unreleased"


@pytest.mark.parametrize(
    "name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff", "Makefile", "pyproject.toml"]
)
def test_paths_named_in_these_pages_exist(name: str) -> None:
    text = (ROOT / name).read_text()
    named = re.findall(r"`((?:\w[\w.-]*/)+[\w.-]*|[\w-]+\.(?:py|md|txt|toml|cff))`", text)
    elsewhere = ("data/", "runs/", "results/local", "dataset_builders/model_cards", "__main__.py")
    elsewhere += ("rrivera1849/", "sentence-transformers/")  # models of the Hub
    missing = [path for path in named if not path.startswith(elsewhere) and not (ROOT / path).exists()]
    assert missing == []
