from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from hub_models.requirements import REQUIREMENTS

ROOT = Path(__file__).resolve().parents[2]


def test_a_card_asks_for_the_versions_that_the_package_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ours = {r.name: r.specifier for r in map(Requirement, project["dependencies"])}
    for wanted in REQUIREMENTS:
        assert Requirement(wanted.name + wanted.versions).specifier == ours[wanted.name]
        assert wanted.reason
