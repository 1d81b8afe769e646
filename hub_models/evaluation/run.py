"""From a model and tasks to a results file: what ``evaluate.py`` calls.

Everything that can be wrong is looked at before the first text is encoded, and what is already measured by the same
code, for the same weights, data and template, is not measured again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hub_models import trained_claims
from hub_models.evaluation import diagnostics, nanobeir, oblique_table, stance_table
from hub_models.evaluation.ablation_results import KEY as ABLATION
from hub_models.evaluation.ablation_results import add_ablation, read_ablation
from hub_models.evaluation.measured import OWN, Measured, Table, run_name
from hub_models.evaluation.named_tasks import Task, Tasks, load_tasks
from hub_models.evaluation.nanobeir import NanoBEIR
from hub_models.evaluation.oblique import ObliqueJudgements
from hub_models.evaluation.oblique_metrics import MAIN as OBLIQUE_MAIN
from hub_models.evaluation.places import alone, check_writable, default_folder
from hub_models.evaluation.results import (
    RESULTS_NAME,
    Metric,
    Results,
    RunResult,
    Strategy,
    TaskResult,
    environment,
    read_per_query,
    write_per_query,
)
from hub_models.evaluation.stance import Judgements
from hub_models.evaluation.stance_ranking import with_ceilings
from hub_models.evaluation.systems import Encoder, LateInteraction, Reference, System, is_reference, system
from hub_models.evaluation.variants import ObliqueVariant, Variant
from hub_models.processes import rank_and_count

__all__ = ["Evaluation", "Tasks", "evaluate_model", "load_tasks", "read_table", "share_encoding"]

logger = logging.getLogger(__name__)

STANCE_MAIN = "precision_at_r"


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


def evaluate_model(
    model: str,
    tasks: Tasks,
    *,
    out: Path | None = None,
    baseline: str | None = None,
    late_interaction: bool = False,
    cache: Path | None = None,
    variants: Sequence[Variant] = (),
    oblique_variants: Sequence[ObliqueVariant] = (),
    ablation: bool = False,
    query_template: str | None = None,
    trust_remote_code: str | None = None,
) -> Evaluation:
    """Measure a model, and a baseline to compare it with, on some tasks.

    Args:
        model: Folder or Hub id, ``bm25`` or ``random``.
        tasks: From `load_tasks`.
        out: Folder for results.json and what belongs to it. Default: ``evaluation/`` inside a run folder, else
            ``results/local/NAME/``. A baseline that is measured goes to ``out/baseline`` or to its own default.
        baseline: Folder, Hub id, ``bm25``, ``random``, or the results.json of an earlier evaluation; None compares
            with nothing.
        late_interaction: The model has a vector for each token.
        cache: Folder that keeps the vectors: a killed evaluation goes on where it was, and what is measured later
            repeats to the last bit (see `Encoder.encode`).
        variants: What is measured of the stance tasks beside the dense run, each as a run of its own. The baseline is
            measured with those that take it.
        oblique_variants: The same of oblique tasks, beside their first run. The baseline is measured without them.
        ablation: Delete the words of stance queries one at a time, of model and baseline (`ablation`).
        query_template: Formats the model's queries in place of its own template: of a base, that of its adapters.
        trust_remote_code: The base whose own code may run, see `encoder.load`.

    Raises:
        FileNotFoundError: If a model, a results file or a baseline's per-query values are not there.
        OSError: If the results cannot be written to their folder; nothing is encoded then.
        BlockingIOError: If another process writes results there.
        ValueError: If the baseline's results are of other data or lack a run, its per-query values are others, a model
            gives no usable vectors, late interaction is given a stance task, or a variant no encoder that takes it or
            other tasks than its own.
    """
    stances = [name for name, judged in tasks.items() if isinstance(judged, Judgements)]
    if stances and late_interaction:
        raise ValueError(
            f"got {', '.join(stances)}, wanted oblique tasks: late interaction is not measured on stance tasks"
        )
    if oblique_variants and late_interaction:
        raise ValueError(
            f"got late interaction and the further runs {_named(oblique_variants)}, wanted a model with one vector a "
            "text, bm25 or random"
        )
    if ablation and (not stances or is_reference(model)):
        raise ValueError(
            f"got {model!r} on {', '.join(tasks)} and --ablation, wanted an encoder and a stance task: words are "
            "deleted from an instruction and a claim"
        )
    ordinary = any(isinstance(judged, NanoBEIR) for judged in tasks.values())
    if ordinary and (late_interaction or is_reference(model) or is_reference(baseline or "")):
        raise ValueError(f"got {nanobeir.NAME!r}, wanted stance or oblique tasks, or a single-vector encoder for it")
    folder = out or default_folder(model)
    other: Results | None = None
    other_folder: Path | None = None
    reference: Encoder | Reference | None = None
    if baseline is not None and baseline.endswith(".json"):
        other, other_folder = Results.read(Path(baseline)), Path(baseline).parent
        _check_comparable(other, tasks, baseline)
    elif baseline is not None:
        other_folder = out / "baseline" if out else default_folder(baseline)
        check_writable(other_folder)
    check_writable(folder)
    measurable = LateInteraction(model) if late_interaction else system(model, cache, trust_remote_code)
    if query_template is not None and isinstance(measurable, Encoder):
        measurable.query_template = query_template
    refused = [v for v in variants if not (isinstance(measurable, Encoder) and v.takes(measurable))]
    if refused:
        raise ValueError(f"{model}: got {_named(refused)}, wanted what this model can do; {refused[0].needs}")
    if baseline is not None and other_folder is not None and other is None:
        reference = system(baseline, cache, trust_remote_code)
        taken = [v for v in variants if isinstance(reference, Encoder) and v.takes(reference)]
        with alone(other_folder, wait=True):  # a baseline is often everybody's
            other = _measure(reference, tasks, other_folder, taken, ablation=ablation)
    base = reference if isinstance(reference, Encoder) and reference.is_base_of(measurable) else None
    with alone(folder):
        results = _measure(measurable, tasks, folder, variants, base, oblique_variants, ablation)
        if other is not None and other_folder is not None:
            for name in tasks:
                ours, theirs = (results.tasks[name], folder), (other.tasks[name], other_folder)
                _compare(tasks[name], *ours, *theirs, other.model.id)
            results.write(folder / RESULTS_NAME)
    return Evaluation(results, folder, other, other_folder, tasks)


def share_encoding(
    model: str, tasks: Tasks, cache: Path | None, baseline: str | None = None, trust_remote_code: str | None = None
) -> bool:
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
        measurable = system(name, cache, trust_remote_code)
        for judged in tasks.values():
            if isinstance(measurable, Encoder) and isinstance(judged, ObliqueJudgements):
                measurable.share(judged)
    return True


def _named(variants: Sequence[Variant | ObliqueVariant]) -> str:
    return ", ".join(run_name(v.strategy, v.params) for v in variants)


def _measure(
    measurable: System,
    tasks: Tasks,
    folder: Path,
    variants: Sequence[Variant] = (),
    base: Encoder | None = None,
    oblique_variants: Sequence[ObliqueVariant] = (),
    ablation: bool = False,
) -> Results:
    """Bring ``folder/results.json`` up to date for these tasks. Tasks measured by other code or weights are
    dropped, and so are those whose per-query values are not theirs, as a kill between the two files leaves them."""
    path = folder / RESULTS_NAME
    now = environment(measurable.device)
    finished = _finished(path, measurable, now) if measurable.pinned else {}
    results = Results(model=measurable.info, environment=now, tasks=dict(finished))
    for name, judged in tasks.items():
        task = finished.get(name)
        if task is None or not _is_of(task, judged, measurable):
            task = _task(measurable, judged, name)
            for strategy, found in measurable.search(judged, base).items():
                task.runs.append(_run(folder, name, judged, strategy, found))
            results.tasks[name] = task
            results.write(path)
        else:
            logger.info("%s on %s: already measured, %s", measurable.info.id, name, path)
        further: Sequence[Variant | ObliqueVariant] = variants if isinstance(judged, Judgements) else oblique_variants
        for variant in further:
            if task.run(variant.strategy, variant.params) is None and not isinstance(judged, NanoBEIR):
                logger.info("%s on %s: %s", measurable.info.id, name, run_name(variant.strategy, variant.params))
                task.runs.append(_variant_run(folder, task, name, judged, variant, measurable))
                results.write(path)
        can = isinstance(judged, Judgements) and isinstance(measurable, Encoder)  # a baseline may be no encoder
        dense = task.run("dense") if ablation and can else None
        if dense is not None and ABLATION not in dense.diagnostics:
            assert isinstance(judged, Judgements) and isinstance(measurable, Encoder)
            logger.info("%s on %s: word ablation", measurable.info.id, name)
            stem = f"{name.replace(':', '-')}-ablation"
            add_ablation(folder, stem, dense, judged, measurable.encode_once, measurable.query_template)
            results.write(path)
    return results


def _is_of(task: TaskResult, judged: Task, measurable: System) -> bool:
    """Whether the first runs of a task are those of this data, template and way of scoring."""
    cut = measurable.max_query_length if isinstance(measurable, Encoder) else None
    cut = cut if isinstance(judged, ObliqueJudgements) else None
    found = (task.revision, task.query_template, task.runs[0].params, task.counts.get("query_tokens"))
    return not nanobeir.is_missing(task) and found == (
        judged.revision,
        measurable.query_template,
        measurable.params,
        cut,
    )


def _task(measurable: System, judged: Task, name: str) -> TaskResult:
    counts = judged.counts()
    if isinstance(measurable, Encoder) and isinstance(judged, Judgements):
        counts["trained_on"] = len(measurable.trained_claims & trained_claims.ids(c.claim for c in judged.claims))
    if isinstance(measurable, Encoder) and isinstance(judged, ObliqueJudgements):
        counts["trained_on"] = len(measurable.trained_claims & trained_claims.ids(q.text for q in judged.queries))
        if measurable.max_query_length is not None:
            counts["query_tokens"] = measurable.max_query_length
    sizes = ", ".join(f"{counts[unit]} {unit}" for unit in ("queries", "documents", "datasets") if unit in counts)
    logger.info("%s on %s: %s", measurable.info.id, name, sizes)
    return TaskResult(
        dataset=judged.source,
        revision=judged.revision,
        query_template=measurable.query_template,
        counts=counts,
        runs=[],
    )


def _run(folder: Path, name: str, judged: Task, strategy: Strategy, found: Measured) -> RunResult:
    """Write a run's per-query values, and read its means off them."""
    slices, behind = _read(judged, found.table)
    for slice_name, metrics in found.metrics.items():
        slices[slice_name] |= metrics
    return RunResult(
        strategy=strategy,
        params=found.params,
        seed=found.seed,
        slices=slices,
        compare=[],
        diagnostics=behind | found.diagnostics,
        per_query=write_per_query(folder, f"{name.replace(':', '-')}-{run_name(strategy, found.params)}", found.table),
        timing=found.timing,
    )


def _variant_run(
    folder: Path,
    task: TaskResult,
    name: str,
    judged: Judgements | ObliqueJudgements,
    variant: Variant | ObliqueVariant,
    measurable: System,
) -> RunResult:
    found = variant.measure(judged, measurable)  # type: ignore[arg-type]  # evaluate_model has seen to it
    table = found.table
    first = read_table(folder, task, task.runs[0].strategy, task.runs[0].params)
    if isinstance(judged, Judgements):
        table = with_ceilings(table, read_table(folder, task, "claim_only"))
    run = _run(folder, name, judged, variant.strategy, replace(found, table=table, params=variant.params))
    compare = stance_table.compare if isinstance(judged, Judgements) else oblique_table.compare
    run.compare = compare(table, _those_of(first, table), OWN)
    return run


def _those_of(table: Table, asked: Table) -> Table:
    """The rows of the queries in another table: a variant may be asked with the unseen instructions alone."""
    rows = np.isin(table["query_id"].astype(str), asked["query_id"].astype(str))
    return {name: column[rows] for name, column in table.items()}


def _read(judged: Task, table: Table) -> tuple[dict[str, dict[str, Metric]], dict[str, Any]]:
    """The slices and the diagnostics of a table."""
    if isinstance(judged, ObliqueJudgements):
        return oblique_table.summarise(table, len(judged.documents)), diagnostics.describe(table, OBLIQUE_MAIN)
    if isinstance(judged, NanoBEIR):
        return nanobeir.summarise(table), {}
    behind = diagnostics.describe(diagnostics.comparable(table), STANCE_MAIN)
    return stance_table.summarise(table), {**stance_table.diagnostics(table), "behind": behind}


def _finished(path: Path, measurable: System, now: dict[str, Any]) -> dict[str, TaskResult]:
    """The tasks of an existing results file that this code made for these weights, if all of a task is still there."""
    if not path.exists():
        return {}
    try:
        old = Results.read(path)
    except (ValueError, OSError) as error:
        logger.warning("measuring anew: %s", error)
        return {}
    # Another commit of the same code, such as one of a page, changes nothing.
    if old.model != measurable.info or old.environment | {"git": None} != now | {"git": None}:
        return {}
    finished = {}
    for name, task in old.tasks.items():
        try:
            for run in task.runs:
                read_per_query(path.parent, run.per_query)
                read_ablation(path.parent, run)
        except (ValueError, OSError) as error:
            logger.warning("measuring %s anew: %s", name, error)
        else:
            finished[name] = task
    return finished


def read_table(folder: Path, task: TaskResult, strategy: Strategy, params: dict[str, Any] | None = None) -> Table:
    """The per-query values of a run, from beside the results; without ``params`` of the first of that strategy.

    Raises:
        FileNotFoundError: If they are not there.
        ValueError: If they are not those the results speak of, or there is no such run.
    """
    run = task.run(strategy, params)
    if run is None:
        runs = [run_name(r.strategy, r.params) for r in task.runs]
        raise ValueError(f"{folder}: got the runs {runs}, wanted {strategy!r}; evaluate anew")
    table = read_per_query(folder, run.per_query)
    return {name: column.to_numpy() for name, column in zip(table.column_names, table.columns, strict=True)}


def _compare(judged: Task, task: TaskResult, folder: Path, other: TaskResult, other_folder: Path, name: str) -> None:
    """Hold each run against the baseline's run of the same kind, or against its first one. Bare claims of a stance
    task are other queries, so they have no other run to be held against."""
    is_oblique, is_ordinary = isinstance(judged, ObliqueJudgements), isinstance(judged, NanoBEIR)
    family = oblique_table if is_oblique else nanobeir if is_ordinary else stance_table
    for run in task.runs:
        theirs = other.run(run.strategy, run.params) or other.run(run.strategy, {})
        if theirs is None and run.strategy == "claim_only" and not is_oblique:
            continue
        theirs = theirs or other.runs[0]
        ours = read_table(folder, task, run.strategy, run.params)
        baseline = read_table(other_folder, other, theirs.strategy, theirs.params)
        baseline = baseline if is_ordinary else _those_of(baseline, ours)
        own = [c for c in run.compare if c.baseline == OWN]
        run.compare = [*own, *family.compare(ours, baseline, name)]
        if is_ordinary:
            continue
        pair = diagnostics.comparable(ours), diagnostics.comparable(baseline)
        contrast = diagnostics.contrast(*pair, OBLIQUE_MAIN if is_oblique else STANCE_MAIN)
        run.diagnostics["against"] = {"baseline": name, "strategy": theirs.strategy, **contrast}


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
        if not theirs.runs:
            raise ValueError(f"{path}: its {name!r} has no run, wanted at least one; evaluate the baseline anew")
        for run in theirs.runs:
            read_per_query(Path(path).parent, run.per_query)
