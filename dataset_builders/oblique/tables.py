"""The tables of a source's oblique benchmark, ``{source}-obliq-bench``: MTEB's three for each task, and exclusions."""

from __future__ import annotations

from collections.abc import Iterable

from dataset_builders.folder import Table, batches_of
from dataset_builders.rows import Row
from dataset_builders.schema import CORPUS, EXCLUDED, OBLIQUE_QUERIES, QRELS, SPLITS, Split
from dataset_builders.sources.obliq_bench import ObliqueTask, Qrels


def oblique_tables(tasks: Iterable[ObliqueTask], *, source: str, licence: str) -> list[Table]:
    """Configs ``{task}-corpus``, ``-queries``, ``-qrels``, ``-qrels_pooled``, ``-excluded``; none without rows.

    Each split has the corpus that its queries are put to: that of ``validation`` is its own documents and the
    distractors, that of ``test`` all there is. Training documents are in neither.

    Args:
        tasks: Whole tasks.
        source: Name of the source, for every row.
        licence: Licence of every row.
    """
    origin = {"source": source, "licence": licence}
    tables = []
    for whole in tasks:
        rows: dict[str, dict[Split, list[Row]]] = {}
        for split in SPLITS:
            task = whole.restrict(split)
            if not task.queries:
                continue
            found: dict[str, list[Row]] = {
                "corpus": [{"_id": i, "title": "", "text": d.text, **origin} for i, d in task.corpus.items()],
                "queries": [
                    {"_id": i, "text": q.text, "group_id": q.attribute, **origin} for i, q in task.queries.items()
                ],
                "qrels": _judged(task.qrels, origin),
                "qrels_pooled": _judged(task.pooled or {}, origin),
                "excluded": [
                    {"query-id": q, "corpus-id": d, **origin} for q, ids in task.excluded.items() for d in sorted(ids)
                ],
            }
            for part, items in found.items():
                if items:
                    rows.setdefault(part, {})[split] = items
        for part, splits in rows.items():
            features = _FEATURES[part]
            tables += [
                Table(f"{whole.task}-{part}", split, features, len(items), batches_of(items, features))
                for split, items in splits.items()
            ]
    return tables


_FEATURES = {
    "corpus": CORPUS,
    "queries": OBLIQUE_QUERIES,
    "qrels": QRELS,
    "qrels_pooled": QRELS,
    "excluded": EXCLUDED,
}


def _judged(qrels: Qrels, origin: Row) -> list[Row]:
    return [
        {"query-id": q, "corpus-id": d, "score": grade, **origin}
        for q, grades in qrels.items()
        for d, grade in grades.items()
    ]
