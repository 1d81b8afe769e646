"""From a model and task names to a results file: what ``evaluate.py`` calls.

Everything that can be wrong is looked at before the first text is encoded, and what is already measured by the same
code, for the same weights, data and template, is not measured again.
"""

from __future__ import annotations

import logging
import re
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sentence_transformers import SentenceTransformer

from dataset_builders.schema import Split
from dataset_builders.sources import SOURCES, load, obliq_bench
from dataset_builders.sources import oblique as oblique_sources
from dataset_builders.text import did_you_mean
from hub_models import encoder, trained_claims
from hub_models.adapter import adapter_off
from hub_models.corpus import encode_corpus
from hub_models.evaluation import diagnostics, oblique, stance
from hub_models.evaluation.metrics import Float32
from hub_models.evaluation.oblique import ObliqueJudgements
from hub_models.evaluation.results import (
    RESULTS_NAME,
    Metric,
    ModelInfo,
    Results,
    RunResult,
    Strategy,
    TaskResult,
    environment,
    read_per_query,
    write_per_query,
)
from hub_models.evaluation.stance import Judgements, Measured
from hub_models.evaluation.systems import REFERENCES, LateInteraction, Reference, is_reference
from hub_models.processes import rank_and_count

logger = logging.getLogger(__name__)

FAMILY = "stance"
OBLIQUE = "obliq"
STANCE_MAIN = "precision_at_r"
LOCAL_RESULTS = Path("results") / "local"

_SOURCE = re.compile(r"[a-z0-9][a-z0-9_.-]{,99}")  # it names files

Tasks = dict[str, Judgements | ObliqueJudgements]


@dataclass(frozen=True, eq=False, slots=True)
class Evaluation:
    """What was measured and where it lies."""

    results: Results
    folder: Path
    baseline: Results | None
    baseline_folder: Path | None
    judged: Tasks

    @property
    def results_path(self) -> Path:
        return self.folder / RESULTS_NAME


def load_tasks(names: Sequence[str], data: Path | None, split: Split, *, allow_dangling: bool = False) -> Tasks:
    """The tasks by name, with their data checked. The key of a task on another split than ``test`` ends in ``:split``.

    Args:
        names: ``{source}-stance`` or ``{source}-obliq-{task}`` each, or ``stance`` or ``obliq`` for all of a family
            whose data is at hand.
        data: Takes the place of the data of the one task named, which may then have any source.
        split: ``test`` or ``validation``.
        allow_dangling: Take oblique judgements of documents that are not in the corpus.

    Raises:
        ValueError: If a name is unknown or cannot name a file, ``data`` is given with several names, or the data is
            faulty.
        FileNotFoundError: If there is nothing at ``data``, or the Hub's data cannot be had.
    """
    families = {
        FAMILY: ["sample-stance"],  # the embedded one
        OBLIQUE: [_oblique_name(*pair) for pair in oblique_sources.at_hand()] if OBLIQUE in names else [],
    }
    known = [f"{source}-{FAMILY}" for source in SOURCES]
    known += [_oblique_name(source, task) for source, tasks in oblique_sources.SOURCES.items() for task in tasks]
    if data is not None and (len(names) != 1 or names[0] in families):
        raise ValueError(f"got --data and the tasks {list(names)}, wanted one task by name, whose data it replaces")
    expanded = dict.fromkeys(name for given in names for name in families.get(given, [given]))
    for name in expanded:
        source, family, task = _parts(name)
        if not source or (data is None and name not in known) or (family == OBLIQUE and task not in obliq_bench.TASKS):
            raise ValueError(
                f"got the task {name!r}, wanted one of {known}, {FAMILY!r} or {OBLIQUE!r} for all that are at hand, "
                f"or any 'NAME-{FAMILY}' or 'NAME-{OBLIQUE}-TASK' with --data.{did_you_mean(name, known)}"
            )
        if not _SOURCE.fullmatch(source):
            raise ValueError(
                f"got the task {name[:120]!r}, wanted a source of at most 100 of a-z, 0-9, '_', '.' and '-', "
                "beginning with a letter or digit: it names files"
            )
        if allow_dangling and family != OBLIQUE:
            raise ValueError(f"{name}: --allow-dangling is for oblique tasks; stance data has no judgements apart")
    loaded: Tasks = {}
    for name in expanded:
        source, family, task = _parts(name)
        key = name if split == "test" else f"{name}:{split}"
        if family == OBLIQUE:
            oblique_data = oblique_sources.load(source, task, data, allow_dangling=allow_dangling)
            loaded[key] = oblique.judge(oblique_data, source, split)
        else:
            loaded[key] = stance.judge(load(source, data), split)
    return loaded


def _oblique_name(source: str, task: str) -> str:
    return f"{source}-{OBLIQUE}-{task}"


def _parts(name: str) -> tuple[str, str, str]:
    """Source, family and, in an oblique name, task; an empty source where the name is of neither form."""
    source, found, task = name.rpartition(f"-{OBLIQUE}-")
    if found:
        return source, OBLIQUE, task
    source = name.removesuffix(f"-{FAMILY}")
    return ("" if source == name else source), FAMILY, ""


def evaluate_model(
    model: str,
    tasks: Tasks,
    *,
    out: Path | None = None,
    baseline: str | None = None,
    late_interaction: bool = False,
    cache: Path | None = None,
) -> Evaluation:
    """Measure a model, and a baseline to compare it with, on some tasks.

    Args:
        model: Folder or Hub id; ``bm25`` or ``random`` on oblique tasks.
        tasks: From `load_tasks`.
        out: Folder for results.json and what belongs to it. Default: ``evaluation/`` inside a run folder, else
            ``results/local/NAME/``. A baseline that is measured goes to ``out/baseline`` or to its own default.
        baseline: Folder, Hub id, ``bm25``, ``random``, or the results.json of an earlier evaluation; None compares
            with nothing.
        late_interaction: The model has a vector for each token.
        cache: Folder that keeps the vectors of oblique tasks: a killed evaluation goes on where it was.

    Raises:
        FileNotFoundError: If a model, a results file or a baseline's per-query values are not there.
        OSError: If the results cannot be written to their folder; nothing is encoded then.
        ValueError: If the baseline's results are of other data or lack a run, its per-query values are others, a model
            gives no usable vectors, or one that only oblique tasks can take is given a stance task.
    """
    stances = [name for name, judged in tasks.items() if isinstance(judged, Judgements)]
    if stances and (late_interaction or is_reference(model) or is_reference(baseline or "")):
        raise ValueError(
            f"got {', '.join(stances)}, wanted oblique tasks: {' and '.join(REFERENCES)} and late interaction are not "
            "measured on stance tasks"
        )
    folder = out or _default_folder(model)
    other: Results | None = None
    other_folder: Path | None = None
    reference: _Measurable | None = None
    if baseline is not None and baseline.endswith(".json"):
        other, other_folder = Results.read(Path(baseline)), Path(baseline).parent
        _check_comparable(other, tasks, baseline)
    elif baseline is not None:
        other_folder = out / "baseline" if out else _default_folder(baseline)
        _check_writable(other_folder)
    _check_writable(folder)
    system = LateInteraction(model) if late_interaction else _system(model, cache)
    if baseline is not None and other_folder is not None and other is None:
        reference = _system(baseline, cache)
        other = _measure(reference, tasks, other_folder)
    base = reference if isinstance(reference, _System) and reference.is_base_of(system) else None
    results = _measure(system, tasks, folder, base=base)
    if other is not None and other_folder is not None:
        for name in tasks:
            ours, theirs = (results.tasks[name], folder), (other.tasks[name], other_folder)
            _compare(isinstance(tasks[name], ObliqueJudgements), *ours, *theirs, other.model.id)
        results.write(folder / RESULTS_NAME)
    return Evaluation(results, folder, other, other_folder, tasks)


def share_encoding(model: str, tasks: Tasks, cache: Path | None, baseline: str | None = None) -> bool:
    """Do a further process's part of an evaluation: encode the texts of oblique tasks into the cache that all share.

    Returns:
        Whether this process was a further one, and is done now. The first one measures and writes.

    Raises:
        ValueError: If there are several processes and no cache.
    """
    rank, processes = rank_and_count()
    if processes > 1 and cache is None:
        raise ValueError(f"{processes} processes share the work through a folder: give --cache DIR")
    if rank == 0:
        return False
    for name in [*([] if baseline is None or baseline.endswith(".json") else [baseline]), model]:  # as the first does
        system = _system(name, cache)
        for judged in tasks.values():
            if isinstance(system, _System) and isinstance(judged, ObliqueJudgements):
                system.share(judged)
    return True


class _System:
    """An encoder under test. Texts of stance tasks that it has encoded once are not encoded again."""

    params: ClassVar[dict[str, Any]] = {}
    seed = None

    def __init__(self, path_or_id: str, cache: Path | None = None) -> None:
        self._cache = cache
        self._loaded: SentenceTransformer = encoder.load(path_or_id)
        self.info = ModelInfo(**asdict(encoder.identity(self._loaded, path_or_id)))
        self.query_template = encoder.query_template_of(path_or_id)
        self.trained_claims = trained_claims.read(path_or_id)
        self._vectors: dict[str, Float32] = {}

    @property
    def device(self) -> str:
        return str(self._loaded.device)

    @property
    def pinned(self) -> bool:
        """Whether the identity names the weights beyond doubt, as a folder of full weights does not."""
        return bool(self.info.revision or (self.info.adapter_sha256 and self.info.base_revision))

    def is_base_of(self, other: _Measurable) -> bool:
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

    def search(self, judged: ObliqueJudgements) -> dict[Strategy, Measured]:
        """The runs on an oblique task, whose corpus may be too large to be remembered."""
        return oblique.evaluate(judged, self.query_template, self._encode_kept)

    def share(self, judged: ObliqueJudgements) -> None:
        """Encode what `search` will want, into the cache."""
        self._encode_kept(oblique.all_texts(judged, self.query_template))

    def _encode_kept(self, texts: Sequence[str]) -> Float32:
        return encode_corpus(texts, self._loaded, cache_dir=self._cache)


_Measurable = _System | Reference | LateInteraction


def _system(name: str, cache: Path | None) -> _System | Reference:
    for reference in REFERENCES:
        if name == reference and is_reference(name):
            return Reference(reference)
    return _System(name, cache)


def _measure(system: _Measurable, tasks: Tasks, folder: Path, base: _System | None = None) -> Results:
    """Bring ``folder/results.json`` up to date for these tasks. Tasks measured by other code or weights are
    dropped, and so are those whose per-query values are not theirs, as a kill between the two files leaves them."""
    path = folder / RESULTS_NAME
    now = environment(system.device)
    finished = _finished(path, system, now) if system.pinned else {}
    results = Results(model=system.info, environment=now, tasks=dict(finished))
    for name, judged in tasks.items():
        old = finished.get(name)
        if (
            old
            and (old.revision, old.query_template) == (judged.revision, system.query_template)
            and all(run.params == system.params for run in old.runs)
        ):
            logger.info("%s on %s: already measured, %s", system.info.id, name, path)
            continue
        counts = judged.counts()
        if isinstance(system, _System) and isinstance(judged, Judgements):
            counts["trained_on"] = len(system.trained_claims & trained_claims.ids(c.claim for c in judged.claims))
        logger.info("%s on %s: %d queries, %d documents", system.info.id, name, counts["queries"], counts["documents"])
        runs = []
        for strategy, found in _search(system, judged, base).items():
            slices, behind = _read(judged, found.table)
            runs.append(
                RunResult(
                    strategy=strategy,
                    params=system.params,
                    seed=system.seed,
                    slices=slices,
                    compare=[],
                    diagnostics=behind,
                    per_query=write_per_query(folder, f"{name.replace(':', '-')}-{strategy}", found.table),
                    timing=found.timing,
                )
            )
        results.tasks[name] = TaskResult(
            dataset=judged.source,
            revision=judged.revision,
            query_template=system.query_template,
            counts=counts,
            runs=runs,
        )
        results.write(path)
    return results


def _search(
    system: _Measurable, judged: Judgements | ObliqueJudgements, base: _System | None
) -> dict[Strategy, Measured]:
    if isinstance(judged, ObliqueJudgements):
        return system.search(judged)
    if not isinstance(system, _System):
        raise TypeError(f"{system.info.id} is no single-vector encoder")  # refused in evaluate_model
    encode_base = base.encode if base else system.encode_base if system.info.adapter_sha256 else None
    return stance.evaluate(judged, system.query_template, system.encode, encode_base)


def _read(
    judged: Judgements | ObliqueJudgements, table: stance.Table
) -> tuple[dict[str, dict[str, Metric]], dict[str, Any]]:
    """The slices and the diagnostics of a table."""
    if isinstance(judged, ObliqueJudgements):
        return oblique.summarise(table, len(judged.documents)), diagnostics.describe(table, oblique.MAIN)
    behind = diagnostics.describe(diagnostics.comparable(table), STANCE_MAIN)
    return stance.summarise(table), {**stance.diagnostics(table), "behind": behind}


def _finished(path: Path, system: _Measurable, now: dict[str, Any]) -> dict[str, TaskResult]:
    """The tasks of an existing results file that this code made for these weights, if all of a task is still there."""
    if not path.exists():
        return {}
    try:
        old = Results.read(path)
    except (ValueError, OSError) as error:
        logger.warning("measuring anew: %s", error)
        return {}
    # Another commit of the same code, such as one of a page, changes nothing.
    if old.model != system.info or old.environment | {"git": None} != now | {"git": None}:
        return {}
    finished = {}
    for name, task in old.tasks.items():
        try:
            for run in task.runs:
                read_per_query(path.parent, run.per_query)
        except (ValueError, OSError) as error:
            logger.warning("measuring %s anew: %s", name, error)
        else:
            finished[name] = task
    return finished


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


def _compare(
    is_oblique: bool, task: TaskResult, folder: Path, other: TaskResult, other_folder: Path, name: str
) -> None:
    """Hold each run against the baseline's run of the same strategy, or against its first one."""
    for run in task.runs:
        theirs = run.strategy if other.run(run.strategy) else other.runs[0].strategy
        ours, baseline = read_table(folder, task, run.strategy), read_table(other_folder, other, theirs)
        run.compare = (oblique if is_oblique else stance).compare(ours, baseline, name)
        pair = diagnostics.comparable(ours), diagnostics.comparable(baseline)
        contrast = diagnostics.contrast(*pair, oblique.MAIN if is_oblique else STANCE_MAIN)
        run.diagnostics["against"] = {"baseline": name, "strategy": theirs, **contrast}


def _check_comparable(other: Results, tasks: Tasks, path: str) -> None:
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
        wanted = ["dense", "claim_only"] if isinstance(judged, Judgements) else []
        runs: list[str] = [run.strategy for run in theirs.runs]
        if not runs or not set(wanted) <= set(runs):
            raise ValueError(
                f"{path}: its {name!r} has the runs {runs}, wanted {wanted or 'at least one'}; evaluate the baseline "
                "anew"
            )
        for run in theirs.runs:
            read_per_query(Path(path).parent, run.per_query)


def _check_writable(folder: Path) -> None:
    """Refuse a folder that results cannot be written to, and leave nothing in it."""
    if (folder / RESULTS_NAME).is_dir():
        raise IsADirectoryError(f"{folder / RESULTS_NAME}: got a folder, wanted a file; move it or give another --out")
    for place in (folder, folder / "per_query", folder / "figures"):
        nearest = next(p for p in (place, *place.parents) if p.exists() or p.is_symlink())
        if not nearest.is_dir():
            raise NotADirectoryError(f"{nearest}: got no folder, wanted one; move it or give another --out")
        try:
            with tempfile.TemporaryFile(dir=nearest):
                pass
        except OSError as error:
            raise type(error)(
                error.errno, f"{error.strerror}: cannot write results there; give another --out", str(nearest)
            ) from error


def _default_folder(model: str) -> Path:
    if (Path(model) / encoder.SLANT_JSON).is_file():
        return Path(model) / "evaluation"
    name = Path(model).resolve().name if Path(model).is_dir() else model
    return LOCAL_RESULTS / name.replace("/", "--")
