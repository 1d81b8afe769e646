"""How oblique a set of queries is, beside the benchmark's own (O appendix J)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tqdm import tqdm

from dataset_builders.checks import show
from dataset_builders.choices import ObliqueTaskName
from dataset_builders.oblique.statistics import mean_overlap, overlap
from dataset_builders.rows import files_of, one_of, read_rows
from dataset_builders.sources import obliq_bench
from dataset_builders.sources.obliq_bench import TASKS, ObliqueTask
from dataset_builders.text import check_text, did_you_mean

Pairs = list[tuple[str, str]]


def read_pairs(path: Path, task: str | None = None) -> dict[tuple[ObliqueTaskName, str], Pairs]:
    """Queries with their documents, by task and lens (empty where the rows name none).

    Args:
        path: JSONL or parquet, or a folder of them, with the columns ``query`` and ``positive`` of oblique training
            rows; ``task`` and ``lens`` are read, others are not. ReasonIR's ``pos``, a list, stands for ``positive``,
            and a text may be a pair of instruction and text.
        task: The task of all rows; by default each says its own.

    Raises:
        FileNotFoundError: If there is nothing at ``path``.
        ValueError: If there is no row, or one without query, document or task.
    """
    pairs: dict[tuple[ObliqueTaskName, str], Pairs] = {}
    for file in files_of(path):
        for where, row in read_rows(file):
            documents = row.get("pos", [row["positive"]] if "positive" in row else None)
            if "query" not in row or not documents:
                known = ("query", "positive", "task", "lens")
                hints = "".join(did_you_mean(key, known) for key in row if key not in known)
                raise ValueError(f"{where}: got the keys {list(row)}, wanted query and positive.{hints}")
            if not isinstance(documents, list):
                raise ValueError(f"{where}: pos: got {type(documents).__name__}, wanted a list of documents")
            named = task or row.get("task")
            if named is None:
                raise ValueError(f"{where}: the row names no task; give one with --task: {list(TASKS)}")
            key = one_of("task", named, TASKS, where), str(row.get("lens") or "")
            query = _text(row["query"], f"{where}: query")
            found = pairs.setdefault(key, [])
            found += [(query, _text(document, f"{where}: positive")) for document in documents]
    if not pairs:
        raise ValueError(f"{path}: there is no row in it; wanted queries with their documents")
    return pairs


def _text(value: object, where: str) -> str:
    return check_text(value[1] if isinstance(value, list) and len(value) == 2 else value, where)


def own_pairs(task: ObliqueTask) -> Pairs:
    """A benchmark's own queries with their gold documents."""
    return [
        (task.queries[query].text, task.corpus[document].text)
        for query, grades in task.qrels.items()
        for document, grade in grades.items()
        if grade > 0
    ]


def measure(
    pairs: Mapping[tuple[ObliqueTaskName, str], Pairs], folder: Path | None = None
) -> dict[str, dict[str, float]]:
    """Rows of O table J.1 by name: each task's reference, then its queries by lens.

    Args:
        pairs: Of `read_pairs`.
        folder: The benchmark, in the layout of OBLIQ-Bench; the embedded sample if there is none.

    Raises:
        FileNotFoundError: If a file of the benchmark is missing.
        ValueError: For what `obliq_bench.read` refuses, or if its queries have no gold.
    """
    whose = "the sample's own queries" if folder is None else "the benchmark's own queries"
    rows: dict[str, Pairs] = {}
    for task in dict.fromkeys(task for task, _ in pairs):
        own = own_pairs(obliq_bench.read(task, folder))
        if not own:
            raise ValueError(f"{task}: the benchmark has no relevant document, so there is nothing to compare with")
        rows[f"{task}: {whose}"] = own
        rows |= {f"{task}: {lens or 'queries'}": found for (name, lens), found in pairs.items() if name == task}
    return {
        name: mean_overlap([overlap(q, d) for q, d in tqdm(found, desc=name, unit=" pairs", delay=2)])
        for name, found in rows.items()
    }


def table(rows: Mapping[str, Mapping[str, float]]) -> list[list[str]]:
    """The rows as cells, under a header."""
    header = ["queries", "n", "Jaccard", "coverage", "5-letter", "highest", "entities leaked"]
    return [header, *([name, *(show(figure) for figure in row.values())] for name, row in rows.items())]
