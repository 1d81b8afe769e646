"""What an installed wheel holds: a file that only a checkout has is missed by users, never by developers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from run_folders import results, run_folder

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel, built from a copy so that the checkout stays clean."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("dataset_builders", "hub_models", "model_cards"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([*build, "-w", str(target), str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = target.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target / "site")
    return target / "site"


def files(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc" and ".dist-info" not in path.as_posix()
    }


def test_every_file_of_the_packages_is_in_it_and_no_other(installed: Path) -> None:
    wanted = {f"{package}/{name}" for package in ("dataset_builders", "hub_models") for name in files(ROOT / package)}
    wanted |= {f"dataset_builders/model_cards/{name}" for name in files(ROOT / "model_cards")}
    assert files(installed) == wanted


def test_a_card_comes_from_the_wheel_as_from_the_checkout(installed: Path, tmp_path: Path) -> None:
    code = "import sys; from hub_models import cards; cards.write_card(sys.argv[1]); print(cards.__file__)"
    written = []
    for place in (installed, ROOT):
        folder = run_folder(tmp_path / place.name, results())
        environment = {**os.environ, "PYTHONPATH": str(place)}
        command = [sys.executable, "-c", code, str(folder)]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == str(place / "hub_models" / "cards.py")
        written.append((folder / "README.md").read_text())
    assert written[0] == written[1]


def test_the_licence_and_the_metadata_travel_along(installed: Path) -> None:
    (info,) = installed.glob("*.dist-info")
    assert (info / "licenses" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    metadata = (info / "METADATA").read_text()
    assert "Name: slant" in metadata and "License-Expression: Apache-2.0" in metadata
