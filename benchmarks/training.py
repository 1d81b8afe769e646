"""Triplets per second of ``train.py`` against a stock script (`stock_training.py`), on one thread of this machine.

``python benchmarks/training.py`` trains the recipe stance-minilm and the stock script in turn, on the same triplets,
base, batch and precision, and prints one JSON object a measure: medians of ours and theirs, the median of the turns'
ratios with the least and the greatest, and the bound of the ratio. Only the trainer's loop is timed; loading and the
gate are left out on both sides. ``matmul_share`` is the share of the machine's own rate of matrix products, in the
precision of the run, that the loop reaches with everything it does, both by processor time (the products of padding
count).

The last row trains both on the same batches in float32, without dropout and with the same adapter at the start: their
losses, means over ten steps, must agree within 2 % each time.
"""

from __future__ import annotations

import logging
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hub_models.hub_cache import ensure_base, use_project_cache

use_project_cache()

import torch  # noqa: E402
from peft import get_peft_model_state_dict, set_peft_model_state_dict  # noqa: E402
from sentence_transformers import SentenceTransformerTrainer  # noqa: E402

from benchmarks import measure  # noqa: E402
from benchmarks.trainers import ours, theirs  # noqa: E402
from hub_models import training  # noqa: E402
from hub_models.recipe import Recipe, load_recipe  # noqa: E402

BOUND, LOSS_BOUND = ">= 1.2", "<= 1.02"
LOSS_ROWS = 800  # 50 steps

ROWS = 480  # triplets a run: 30 steps


def clocked(trainer: SentenceTransformerTrainer) -> tuple[float, float]:
    """Seconds of wall clock and of CPU time."""
    wall, cpu = time.perf_counter(), time.process_time()
    trainer.train()
    return time.perf_counter() - wall, time.process_time() - cpu


def counted(trainer: SentenceTransformerTrainer) -> int:
    """Floating-point operations of the matrix products of a run."""
    return measure.operations(trainer.train)


def losses(trainer: SentenceTransformerTrainer, batches: Any, adapter: dict[str, torch.Tensor]) -> list[float]:
    """Mean losses of ten steps each, without dropout, over the batches of our sampler at our learning rate."""
    set_peft_model_state_dict(trainer.model.transformers_model, adapter)
    recipe = load_recipe("stance-minilm")
    trainer.args.batch_sampler, trainer.args.seed = batches, recipe.seed  # the trainer hands its seed to the sampler
    trainer.args.learning_rate, trainer.args.warmup_steps = recipe.learning_rate, recipe.warmup
    trainer.args.logging_steps = training.LOG_EVERY
    for module in trainer.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def speed_rows(recipe: Recipe, repeats: int) -> list[dict[str, Any]]:
    runs = {"ours": ours, "theirs": theirs}
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    operations = {}
    for turn in range(repeats + 1):
        for name in list(runs)[:: 1 if turn % 2 else -1]:
            with tempfile.TemporaryDirectory() as folder:
                if turn:
                    seconds[name].append(runs[name](recipe, Path(folder), clocked))
                else:  # the first turn warms up
                    operations[name] = runs[name](recipe, Path(folder), counted)
    triplets = recipe.data[0].dose or 0
    by_clock = [{name: [s[i] for s in found] for name, found in seconds.items()} for i in range(2)]
    rows = [speed_row(*of, triplets) for of in zip(("second", "CPU second"), by_clock, strict=True)]
    rate = measure.product_rate("bfloat16" if training.precision_of(recipe) == "bf16" else "float32")
    rows[1]["matmul_share"] = {
        name: round(operations[name] / statistics.median(took) / rate, 3) for name, took in by_clock[1].items()
    }
    return rows


def speed_row(clock: str, took: dict[str, measure.Turns], triplets: int) -> dict[str, Any]:
    """The row of one clock: rates by the median turn, and the median of the turns' ratios."""
    ratios = [b / a for a, b in zip(took["ours"], took["theirs"], strict=True)]
    return {
        "name": f"training, triplets a {clock}",
        "against": "SentenceTransformerTrainer and peft with their defaults",
        **{name: round(triplets / statistics.median(turns), 2) for name, turns in took.items()},
        "unit": "1/s",
        "ratio": round(statistics.median(ratios), 3),
        "bound": BOUND,
        "spread": [round(min(ratios), 3), round(max(ratios), 3)],
    }


def trajectories(rows: int) -> tuple[list[float], list[float]]:
    """Losses of ours and of the stock script over so many triplets, ten steps each."""
    overrides = ["precision=fp32", "lora.dropout=0", f"data.0.dose={rows}"]
    recipe = load_recipe("stance-minilm", overrides)
    shared: list[Any] = []  # what the trainer of ours starts from: batches and adapter

    def of_ours(trainer: SentenceTransformerTrainer) -> list[float]:
        adapter = get_peft_model_state_dict(trainer.model.transformers_model, save_embedding_layers=False)
        shared.extend((trainer.args.batch_sampler, {name: weight.clone() for name, weight in adapter.items()}))
        return losses(trainer, *shared)

    with tempfile.TemporaryDirectory() as folder:
        mine = ours(recipe, Path(folder) / "ours", of_ours)
        stock = theirs(recipe, Path(folder), lambda trainer: losses(trainer, *shared))
    return mine, stock


def loss_row(mine: list[float], stock: list[float]) -> dict[str, Any]:
    """The row of the place where two trajectories are furthest apart."""
    apart = [max(a / b, b / a) for a, b in zip(mine, stock, strict=True)]
    at = apart.index(max(apart))
    steps = training.LOG_EVERY * len(apart)
    return {
        "name": "training without dropout, loss",
        "against": "the same script on our batches",
        "ours": round(mine[at], 5),
        "theirs": round(stock[at], 5),
        "unit": "loss",
        "ratio": round(apart[at], 6),
        "bound": LOSS_BOUND,
        "steps": steps,
        "note": f"measured once, over {steps} steps: the furthest apart of {len(apart)} means of ten.",
    }


def main() -> None:
    arguments = measure.arguments(__doc__, rows=ROWS, loss_rows=LOSS_ROWS)
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    recipe = load_recipe("stance-minilm", [f"data.0.dose={arguments.rows}"])
    ensure_base(recipe.base)
    rows = speed_rows(recipe, arguments.repeats)
    measure.report([*rows, loss_row(*trajectories(arguments.loss_rows))], arguments.out)


if __name__ == "__main__":
    main()
