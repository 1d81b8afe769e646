"""What every study is made of: cells that know what is done, a measured base, the budget of a training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transformers import AutoTokenizer

from hub_models import training, training_data
from hub_models.evaluation.named_tasks import Tasks
from hub_models.evaluation.results import RESULTS_NAME, Results
from hub_models.evaluation.run import evaluate_model
from hub_models.evaluation.study_results import ZERO_SHOT, StudyResults, Training
from hub_models.evaluation.variants import Variant
from hub_models.manifest import Manifest
from hub_models.recipe import Recipe


@dataclass(frozen=True, slots=True)
class System:
    """One way of training: a name and what it changes in the recipe."""

    name: str
    overrides: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """One training and its evaluation."""

    system: System
    recipe: Recipe
    rows: training_data.TrainingSet

    @property
    def name(self) -> str:
        return f"{self.system.name}-seed{self.recipe.seed}"


def check_own(path: Path, kind: type[StudyResults] = StudyResults) -> None:
    """Refuse to write over what is no results file of this kind of study.

    Raises:
        ValueError: If there is another file.
    """
    if path.exists():
        try:
            kind.read(path)
        except ValueError:
            raise ValueError(
                f"{path}: got a file that is no study's results, which this one would replace; move it or give "
                "another --out"
            ) from None


def measure_base(recipe: Recipe, tasks: Tasks, out: Path, *, ablation: bool = False) -> Results:
    """Measure the base of a recipe, with the recipe's query template, into ``out/cells/zero-shot``.

    Raises:
        ValueError: If the base at hand is of another commit than the recipe pins.
    """
    folder = out / "cells" / ZERO_SHOT
    evaluate_model(recipe.base, tasks, out=folder, ablation=ablation, query_template=recipe.query_template)
    measured = Results.read(folder / RESULTS_NAME)
    if None not in (measured.model.revision, recipe.base_revision) and measured.model.revision != recipe.base_revision:
        raise ValueError(
            f"the base {recipe.base} was measured at {measured.model.revision}, which its name stands for here; the "
            f"recipe pins {recipe.base_revision}: set base_revision to the one that is at hand"
        )
    return measured


def run_cell(
    cell: Cell, tasks: Tasks, out: Path, *, variants: Sequence[Variant] = (), ablation: bool = False
) -> tuple[Path, Training]:
    """Train a cell into ``out/runs/CELL`` and measure it into ``out/cells/CELL``, as far as that is not done.

    Returns:
        The folder of the results, and what it was trained on.

    Raises:
        ValueError: As `training.train` and `evaluate_model` do.
        RuntimeError: As `training.train` does.
        OSError: If something cannot be written.
    """
    folder = out / "cells" / cell.name
    run = training.train(cell.recipe, out / "runs" / cell.name)
    baseline = str(out / "cells" / ZERO_SHOT / RESULTS_NAME)
    evaluate_model(str(run), tasks, out=folder, baseline=baseline, variants=variants, ablation=ablation)
    manifest = Manifest.read(run)
    return folder, Training(
        system=cell.system.name,
        seed=cell.recipe.seed,
        overrides=list(cell.system.overrides),
        rows=len(cell.rows.triplets),
        steps=manifest.steps,
        tokens=count_tokens(cell.recipe, cell.rows),
        train_loss=manifest.train_loss,
        adapter_sha256=manifest.adapter_sha256,
    )


def count_tokens(recipe: Recipe, rows: training_data.TrainingSet) -> int:
    """Tokens of anchors, positives and negatives over all epochs, cut at ``max_seq_length``, without padding."""
    tokenizer = AutoTokenizer.from_pretrained(recipe.base, revision=recipe.base_revision, trust_remote_code=False)
    columns = rows.columns(recipe.query_template, recipe.negatives_per_anchor)
    texts = [text for name in columns.column_names for text in columns[name][:]]
    distinct = list(dict.fromkeys(texts))
    found = tokenizer(distinct, truncation=True, max_length=recipe.max_seq_length)["input_ids"]
    length = {text: len(ids) for text, ids in zip(distinct, found, strict=True)}
    return round(recipe.epochs * sum(length[text] for text in texts))
