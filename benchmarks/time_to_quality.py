"""Processor time until precision at R has 90 % of what a stock script gains: that script, and stance-minilm.

``python benchmarks/time_to_quality.py`` trains `stock_training` on the recipe's triplets at four learning rates and
takes the one whose last step is best on the validation claims; ours is the recipe, over its steps and over half of
them, and the one that is there first on the validation claims. Every few steps the clock stands still and P@R over the
unseen instructions is measured on the validation and the test claims of the sample. A row compares the seconds of
training until a run first has 90 % of the stock script's final gain over the base, and ``bound`` is that of the ratio.
Each run is kept as JSON in ``--runs`` and not repeated.
"""

from __future__ import annotations

import argparse
import functools
import json
import logging
import math
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hub_models.hub_cache import ensure_base, use_project_cache

use_project_cache()

import torch  # noqa: E402
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer  # noqa: E402
from transformers import TrainerCallback  # noqa: E402

from benchmarks import trainers  # noqa: E402
from benchmarks.measure import report  # noqa: E402
from dataset_builders.atomic import write_text  # noqa: E402
from dataset_builders.schema import Split  # noqa: E402
from dataset_builders.sources import load as load_data  # noqa: E402
from hub_models.evaluation.stance import ALL, judge, queries_of  # noqa: E402
from hub_models.evaluation.stance_ranking import per_query  # noqa: E402
from hub_models.evaluation.stance_runs import dense_scores  # noqa: E402
from hub_models.recipe import load_recipe  # noqa: E402
from hub_models.retrieval.dense import DenseIndex  # noqa: E402

RECIPE = "stance-minilm"
BOUND = "<= 0.6"
SHARE = 0.9  # of the stock script's final gain
EVERY = 30  # steps
STOCK_RATES = ("1e-4", "3e-4", "5e-4", "1e-3")
SPLITS: tuple[Split, ...] = ("validation", "test")

Run = list[dict[str, float]]
"""Points of a run, the base first: ``step``, ``seconds`` of processor time, P@R on ``validation`` and ``test``."""

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--runs", type=Path, default=Path("runs/time_to_quality"), help="folder of the runs' JSON")
parser.add_argument("--out", type=Path, help="also write the rows to this JSON file")
parser.add_argument("--only", nargs="+", metavar="RUN", help="train just these runs, such as stock-1e-4 or ours")


class Watch(TrainerCallback):  # type: ignore[misc]
    """Measure a model every few steps of its training, with the clock standing still."""

    def __init__(self, model: SentenceTransformer, query_template: str) -> None:
        self.points: Run = []
        self._model, self._template = model, query_template
        data = load_data("sample")
        self._tasks = {split: judge(data, split) for split in SPLITS}
        self._seconds = self._started = 0.0

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self._measure(0)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step % EVERY == 0 or state.global_step == state.max_steps:
            self._seconds += time.process_time() - self._started
            self._measure(state.global_step)

    def _measure(self, step: int) -> None:
        found = {split: self._precision_at_r(split) for split in SPLITS}
        self.points.append({"step": step, "seconds": round(self._seconds, 2), **found})
        self._started = time.process_time()

    def _precision_at_r(self, split: Split) -> float:
        judged = self._tasks[split]
        queries = [q for q in queries_of(judged, self._template) if q.instruction and not q.instruction.seen]
        texts = [d.text for d in judged.documents]
        training_mode = self._model.training
        vectors = self._model.encode([*texts, *(q.text for q in queries)], show_progress_bar=False)
        self._model.train(training_mode)
        index = DenseIndex(texts, vectors[: len(texts)])
        table = per_query(judged, queries, dense_scores(judged, index, vectors[len(texts) :]))
        return float(table["precision_at_r"][table["candidates"] == ALL].mean())


def watched(trainer: SentenceTransformerTrainer) -> Run:
    """The points of a training."""
    watch = Watch(trainer.model, load_recipe(RECIPE).query_template)
    trainer.add_callback(watch)
    trainer.train()
    return watch.points


def train_stock(learning_rate: float, folder: Path) -> Run:
    recipe = load_recipe(RECIPE)
    ensure_base(recipe.base)
    run: Run = trainers.theirs(recipe, folder, watched, learning_rate=learning_rate)
    return run


def train_ours(dose: int, folder: Path) -> Run:
    run: Run = trainers.ours(load_recipe(RECIPE, [f"data.0.dose={dose}"]), folder, watched)
    return run


def kept(path: Path, work: Callable[[Path], Run]) -> Run:
    """The run at ``path``, made by ``work`` in a temporary folder where it is not there yet."""
    if not path.exists():
        with tempfile.TemporaryDirectory() as folder:
            points = work(Path(folder))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(points, indent=1, allow_nan=False) + "\n")
    run: Run = json.loads(path.read_text())
    return run


def target(stock: Run, split: Split) -> float:
    """The base's P@R and 90 % of what the stock script has gained at its end."""
    base, final = stock[0][split], stock[-1][split]
    return base + SHARE * (final - base)


def reached(run: Run, split: Split, value: float) -> dict[str, float] | None:
    """The first point of a run with at least ``value`` on a split."""
    return next((point for point in run if point[split] >= value), None)


def best(stock: dict[str, Run]) -> str:
    """The stock run whose last step is best on the validation claims."""
    return max(stock, key=lambda name: stock[name][-1]["validation"])


def first(mine: dict[str, Run], stock: Run) -> str:
    """Our run that is first at the stock run's target, on the validation claims."""

    def seconds(name: str) -> float:
        point = reached(mine[name], "validation", target(stock, "validation"))
        return point["seconds"] if point else math.inf

    return min(mine, key=seconds)


def row(split: Split, ours: Run, stock: Run) -> dict[str, Any]:
    """Seconds and steps of both until they reach the target of a split; null where one never does.

    Where the stock script gains nothing, both are there before they begin: no time can be compared, and the row has no
    bound.
    """
    wanted = target(stock, split)
    gains = stock[-1][split] > stock[0][split]
    mine, theirs = (reached(run, split, wanted) if gains else None for run in (ours, stock))
    return {
        "name": f"time to {SHARE:.0%} of the stock script's final gain, {split} claims",
        "against": "SentenceTransformerTrainer and peft at their best learning rate",
        "ours": mine and mine["seconds"],
        "theirs": theirs and theirs["seconds"],
        "unit": "CPU s",
        "ratio": round(mine["seconds"] / theirs["seconds"], 3) if mine and theirs else None,
        "bound": BOUND if gains else None,
        "steps": {"ours": mine and mine["step"], "theirs": theirs and theirs["step"]},
        "precision_at_r": {
            "base": stock[0][split],
            "target": wanted,
            "ours": ours[-1][split],
            "theirs": stock[-1][split],
        },
        "note": "measured once." if gains else "measured once; the stock script gains nothing, so there is no target.",
    }


def main() -> None:
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    stock = {f"stock-{rate}": functools.partial(train_stock, float(rate)) for rate in STOCK_RATES}
    recipe = load_recipe(RECIPE)
    dose = recipe.data[0].dose or 0
    mine = {f"ours-{n}": functools.partial(train_ours, n) for n in (dose, dose // 2)}
    work = stock | mine
    folder = arguments.runs / recipe.hash[:8]  # runs of another recipe are no runs of this one
    for name in arguments.only or work:
        kept(folder / f"{name}.json", work[name])
    if arguments.only:
        return
    runs = {name: kept(folder / f"{name}.json", work[name]) for name in work}
    theirs = best({name: runs[name] for name in stock})
    ours = first({name: runs[name] for name in mine}, runs[theirs])
    rows = []
    for split in SPLITS:
        found = row(split, runs[ours], runs[theirs])
        ends = ", ".join(f"{name} {run[-1][split]:.3f}" for name, run in runs.items())
        found["note"] += f" P@R at the end, base {runs[ours][0][split]:.3f}: {ends}."
        rows.append(found | {"runs": [ours, theirs]})
    report(rows, arguments.out)


if __name__ == "__main__":
    main()
