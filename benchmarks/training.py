"""Triplets per second of ``train.py`` against a stock script (`stock_training.py`), on this machine's CPU.

``python benchmarks/training.py`` trains the recipe stance-minilm and the stock script in turn, on the same triplets,
base, batch and precision, and prints one JSON object a measure: medians of ours and theirs, their ratio, and the least
ratio that is allowed. Only the trainer's loop is timed; loading and the gate are left out on both sides.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hub_models.hub_cache import ensure_base, use_project_cache

use_project_cache()

from benchmarks import stock_training  # noqa: E402
from hub_models import training, training_data  # noqa: E402
from hub_models.recipe import load_recipe  # noqa: E402

BOUND = 0.95  # "not slower", with room for the noise of medians of five

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--rows", type=int, default=480, help="triplets a run (480: 30 steps)")
parser.add_argument("--repeats", type=int, default=5)
parser.add_argument("--out", type=Path, help="also write the rows to this JSON file")


class Timed(Exception):
    """Carries the seconds of ours out of `training.train`, before it saves and passes the gate."""

    def __init__(self, seconds: tuple[float, float]) -> None:
        super().__init__("timed")
        self.seconds = seconds


def clocked(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of wall clock and of CPU time."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    recipe = load_recipe("stance-minilm", [f"data.0.dose={arguments.rows}"])
    ensure_base(recipe.base)
    rows = training_data.read(recipe)
    columns = rows.columns(recipe.query_template, 1)
    bf16 = training.precision_of(recipe) == "bf16"

    real_train = training._Trainer.train

    def timed_train(self: Any, **options: Any) -> None:
        raise Timed(clocked(lambda: real_train(self, **options)))

    training._Trainer.train = timed_train

    def ours(folder: Path) -> tuple[float, float]:
        try:
            training.train(recipe, folder / "run")
        except Timed as timed:
            return timed.seconds
        raise RuntimeError("training.train ended without training")

    def theirs(folder: Path) -> tuple[float, float]:
        targets = recipe.lora_targets("bert")
        trainer = stock_training.trainer(recipe.base, columns, targets, recipe.global_batch, bf16, str(folder))
        return clocked(trainer.train)

    seconds: dict[str, list[tuple[float, float]]] = {"ours": [], "theirs": []}
    for turn in range(arguments.repeats + 1):
        for name, run in (("ours", ours), ("theirs", theirs))[:: 1 if turn % 2 else -1]:
            with tempfile.TemporaryDirectory() as folder:
                measured = run(Path(folder))
            if turn:  # the first turn warms up
                seconds[name].append(measured)

    results = []
    for i, clock in enumerate(("second", "cpu_second")):
        speed = {name: statistics.median(arguments.rows / s[i] for s in found) for name, found in seconds.items()}
        ratio = speed["ours"] / speed["theirs"]
        name = f"training_triplets_per_{clock}"
        results.append(
            {"name": name, "ours": speed["ours"], "theirs": speed["theirs"], "ratio": ratio, "bound": BOUND}
        )
    for row in results:
        print(json.dumps({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}))
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
