"""NanoBEIR through mteb: what tuning for stance costs in ordinary retrieval.

Thirteen small English data sets of questions and passages. Their texts are on the Hub alone; where it is not reached
the result is null, with the reason. Queries and documents are encoded bare, by base and adapter alike: an instruction
that asks for a stance has no place here.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from hub_models.evaluation.measured import Measured, Table
from hub_models.evaluation.results import Comparison, Metric, Results, TaskResult
from hub_models.evaluation.significance import paired_differences

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

NAME = "nanobeir"
METRIC = "ndcg_at_10"


@dataclass(frozen=True, eq=False)
class NanoBEIR:
    """The benchmark.

    Attributes:
        tasks: mteb's tasks.
        source: Its name.
    """

    tasks: tuple[Any, ...]
    source: str = NAME

    @property
    def revision(self) -> str:
        """SHA-256 of the data sets' names and commits."""
        pinned = [[t.metadata.name, t.metadata.dataset] for t in self.tasks]
        return hashlib.sha256(json.dumps(pinned, sort_keys=True).encode()).hexdigest()

    def counts(self) -> dict[str, Any]:
        """How many data sets."""
        return {"datasets": len(self.tasks)}


@cache
def load() -> NanoBEIR:
    """mteb's own thirteen tasks; nothing is fetched yet."""
    import mteb

    return NanoBEIR(tuple(mteb.get_benchmark("NanoBEIR").tasks))


def evaluate(judged: NanoBEIR, model: SentenceTransformer) -> Measured:
    """NDCG@10 of each data set, one row a data set; no row, and a null with the reason, where one cannot be had."""
    import mteb

    start = time.perf_counter()
    for task in judged.tasks:
        try:
            task.load_data()
        except (OSError, ValueError) as error:
            reason = f"{task.metadata.name} cannot be had: {str(error).splitlines()[0][:200]}"
            missing = Metric(mean=None, std=None, n=0, reason=reason)
            return Measured(_table({}), {}, metrics={"overall": {METRIC: missing}})
    with _bare(model):
        found = mteb.evaluate(
            model,
            list(judged.tasks),
            cache=None,  # mteb would file every model held in memory under one name
            encode_kwargs={"show_progress_bar": False},
        )
    values = {r.task_name: next(iter(r.scores.values()))[0][METRIC] for r in found.task_results}
    return Measured(_table(values), {"encode_and_rank_s": time.perf_counter() - start})


def _table(values: dict[str, float]) -> Table:
    return {"query_id": np.array(sorted(values), object), METRIC: np.array([values[k] for k in sorted(values)], float)}


@contextmanager
def _bare(model: SentenceTransformer) -> Iterator[None]:
    """Inside, mteb finds no prompt to put before a text, and compares by cosine."""
    before = model.prompts, model.default_prompt_name, model.similarity_fn_name
    model.prompts, model.default_prompt_name = {"query": "", "document": ""}, None
    model.similarity_fn_name = "cosine"
    try:
        yield
    finally:
        model.prompts, model.default_prompt_name, model.similarity_fn_name = before


def summarise(table: Table) -> dict[str, dict[str, Metric]]:
    """The mean over data sets, as NanoBEIR is reported."""
    return {"overall": {METRIC: Metric.over(table[METRIC])}}


def is_missing(task: TaskResult) -> bool:
    """Whether the data could not be had, so that a later evaluation tries again."""
    return "datasets" in task.counts and all(run.mean("overall", METRIC) is None for run in task.runs)


def compare(table: Table, baseline: Table, name: str) -> list[Comparison]:
    """The paired difference over the data sets that both have, with an interval that resamples data sets."""
    theirs = dict(zip(baseline["query_id"], baseline[METRIC], strict=True))
    shared = [i for i, key in enumerate(table["query_id"]) if key in theirs]
    if not shared:
        return []
    names = [str(table["query_id"][i]) for i in shared]
    differences = np.array([[table[METRIC][i] - theirs[table["query_id"][i]]] for i in shared])
    (found,) = paired_differences(differences, names)
    reason = "one data set gives nothing to resample" if found.low is None else None
    return [Comparison(baseline=name, slice="overall", metric=METRIC, **asdict(found), unit="data set", reason=reason)]


def nanobeir_table(results: Results, task_name: str, baseline: Results | None = None) -> str:
    """The mean over data sets, beside a baseline's if there is one; why there is none, where there is none."""
    task = results.tasks[task_name]
    name = "tuned" if results.model.adapter_sha256 else "model"
    beside = [("base", baseline.tasks[task_name])] if baseline else []
    lines = ["", f"{task_name} · mean NDCG@10 over {task.counts['datasets']} data sets, queries and documents bare"]
    for label, found in [*beside, (name, task)]:
        metric = found.runs[0].slices["overall"][METRIC]
        lines.append(f"  {label:<17}{f'n/a: {metric.reason}' if metric.mean is None else f'{metric.mean:.3f}'}")
    for c in task.runs[0].compare if baseline else ():
        interval = "" if c.low is None or c.high is None else f" [{c.low:+.3f}, {c.high:+.3f}], data sets resampled"
        lines.append(f"  {'difference':<17}{c.delta:+.3f}{interval}")
    return "\n".join(lines) + "\n"
