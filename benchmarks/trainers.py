"""The two trainers of a recipe that the benchmarks of training compare, for a piece of work on each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformerTrainer

from benchmarks import stock_training
from hub_models import training, training_data
from hub_models.recipe import Recipe


class Done(Exception):
    """Carries what was found out of `training.train`, before it saves and passes the gate."""

    def __init__(self, found: Any) -> None:
        super().__init__("done")
        self.found = found


def ours(recipe: Recipe, folder: Path, work: Callable[[SentenceTransformerTrainer], Any]) -> Any:
    """What ``work`` gives of the trainer that `training.train` makes."""

    def train(self: Any, **_: Any) -> None:
        training._Trainer.train = real_train
        raise Done(work(self))

    real_train, training._Trainer.train = training._Trainer.train, train
    try:
        training.train(recipe, folder / "run")
    except Done as done:
        return done.found
    finally:
        training._Trainer.train = real_train
    raise RuntimeError("training.train ended without training")


def theirs(recipe: Recipe, folder: Path, work: Callable[[SentenceTransformerTrainer], Any], **options: Any) -> Any:
    """What ``work`` gives of the stock script's trainer, which takes further options of `stock_training.trainer`."""
    columns = training_data.read(recipe).columns(recipe.query_template, recipe.negatives_per_anchor)
    bf16 = training.precision_of(recipe) == "bf16"
    targets = recipe.lora_targets("bert")
    return work(
        stock_training.trainer(recipe.base, columns, targets, recipe.global_batch, bf16, str(folder), **options)
    )
