"""Small oblique tasks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from dataset_builders.choices import ObliqueTaskName
from dataset_builders.schema import Split
from dataset_builders.sources.obliq_bench import FOLDERS, ObliqueTask, ObliqueText, Qrels


def oblique_task(
    documents: dict[str, str],
    queries: dict[str, str],
    qrels: Qrels,
    excluded: dict[str, set[str]] | None = None,
    pooled: Qrels | None = None,
    *,
    splits: dict[str, Split] | None = None,
    attributes: dict[str, str] | None = None,
    task: ObliqueTaskName = "math",
    allow_dangling: bool = False,
) -> ObliqueTask:
    return ObliqueTask(
        task,
        {i: ObliqueText(t, None, None, {}) for i, t in documents.items()},
        {i: ObliqueText(t, (attributes or {}).get(i), (splits or {}).get(i), {}) for i, t in queries.items()},
        qrels,
        {i: frozenset(d) for i, d in (excluded or {}).items()},
        pooled,
        allow_dangling,
    )


def random_task(seed: int, n_documents: int = 1300, n_queries: int = 9) -> ObliqueTask:
    """Texts that repeat, grades of 0, 1 and 2, queries without a relevant document, exclusions of up to 3, a pool."""
    rng = np.random.default_rng(seed)
    documents = {f"d{i}": f"text {rng.integers(n_documents)}" for i in range(n_documents)}
    queries = {f"q {i}": f"query {i}" for i in range(n_queries)}
    qrels: Qrels = {}
    pooled: Qrels = {}
    excluded = {}
    for i, query in enumerate(queries):
        judged = rng.choice(n_documents, 30, replace=False)
        qrels[query] = {f"d{d}": int(rng.integers(0, 3)) if i else 0 for d in judged[:15]}
        pooled[query] = qrels[query] | {f"d{d}": int(rng.integers(0, 2)) for d in judged[15:]}
        excluded[query] = {f"d{d}" for d in rng.choice(n_documents, rng.integers(0, 4), replace=False)}
        excluded[query] |= {f"d{judged[0]}"} if i == 1 else set()
    return oblique_task(documents, queries, qrels, excluded, pooled)


def write_layout(root: Path, task: ObliqueTask) -> Path:
    """The task as a folder in the layout of OBLIQ-Bench."""
    folder = root / FOLDERS[task.task]
    for name in ("corpus", "queries+qrels"):
        (folder / name).mkdir(parents=True)
    for name, texts in (("corpus/corpus.jsonl", task.corpus), ("queries+qrels/queries.jsonl", task.queries)):
        rows = [{"_id": i, "text": t.text, "metadata": t.metadata} for i, t in texts.items()]
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, qrels in (("qrels.tsv", task.qrels), ("qrels_pool.tsv", task.pooled)):
        if qrels is not None:
            lines = [f"{q}\t{d}\t{grade}" for q, grades in qrels.items() for d, grade in grades.items()]
            (folder / "queries+qrels" / name).write_text("\n".join(["query-id\tcorpus-id\tscore", *lines]) + "\n")
    if task.excluded:
        excluded = {q: sorted(d) for q, d in task.excluded.items()}
        (folder / "queries+qrels" / "per_query_excluded_ids.json").write_text(json.dumps(excluded))
    return root


def topical_task(n_groups: int = 6, size: int = 4) -> ObliqueTask:
    """A small benchmark without splits that an encoder can tell apart: a query a group, its documents relevant."""
    topics = ["cars", "tea", "zoos", "homework", "trains", "bees", "maps", "glass", "wool", "rain"][:n_groups]
    documents = {f"{t}-{i}": f"Text number {i} speaks of {t} and of cities." for t in topics for i in range(size)}
    queries = {f"{t} {i}": f"what is said of {t}, case {i}" for t in topics for i in range(2)}
    qrels = {q: {f"{q.split()[0]}-{i}": 1 for i in range(size)} for q in queries}
    return oblique_task(documents, queries, qrels, {q: {f"{q.split()[0]}-0"} for q in queries}, task="writing")
