"""From a model and task names to a results file: what ``evaluate.py`` calls.

Everything that can be wrong is looked at before the first text is encoded, and what is already measured by the same
code, for the same weights, data and template, is not measured again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from dataset_builders.schema import Split
from dataset_builders.sources import SOURCES, load
from dataset_builders.text import did_you_mean
from hub_models import encoder
from hub_models.adapter import adapter_off
from hub_models.corpus import encode_corpus
from hub_models.evaluation import stance
from hub_models.evaluation.metrics import Float32
from hub_models.evaluation.results import (
    RESULTS_NAME,
    ModelInfo,
    Results,
    RunResult,
    Strategy,
    TaskResult,
    environment,
    read_per_query,
    write_per_query,
)
from hub_models.evaluation.stance import Judgements

logger = logging.getLogger(__name__)

FAMILY = "stance"
LOCAL_RESULTS = Path("results") / "local"


@dataclass(frozen=True, eq=False, slots=True)
class Evaluation:
    """What was measured and where it lies."""

    results: Results
    folder: Path
    baseline: Results | None
    baseline_folder: Path | None
    judged: dict[str, Judgements]

    @property
    def results_path(self) -> Path:
        return self.folder / RESULTS_NAME


def load_tasks(names: Sequence[str], data: Path | None, split: Split) -> dict[str, Judgements]:
    """The tasks by name, with their data checked. The key of a task on another split than ``test`` ends in ``:split``.

    Args:
        names: ``{source}-stance`` each, or ``stance`` for all whose data is at hand.
        data: Takes the place of the data of the one task named, which may then have any source.
        split: ``test`` or ``validation``.

    Raises:
        ValueError: If a name is unknown, ``data`` is given with several names, or the data is faulty.
        FileNotFoundError: If there is nothing at ``data``.
    """
    known = [f"{source}-{FAMILY}" for source in SOURCES]
    if data is not None and (len(names) != 1 or names[0] == FAMILY):
        raise ValueError(f"got --data and the tasks {list(names)}, wanted one task by name, whose data it replaces")
    at_hand = ["sample-stance"]  # the embedded one
    expanded = [name for given in names for name in (at_hand if given == FAMILY else [given])]
    tasks = {}
    for name in dict.fromkeys(expanded):
        source = name.removesuffix(f"-{FAMILY}")
        if source == name or (data is None and source not in SOURCES):
            raise ValueError(
                f"got the task {name!r}, wanted one of {known}, {FAMILY!r} for all that are at hand, or any "
                f"'NAME-{FAMILY}' with --data.{did_you_mean(name, known)}"
            )
        tasks[name if split == "test" else f"{name}:{split}"] = stance.judge(load(source, data), split)
    return tasks


def evaluate_model(
    model: str, tasks: dict[str, Judgements], *, out: Path | None = None, baseline: str | None = None
) -> Evaluation:
    """Measure a model, and a baseline to compare it with, on some tasks.

    Args:
        model: Folder or Hub id.
        tasks: From `load_tasks`.
        out: Folder for results.json and what belongs to it. Default: ``evaluation/`` inside a run folder, else
            ``results/local/NAME/``. A baseline that is measured goes to ``out/baseline`` or to its own default.
        baseline: Folder, Hub id, or the results.json of an earlier evaluation; None compares with nothing.

    Raises:
        FileNotFoundError: If a model or a results file is not there.
        ValueError: If the baseline's results are of other data, or a model gives no usable vectors.
    """
    folder = out or _default_folder(model)
    other: Results | None = None
    other_folder: Path | None = None
    reference: _System | None = None
    if baseline is not None and baseline.endswith(".json"):
        other, other_folder = Results.read(Path(baseline)), Path(baseline).parent
        _check_comparable(other, tasks, baseline)
    system = _System(model)
    if baseline is not None and other is None:
        reference = _System(baseline)
        other_folder = out / "baseline" if out else _default_folder(baseline)
        other = _measure(reference, tasks, other_folder)
    results = _measure(system, tasks, folder, base=reference if reference and reference.is_base_of(system) else None)
    if other is not None and other_folder is not None:
        for name in tasks:
            _compare(results.tasks[name], folder, other.tasks[name], other_folder, other.model.id)
        results.write(folder / RESULTS_NAME)
    return Evaluation(results, folder, other, other_folder, tasks)


class _System:
    """An encoder under test. Texts that it has encoded once are not encoded again."""

    def __init__(self, path_or_id: str) -> None:
        self._loaded: SentenceTransformer = encoder.load(path_or_id)
        self.info = ModelInfo(**asdict(encoder.identity(self._loaded, path_or_id)))
        self.query_template = encoder.query_template_of(path_or_id)
        self._vectors: dict[str, Float32] = {}

    @property
    def device(self) -> str:
        return str(self._loaded.device)

    @property
    def pinned(self) -> bool:
        """Whether the identity names the weights beyond doubt, as a folder of full weights does not."""
        return bool(self.info.revision or (self.info.adapter_sha256 and self.info.base_revision))

    def is_base_of(self, other: _System) -> bool:
        return (
            self.info.adapter_sha256 is None
            and self.info.revision is not None
            and (self.info.id, self.info.revision) == (other.info.base, other.info.base_revision)
        )

    def encode(self, texts: Sequence[str]) -> Float32:
        missing = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        self._vectors.update(zip(missing, encode_corpus(missing, self._loaded), strict=True))
        return np.stack([self._vectors[text] for text in texts])

    def encode_base(self, texts: Sequence[str]) -> Float32:
        with adapter_off(self._loaded):
            return encode_corpus(texts, self._loaded)


def _measure(system: _System, tasks: dict[str, Judgements], folder: Path, base: _System | None = None) -> Results:
    """Bring ``folder/results.json`` up to date for these tasks. Tasks measured by other code or weights are
    dropped."""
    path = folder / RESULTS_NAME
    now = environment(system.device)
    finished = _finished(path, system, now) if system.pinned else {}
    results = Results(model=system.info, environment=now, tasks=dict(finished))
    for name, judged in tasks.items():
        old = finished.get(name)
        if old and (old.revision, old.query_template) == (judged.revision, system.query_template):
            logger.info("%s on %s: already measured, %s", system.info.id, name, path)
            continue
        logger.info(
            "%s on %s: %d claims, %d documents", system.info.id, name, len(judged.claims), len(judged.documents)
        )
        encode_base = base.encode if base else system.encode_base if system.info.adapter_sha256 else None
        measured = stance.evaluate(judged, system.query_template, system.encode, encode_base)
        runs = []
        for strategy, found in measured.items():
            runs.append(
                RunResult(
                    strategy=strategy,
                    params={},
                    seed=None,
                    slices=stance.summarise(found.table),
                    compare=[],
                    diagnostics=stance.diagnostics(found.table),
                    per_query=write_per_query(folder, f"{name.replace(':', '-')}-{strategy}", found.table),
                    timing=found.timing,
                )
            )
        results.tasks[name] = TaskResult(
            dataset=judged.source,
            revision=judged.revision,
            query_template=system.query_template,
            counts=judged.counts(),
            runs=runs,
        )
        results.write(path)
    return results


def _finished(path: Path, system: _System, now: dict[str, Any]) -> dict[str, TaskResult]:
    """The tasks of an existing results file, if this code made it for these weights and all of it is still there."""
    if not path.exists():
        return {}
    try:
        old = Results.read(path)
        for task in old.tasks.values():
            for run in task.runs:
                read_per_query(path.parent, run.per_query)
    except (ValueError, OSError) as error:
        logger.warning("measuring anew: %s", error)
        return {}
    # Another commit of the same code, such as one of a page, changes nothing.
    same = old.model == system.info and old.environment | {"git": None} == now | {"git": None}
    return old.tasks if same else {}


def read_table(folder: Path, task: TaskResult, strategy: Strategy) -> stance.Table:
    """The per-query values of a run, from beside the results.

    Raises:
        FileNotFoundError: If they are not there.
        ValueError: If they are not those the results speak of, or there is no such run.
    """
    run = task.run(strategy)
    if run is None:
        raise ValueError(
            f"{folder}: got the runs {[r.strategy for r in task.runs]}, wanted {strategy!r}; evaluate anew"
        )
    table = read_per_query(folder, run.per_query)
    return {name: column.to_numpy() for name, column in zip(table.column_names, table.columns, strict=True)}


def _compare(task: TaskResult, folder: Path, other: TaskResult, other_folder: Path, name: str) -> None:
    for run in task.runs:
        ours, theirs = read_table(folder, task, run.strategy), read_table(other_folder, other, run.strategy)
        run.compare = stance.compare(ours, theirs, name)


def _check_comparable(other: Results, tasks: dict[str, Judgements], path: str) -> None:
    for name, judged in tasks.items():
        theirs = other.tasks.get(name)
        if theirs is None:
            raise ValueError(
                f"{path}: got results of {list(other.tasks)}, wanted {name!r}; evaluate the baseline on it"
            )
        if theirs.revision != judged.revision:
            raise ValueError(
                f"{path}: its {name!r} was measured on data {theirs.revision[:12]}, wanted {judged.revision[:12]}; "
                "evaluate the baseline anew"
            )


def _default_folder(model: str) -> Path:
    if (Path(model) / encoder.SLANT_JSON).is_file():
        return Path(model) / "evaluation"
    name = Path(model).resolve().name if Path(model).is_dir() else model
    return LOCAL_RESULTS / name.replace("/", "--")
