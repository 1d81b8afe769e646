"""No UTF-8, no home folder, a clock that jumps: the commands do what they do anywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hub_models.evaluation.reproduce import page

ROOT = Path(__file__).resolve().parents[2]
NO_UTF8 = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
ODD = {**NO_UTF8, "ODD_HOME": "1", "ODD_CLOCK": "1"}


def run(folder: Path, what: str, odd: dict[str, str]) -> Path:
    folder.mkdir()
    rows = [
        {
            "claim": f"Zölle auf {word} – schaden.",
            "support": [f"„{word}“ kostet λ, sagt A."] * 2 + [f"{word} wird knapp."],
            "attack": [f"{word} schützt Bauern…", f"Ohne Zölle auf {word} verlieren viele."],
            "split": "train" if i < 8 else "test",
            "licence": "cc0-1.0",
        }
        for i, word in enumerate(
            ["Käse", "Öl", "Äpfel", "Mürbteig", "Soße", "Bücher", "Kühe", "Gemüse", "Jod", "Übles"]
        )
    ]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (folder / "zölle.jsonl").write_text(lines, encoding="utf-8")
    command = [sys.executable, "-m", "tests.project.odd_surroundings", str(folder), what]
    done = subprocess.run(command, env=os.environ | odd, cwd=ROOT, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_commands_do_the_same_in_odd_surroundings(tmp_path: Path) -> None:
    """Building and checking: the same bytes."""
    odd, plain = run(tmp_path / "odd", "make", ODD), run(tmp_path / "plain", "make", {})
    assert files(odd / "data") == files(plain / "data")
    assert (odd / "check.json").read_bytes() == (plain / "check.json").read_bytes()
    assert not (ROOT / "~").exists()


@pytest.mark.slow
@pytest.mark.parametrize("odd", [NO_UTF8, {"ODD_HOME": "1"}, {"ODD_CLOCK": "1"}], ids=["no UTF-8", "no home", "clock"])
def test_models_are_trained_and_measured_alike(tmp_path: Path, odd: dict[str, str]) -> None:
    there, here = run(tmp_path / "odd", "learn", odd), run(tmp_path / "plain", "learn", {})
    adapter = "run/adapter_model.safetensors"
    assert (there / adapter).read_bytes() == (here / adapter).read_bytes()
    assert np.array_equal(np.load(there / "vectors.npy"), np.load(here / "vectors.npy"))
    found: list[Any] = [
        json.loads((folder / "run/evaluation/results.json").read_text(encoding="utf-8"))["tasks"]
        for folder in (there, here)
    ]
    slices = [{name: [run["slices"] for run in task["runs"]] for name, task in tasks.items()} for tasks in found]
    assert slices[0] == slices[1] and slices[0]
    assert "NDCG" in (there / "run" / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_terminal_that_lacks_a_character_shows_the_rest(tmp_path: Path) -> None:
    """What was measured is not lost for a line that cannot be drawn."""
    command = [sys.executable, "-m", "hub_models", "reproduce"]
    env = os.environ | {"PYTHONIOENCODING": "latin-1:strict"}
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == page().encode("latin-1", "replace") and b"?" in done.stdout
