"""In a process of its own: make and measure things, in surroundings that the environment spoils.

``ODD_CLOCK``: the clock jumps by ten years, forth and back, at every look. ``ODD_HOME``: nobody has a home folder.
"""

from __future__ import annotations

import itertools
import os
import pwd
import sys
import time
from pathlib import Path

if os.environ.get("ODD_CLOCK"):
    _now, _jumps = time.time, itertools.cycle([3e8, -3e8, 0.0, -6e8])
    time.time = lambda: _now() + next(_jumps)
    time.time_ns = lambda: int(time.time() * 1e9)

if os.environ.get("ODD_HOME"):
    os.environ.pop("HOME", None)

    def _nobody(_: object) -> pwd.struct_passwd:
        raise KeyError("no account")

    pwd.getpwuid = _nobody  # type: ignore[assignment]


def make(folder: Path) -> None:
    """What needs no model."""
    from dataset_builders.__main__ import app

    app(["build", "mine-stance-triplets", "--source", str(folder / "zölle.jsonl"), "--out", str(folder / "data")],
        standalone_mode=False)  # fmt: skip
    app(["check", "mine", "--data", str(folder / "zölle.jsonl"), "--out", str(folder / "check.json")],
        standalone_mode=False)  # fmt: skip


def learn(folder: Path) -> None:
    """Train on it, encode, measure, and write the card."""
    from typer.testing import CliRunner

    from evaluate import app as evaluate
    from hub_models.__main__ import app
    from hub_models.training import train
    from tests.tiny import tiny

    recipe = tiny(
        "stance-bge-large", f"data={folder / 'data'}", "global_batch=4", "accumulation=1", "epochs=1", "precision=fp32"
    )
    run = train(recipe, folder / "run")
    assert run is not None
    (folder / "texts.txt").write_text("Zölle schaden.\nשלום\n", encoding="utf-8")
    commands = [
        (app, ["encode", str(folder / "run"), str(folder / "texts.txt"), "--out", str(folder / "vectors.npy")]),
        (evaluate, ["--model", str(folder / "run"), "--tasks", "mine-stance", "--data", str(folder / "zölle.jsonl")]),
        (app, ["card", str(folder / "run")]),
    ]
    for command, arguments in commands:
        done = CliRunner().invoke(command, arguments)
        assert done.exit_code == 0, done.output


if __name__ == "__main__":
    make(Path(sys.argv[1]))
    if sys.argv[2] == "learn":
        learn(Path(sys.argv[1]))
