"""The cells of the oblique study: which rows each one is trained on, built from the style graph (O 3.2, H, N).

Every system differs from the recipe in its ``data:`` alone. Pairs are built for each seed, which draws their edges,
negatives and random positives.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dataset_builders import builds
from dataset_builders.atomic import write_with
from dataset_builders.choices import QueryForm
from dataset_builders.folder import MANIFEST
from dataset_builders.oblique.documents import Document
from dataset_builders.oblique.read import PAIRS
from dataset_builders.oblique.style_graph import STYLOMETRIC, K
from dataset_builders.oblique.training import Options
from dataset_builders.sources import sample
from dataset_builders.sources.obliq_bench import TASKS
from hub_models import training_data
from hub_models.corpus import encode_corpus
from hub_models.encoder import load
from hub_models.evaluation.study_cells import Cell, System
from hub_models.recipe import DataEntry, Recipe, load_recipe

NO_PAIRS, PAIRS_, RANDOM, REPLACE = "no-pairs", "pairs", "random-graph", "replace"
MATCHED, GENERIC = "matched-lens", "generic-lens"
"""The written queries of the same documents, through the lens of each task and through the one generic prompt."""
CENTRAL = (NO_PAIRS, PAIRS_, RANDOM)
"""What the study is about: they come first, with all seeds."""
QUICK = (*CENTRAL, f"without-{PAIRS}")
KS = (1, 3, 5, 10)
"""Neighbourhood sizes of O table H.1."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Which pairs a system gets.

    Attributes:
        k: Neighbours a document.
        dose: Edges drawn; all, if null.
        random: The control: positives drawn at random.
        specialist: A name of `Grid.specialists`, or the built-in one.
        mode: Beside the written queries of the task, or in their place (O N.1).
        query_form: What asks in a pair: the anchor's style in words (O equation 6), or the anchor itself.
    """

    k: int = K
    dose: int | None = None
    random: bool = False
    specialist: str = STYLOMETRIC
    mode: str = "blend"
    query_form: QueryForm = "description"


@dataclass(frozen=True, slots=True)
class Plan:
    """One system: the written queries of some tasks, and pairs."""

    name: str
    pairs: Pairs | None
    tasks: tuple[str, ...] = TASKS


OTHER_FORM: dict[QueryForm, tuple[str, QueryForm]] = {
    "description": ("passages", "passage"),
    "passage": ("described", "description"),
}
"""The query form of a study to the system that has the other one, and that one."""


def plans(documents: int, *, second: str, query_form: QueryForm, generic: bool, quick: bool) -> list[Plan]:
    """All systems of the study, those of `CENTRAL` first.

    The sweep over k keeps the dose at an edge a document, which every k can fill; the sweep over doses keeps k, and
    its largest is the whole graph, which is what the other systems get (O N.1).

    Args:
        documents: Of the graph.
        second: Name of the second specialist.
        query_form: Of all pairs but those of the system that is named after the other form.
        generic: Whether there are queries through the generic lens.
        quick: `QUICK` alone.
    """
    pairs = Pairs(query_form=query_form)
    name, other = OTHER_FORM[query_form]
    found = [Plan(NO_PAIRS, None), Plan(PAIRS_, pairs), Plan(RANDOM, replace(pairs, random=True))]
    found += [Plan(f"without-{task}", None if task == PAIRS else pairs, _others(task)) for task in _left_out()]
    found += [Plan(REPLACE, replace(pairs, mode="replace")), Plan(name, replace(pairs, query_form=other))]
    found += [Plan(f"by-{second}", replace(pairs, specialist=second))]
    found += [Plan(f"dose-{dose}", replace(pairs, dose=dose)) for dose in doses(documents)]
    found += [Plan(f"k-{k}", replace(pairs, k=k, dose=documents)) for k in KS if k != K]
    found += [Plan(MATCHED, pairs), Plan(GENERIC, pairs)] if generic else []
    return [plan for plan in found if not quick or plan.name in QUICK]


def doses(documents: int) -> tuple[int, int, int]:
    """Half an edge a document, one, and two; the whole graph of k = 3 has three."""
    return documents // 2, documents, 2 * documents


def _left_out() -> list[str]:
    """The tasks in the order in which they are left out: that of the style graph first."""
    return [PAIRS, *(task for task in TASKS if task != PAIRS)]


def _others(task: str) -> tuple[str, ...]:
    return tuple(other for other in TASKS if other != task)


@dataclass(frozen=True)
class Grid:
    """Where the rows of cells come from.

    Attributes:
        folder: Built rows are kept here.
        documents: The writing task's training documents, which the graph is over.
        specialists: Names to files of vectors, a row a document.
        lenses: Systems to a file of rows that they have in place of the written queries.
    """

    folder: Path
    documents: list[Document]
    specialists: dict[str, Path]
    lenses: Mapping[str, Path] = field(default_factory=dict)

    def queries(self) -> Path:
        """The written queries of all tasks."""
        return self._build("obliq-queries", Options(), 0, "sample-obliq-queries")

    def pairs(self, pairs: Pairs, seed: int) -> Path:
        """The pairs of a seed.

        Raises:
            ValueError: If the graph has fewer edges than the dose, or k does not leave a document out.
        """
        vectors = self.specialists.get(pairs.specialist)
        options = Options(
            vectors=vectors, k=pairs.k, dose=pairs.dose, random_graph=pairs.random, query_form=pairs.query_form
        )
        said = [pairs.specialist, f"k{pairs.k}"]
        said += [f"dose{pairs.dose}"] if pairs.dose is not None else []
        said += ["random"] if pairs.random else []
        said += ["passages"] if pairs.query_form == "passage" else []
        said += [_digest(vectors)] if vectors is not None else []
        return self._build("obliq-style-pairs", options, seed, "-".join(["pairs", *said, f"seed{seed}"]))

    def data(self, plan: Plan, seed: int) -> list[DataEntry]:
        """The ``data:`` of a system."""
        source = str(self.lenses.get(plan.name) or self.queries())
        configs: Sequence[str | None] = [None] if plan.tasks == TASKS else plan.tasks
        entries = [DataEntry(path=source, config=config) for config in configs]
        if plan.pairs is not None:
            path = self.pairs(plan.pairs, seed)
            entries.append(DataEntry.model_validate({"path": str(path), "config": PAIRS, "mode": plan.pairs.mode}))
        return entries

    def _build(self, kind: str, options: Options, seed: int, folder: str) -> Path:
        """Rows are built once: the folder's name says all that they depend on."""
        out = self.folder / folder
        if not (out / MANIFEST).is_file():
            out.parent.mkdir(parents=True, exist_ok=True)
            builds.prepare(f"{sample.NAME}-{kind}", seed=seed, options=options).write(out)
        return out


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:8]


def vectors_of(recipe: Recipe, documents: Sequence[Document], folder: Path) -> Path:
    """The vectors that a recipe's base, at its revision, gives the documents: the second specialist."""
    import numpy as np

    texts = [d.text for d in documents]
    content = "\0".join([recipe.base, recipe.base_revision or "", *texts]).encode("utf-8", "surrogatepass")
    path = folder / f"vectors-{hashlib.sha256(content).hexdigest()[:8]}.npy"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        base = load(recipe.base, revision=recipe.base_revision, trust_remote_code=recipe.trust_remote_code)
        vectors = encode_corpus(texts, base)
        write_with(path, lambda file: np.save(file, vectors))
    return path


def cells(grid: Grid, wanted: Iterable[Plan], recipe: str, seeds: int, overrides: Sequence[str]) -> list[Cell]:
    """The cells, the central comparison first, each group by seed and then by system; their rows are built and read.

    Raises:
        FileNotFoundError: If the recipe is not there.
        ValueError: If an override is wrong, or rows cannot be built or read.
    """
    wanted = list(wanted)
    groups = ([p for p in wanted if p.name in CENTRAL], [p for p in wanted if p.name not in CENTRAL])
    order = [(plan, seed) for group in groups for seed in range(seeds) for plan in group]
    return [_cell(grid, plan, seed, recipe, overrides) for plan, seed in order]


def _cell(grid: Grid, plan: Plan, seed: int, recipe: str, overrides: Sequence[str]) -> Cell:
    entries = [entry.model_dump(mode="json", exclude_defaults=True) for entry in grid.data(plan, seed)]
    made = load_recipe(recipe, [*overrides, f"seed={seed}", f"data={json.dumps(entries, allow_nan=False)}"])
    said = [f"{Path(str(e.path)).name}{f' ({e.config})' if e.config else ''}{_mode(e)}" for e in made.data]
    return Cell(System(plan.name, tuple(said)), made, training_data.read(made))


def _mode(entry: DataEntry) -> str:
    return "" if entry.mode == "blend" else f", {entry.mode}"
