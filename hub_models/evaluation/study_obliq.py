"""``python -m hub_models study obliq``: what pairs of the style graph teach, and what does so in their place (O 5, H,
I, K, N).

Trained on the rows of the embedded sample, measured on its five tasks and on what else is named. Results and report
are written after every cell, so a study that was stopped has said what it knows, and goes on when it is started again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from dataset_builders.choices import QueryForm
from dataset_builders.oblique.documents import load as load_documents
from dataset_builders.oblique.purity import Probe
from dataset_builders.oblique.read import PAIRS
from dataset_builders.oblique.style_graph import STYLOMETRIC
from dataset_builders.oblique.stylometry import stylometric
from dataset_builders.schema import Split
from dataset_builders.sources import oblique as oblique_sources
from dataset_builders.sources import sample
from dataset_builders.sources.obliq_bench import TASKS
from hub_models.evaluation import oblique_table
from hub_models.evaluation.named_tasks import Tasks, load_tasks
from hub_models.evaluation.oblique import ObliqueJudgements
from hub_models.evaluation.oblique_metrics import METRICS
from hub_models.evaluation.places import alone, check_writable
from hub_models.evaluation.results import RESULTS_NAME
from hub_models.evaluation.study_cells import Cell, check_own, measure_base, run_cell
from hub_models.evaluation.study_obliq_grid import CENTRAL, MATCHED, NO_PAIRS, PAIRS_, Grid, cells, plans, vectors_of
from hub_models.evaluation.study_obliq_lenses import read_lenses
from hub_models.evaluation.study_obliq_results import (
    Direct,
    Graph,
    LensRows,
    ObliqueStudyResults,
    direct,
    graph_purity,
    specialist_vectors,
    training_probe,
)
from hub_models.evaluation.study_results import ZERO_SHOT, Training, aggregate
from hub_models.recipe import load_recipe

BASE = "base"
"""The recipe's base as the second specialist, where no vectors are given."""


def further_sets(given: Sequence[str], split: Split) -> Tasks:
    """Evaluation sets beside the sample's own.

    Args:
        given: ``SOURCE=PATH`` each, for every oblique task of a known source; ``SOURCE-obliq-TASK=PATH`` for one.
        split: ``test`` or ``validation``.

    Raises:
        ValueError: If a name or the data is faulty.
        FileNotFoundError: If there is nothing at a path.
    """
    tasks: Tasks = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not equals:
            raise ValueError(f"got the evaluation set {text!r}, wanted SOURCE=PATH")
        known = [f"{name}-obliq-{task}" for task in oblique_sources.SOURCES.get(name, ())]
        for task in known or [name]:
            tasks |= load_tasks([task], Path(path), split)
    return tasks


def study_oblique(
    out: Path,
    recipe: str,
    *,
    seeds: int,
    specialist: Path | None,
    generic: Path | None,
    matched: Path | None,
    query_form: QueryForm,
    further: Sequence[str],
    split: Split,
    quick: bool,
    overrides: Sequence[str],
    command: str,
) -> list[Path]:
    """What ``python -m hub_models study obliq`` does; its options are the arguments.

    Returns:
        ``report.md``, ``results.json`` and the figures.

    Raises:
        ValueError: If the options do not go together, the specialist is called like one of the study's own, or for
            what `read_lenses` refuses.
        BlockingIOError: If another study writes into ``out``.
    """
    if matched is not None and generic is None:
        raise ValueError(
            "got --matched without --generic, wanted both: rows through the tasks' own lenses are what those through "
            "the generic one are held against; leave it out"
        )
    if quick and (specialist is not None or generic is not None):
        raise ValueError(
            "got --quick with --specialist or --generic, wanted the one without the other: the quick grid has neither"
        )
    if specialist is not None and (name := specialist.stem.lower()) in (STYLOMETRIC, BASE):
        raise ValueError(f"got a specialist called {name!r}, which the study has itself; give its file another name")
    held = None if generic is None else read_lenses(generic, matched)
    own = load_tasks([f"{sample.NAME}-obliq-{task}" for task in TASKS], None, split)
    others = further_sets(further, split)
    check_writable(out)
    check_own(out / RESULTS_NAME, ObliqueStudyResults)
    with alone(out):
        documents = [d for d in load_documents(sample.NAME) if d.task == PAIRS]
        second = BASE if specialist is None else specialist.stem.lower()
        wanted = plans(len(documents), second=second, query_form=query_form, generic=held is not None, quick=quick)
        specialists = {}
        if not quick:
            base = load_recipe(recipe, overrides)
            specialists = {second: vectors_of(base, documents, out / "data") if specialist is None else specialist}
        grid = Grid(out / "data", documents, specialists, {} if held is None else held.write(out / "data"))
        made = cells(grid, wanted, recipe, seeds, overrides)
        graphs, found = _specialists(grid, own | others)
        pictures = run_study(
            made, own, others, out, documents=len(documents), query_form=query_form, graphs=graphs, found=found,
            left_to_say=[_GENERIC] if held is None else [], lenses=None if held is None else held.facts,
            quick=quick, split=split, command=command,
        )  # fmt: skip
    return [out / "report.md", out / RESULTS_NAME, *pictures]


_GENERIC = (
    "Matched against generic lens: there are no queries through the generic lens here, since a language model has to "
    "write them: `python -m dataset_builders build sample-obliq-queries --lens generic --generate MODEL`, the same "
    "without `--lens` for what they are held against, then this study with both folders, `--generic` and `--matched`."
)


def run_study(
    made: Sequence[Cell],
    own: Tasks,
    others: Tasks,
    out: Path,
    *,
    documents: int,
    query_form: QueryForm,
    graphs: Sequence[Graph],
    found: Sequence[Direct],
    left_to_say: Sequence[str] = (),
    lenses: LensRows | None = None,
    quick: bool = False,
    split: str = "test",
    command: str = "",
) -> list[Path]:
    """Train and measure what is not done yet; after each cell write ``results.json``, ``report.md`` and the figures.

    Args:
        made: From `study_obliq_grid.cells`.
        own: Measured of every cell.
        others: Measured of the base and of the systems of `CENTRAL`.
        out: As in `study_cells.run_cell`.
        documents: Of the style graph.
        query_form: Of the pairs, said in the results.
        graphs: Purity of the specialists.
        found: Specialists as retrievers.
        left_to_say: What is not measured, and why.
        lenses: What the systems of the two lenses are trained on.
        quick: Said in the results.
        split: Of the sets, said in the results.
        command: That made it, said in the results.

    Returns:
        The figures.

    Raises:
        ValueError: As `training.train` and `evaluate_model` do.
        RuntimeError: As `training.train` does.
        OSError: If something cannot be written.
    """
    from hub_models.evaluation.study_obliq_figures import draw

    base = made[0].recipe
    measured = measure_base(base, own | others, out)
    folders: dict[str, list[Path]] = {ZERO_SHOT: [out / "cells" / ZERO_SHOT]}
    trainings: list[Training] = []
    pictures: list[Path] = []
    with logging_redirect_tqdm():
        for cell in tqdm(made, desc="study", unit=" cells"):
            folder, trained = run_cell(cell, own | others if cell.system.name in CENTRAL else own, out)
            folders.setdefault(cell.system.name, []).append(folder)
            trainings.append(trained)
            results = ObliqueStudyResults(
                recipe=base.name,
                base=base.base,
                base_revision=base.base_revision,
                quick=quick,
                split=split,
                seeds=sorted({t.seed for t in trainings}),
                systems=list(folders),
                command=command,
                environment=measured.environment,
                trainings=trainings,
                tasks=aggregate(
                    folders,
                    list(own | others),
                    compare=oblique_table.compare,
                    metrics=METRICS,
                    against=(ZERO_SHOT, NO_PAIRS, PAIRS_, MATCHED),
                ),
                planned=len(made),
                documents=documents,
                query_form=query_form,
                left_to_say=list(left_to_say),
                graphs=list(graphs),
                direct=list(found),
                lenses=lenses,
            )
            results.write(out / RESULTS_NAME)
            pictures = draw(results, out)
    return pictures


def _specialists(grid: Grid, tasks: Tasks) -> tuple[list[Graph], list[Direct]]:
    """What can be told of the specialists without training: their graphs over the training documents, the built-in
    one's over every corpus of the task, and the built-in one as a retriever."""
    probe = training_probe(grid.documents)
    graphs = [
        row
        for name in (STYLOMETRIC, *grid.specialists)
        for row in graph_purity(
            name, "training documents", specialist_vectors(name, grid.specialists, grid.documents), probe
        )
    ]
    found = []
    for name, judged in tasks.items():
        if isinstance(judged, ObliqueJudgements) and judged.task == PAIRS:
            graphs += graph_purity(STYLOMETRIC, name, stylometric(judged.texts), _probe(judged))
            found.append(direct(judged, name))
    return graphs, found


def _probe(judged: ObliqueJudgements) -> Probe:
    """A corpus whose labels are the groups of its queries: what is relevant together was written by one hand.

    Documents that are kept from one query together are parts of one longer text, and no neighbours.
    """
    labels = {
        judged.documents[column]: query.group
        for query, relevant in zip(judged.queries, judged.qrels["gold"], strict=True)
        for column, grade in relevant.grades.items()
        if grade > 0
    }
    texts = dict(zip(judged.documents, judged.texts, strict=True))
    parts: dict[str, str] = {}
    for columns in judged.excluded:
        ids = [judged.documents[column] for column in columns]
        parts |= dict.fromkeys(ids, min(ids)) if len(ids) > 1 else {}
    return Probe(judged.documents, labels, texts, parts)
