"""``python -m hub_models study stance``: one base, several curricula, several seeds, the same budget, all sets.

A cell is one training and its evaluation. Both know by themselves what is done: a study that was killed goes on where
it was, and one whose code has changed measures anew without training anew.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from dataset_builders import builds
from dataset_builders.atomic import write_text
from dataset_builders.lexical import Lexical
from dataset_builders.schema import Split
from dataset_builders.sources import sample
from hub_models import training_data
from hub_models.evaluation.hybrid import Hybrid, parse_weights
from hub_models.evaluation.named_tasks import Tasks, load_tasks
from hub_models.evaluation.places import alone, check_writable
from hub_models.evaluation.results import RESULTS_NAME
from hub_models.evaluation.study_cells import Cell, System, check_own, measure_base, run_cell
from hub_models.evaluation.study_results import ZERO_SHOT, StudyResults, aggregate
from hub_models.evaluation.variants import Variant
from hub_models.recipe import DataEntry, load_recipe

QUICK_STEPS = 100

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")


def parse_systems(curricula: str, further: Iterable[str] = ()) -> list[System]:
    """What a study trains.

    Args:
        curricula: Configs of the triplets, with commas.
        further: ``NAME: KEY=VALUE …`` each, overrides of the recipe as a shell would split them.

    Raises:
        ValueError: If a name is missing, given twice, or cannot name a folder, or a further one changes nothing.

    Example:
        >>> parse_systems("mixed", ["ours: data.0.config=mixed_aug negatives_per_anchor=2"])[1].overrides
        ('data.0.config=mixed_aug', 'negatives_per_anchor=2')
    """
    systems = [System(name, (f"data.0.config={name}",)) for name in (n.strip() for n in curricula.split(",")) if name]
    for text in further:
        name, _, given = text.partition(":")
        if not (overrides := shlex.split(given)):
            raise ValueError(
                f"got --also {text!r} without overrides, wanted 'NAME: KEY=VALUE …': else it is the recipe"
            )
        systems.append(System(name.strip(), tuple(overrides)))
    names = [system.name for system in systems]
    for name in names:
        if not _NAME.fullmatch(name) or name == ZERO_SHOT or names.count(name) > 1:
            raise ValueError(
                f"got the system {name!r} among {names}, wanted names of their own, of a-z, 0-9, '_' and '-', other "
                f"than {ZERO_SHOT!r}: they name folders"
            )
    if not systems:
        raise ValueError("got no curriculum, wanted one at least, such as --curricula homogeneous,mixed,mixed_aug")
    return systems


def check_source(source: str | None, data: Path | None) -> None:
    """Refuse data without the name of its source, and a source without data.

    Raises:
        ValueError: If one of the two is missing; the sample alone needs no data.
    """
    if source is None and data is not None:
        raise ValueError(f"got --data {data} without its name, wanted --source NAME beside it")
    if data is None and source not in (None, sample.NAME):
        raise ValueError(f"got --source {source} without data, wanted --data PATH beside it")


def sets_at_hand(source: str | None, data: Path | None, further: Sequence[str], split: Split) -> Tasks:
    """The evaluation sets: what is at hand without data, the source's own, and what the user names.

    Args:
        source: That is trained on, if it is named.
        data: Its data.
        further: ``SOURCE=PATH`` each.
        split: ``test`` or ``validation``.

    Raises:
        ValueError: If a name or the data is faulty.
        FileNotFoundError: If there is nothing at a path.
    """
    tasks = load_tasks(["stance"], None, split)
    if source is not None:
        tasks |= load_tasks([f"{source}-stance"], data, split)
    for text in further:
        name, equals, path = text.partition("=")
        if not equals:
            raise ValueError(f"got the evaluation set {text!r}, wanted SOURCE=PATH")
        tasks |= load_tasks([f"{name}-stance"], Path(path), split)
    return tasks


def fusions(weights: str, lexical: Lexical = "slant") -> list[Variant]:
    """A hybrid run for each weight of BM25, with our words or the stance paper's.

    Raises:
        ValueError: If a weight is no number from 0 to 1: ``auto`` belongs to a single tuned model.
    """
    wanted = parse_weights(weights) if weights else []
    if "auto" in wanted:
        raise ValueError(f"--hybrid: got {weights!r}, wanted numbers: 'auto' is fitted model by model, with `tune`")
    return [Hybrid(weight, lexical) for weight in wanted]


def training_folder(source: str | None, data: Path | None, out: Path) -> Path | None:
    """The triplets of a named source, built where they are absent; None for the recipe's own."""
    if source is None:
        return None
    if data is None:
        return Path("data") / training_data.SAMPLE_TRIPLETS
    folder = out / "data" / f"{source}-stance-triplets"
    builds.prepare(folder.name, data).write(folder)
    return folder


def study_stance(
    out: Path,
    recipe: str,
    systems: Sequence[System],
    *,
    seeds: int,
    source: str | None,
    data: Path | None,
    further: Sequence[str],
    split: Split,
    hybrid: str,
    lexical: Lexical,
    quick: bool,
    overrides: Sequence[str],
    command: str,
) -> list[Path]:
    """What ``python -m hub_models study stance`` does; its options are the arguments.

    Returns:
        ``report.md``, ``results.json`` and the figures.

    Raises:
        BlockingIOError: If another study writes into ``out``.
    """
    from hub_models.evaluation.study_figures import draw
    from hub_models.evaluation.study_report import report

    check_source(source, data)
    variants = fusions(hybrid, lexical)
    tasks = sets_at_hand(source, data, further, split)
    check_writable(out)
    check_own(out / RESULTS_NAME)
    with alone(out):
        triplets = training_folder(source, data, out)
        cells = plan_cells(recipe, systems, seeds=seeds, data=triplets, overrides=overrides, quick=quick)
        results = run_study(cells, tasks, out, variants=variants, quick=quick, split=split, command=command)
        pictures = draw(results, tasks, out)
        write_text(out / "report.md", report(results, [f"figures/{path.name}" for path in pictures]))
    return [out / "report.md", out / RESULTS_NAME, *pictures]


def plan_cells(
    recipe: str,
    systems: Sequence[System],
    *,
    seeds: int,
    data: Path | None = None,
    overrides: Sequence[str] = (),
    quick: bool = False,
) -> list[Cell]:
    """The cells, by seed and then by system, with their training rows read.

    All systems get equally many rows: the recipe's dose, or as many as the smallest curriculum has. A system whose own
    overrides set ``data.0.dose`` keeps that.

    Args:
        recipe: Name or file.
        systems: What is trained.
        seeds: How many, from 0.
        data: A folder of triplets or claims with arguments in place of the recipe's first data.
        overrides: Of the recipe, for all systems.
        quick: `QUICK_STEPS` steps.

    Raises:
        FileNotFoundError: If the recipe or its data is not there.
        ValueError: If an override is wrong, or the data lacks a curriculum.
    """
    base = load_recipe(recipe, overrides)
    common = list(overrides)
    if data is not None:
        entry = DataEntry(path=str(data), split=base.data[0].split, dose=base.data[0].dose)
        common.append(f"data={json.dumps([entry.model_dump(mode='json')])}")
    if quick:
        common.append("epochs=1")
    whole = [load_recipe(recipe, [*common, "data.0.dose=null", *system.overrides]) for system in systems]
    wanted = QUICK_STEPS * base.global_batch * base.accumulation if quick else base.data[0].dose
    counts = [training_data.read(made).parts[0].rows for made in whole if made.data[0].dose is None]
    dose = min([*counts, *([wanted] if wanted else [])], default="null")
    cells = []
    for seed in range(seeds):
        for system in systems:
            made = load_recipe(recipe, [*common, f"data.0.dose={dose}", *system.overrides, f"seed={seed}"])
            cells.append(Cell(system, made, training_data.read(made)))
    return cells


def run_study(
    cells: Sequence[Cell],
    tasks: Tasks,
    out: Path,
    *,
    variants: Sequence[Variant] = (),
    ablation: bool = True,
    quick: bool = False,
    split: str = "test",
    command: str = "",
) -> StudyResults:
    """Train and measure what is not done yet, put everything together, and write ``out/results.json``.

    Args:
        cells: From `plan_cells`.
        tasks: The evaluation sets.
        out: ``out/runs/CELL`` holds the trainings, ``out/cells/CELL`` and ``out/cells/zero-shot`` the results.
        variants: Measured of each trained system beside the dense run.
        ablation: Delete the queries' words one at a time (S tables 20-25).
        quick: Said in the results.
        split: Of the sets, said in the results.
        command: That made it, said in the results.

    Raises:
        ValueError: As `training.train` and `evaluate_model` do.
        RuntimeError: As `training.train` does.
        OSError: If something cannot be written.
    """
    base = cells[0].recipe
    folders: dict[str, list[Path]] = {ZERO_SHOT: [out / "cells" / ZERO_SHOT]}
    trainings = []
    measured = measure_base(base, tasks, out, ablation=ablation)
    with logging_redirect_tqdm():
        for cell in tqdm(cells, desc="study", unit=" cells"):
            folder, trained = run_cell(cell, tasks, out, variants=variants, ablation=ablation)
            folders.setdefault(cell.system.name, []).append(folder)
            trainings.append(trained)
    results = StudyResults(
        recipe=base.name,
        base=base.base,
        base_revision=base.base_revision,
        quick=quick,
        split=split,
        seeds=sorted({cell.recipe.seed for cell in cells}),
        systems=list(folders),
        command=command,
        environment=measured.environment,
        trainings=trainings,
        tasks=aggregate(folders, list(tasks)),
    )
    results.write(out / RESULTS_NAME)
    return results
