"""Oblique retrieval, measured: NDCG and recall under gold and pooled judgements (O section 2, tables 1-4, 6, L.1).

A query names a latent attribute in front of which stands the task's instruction (O B.3). Whatever gives a score to
every document can be measured: vectors, BM25, chance, late interaction. Like `stance`, it knows no model, and keeps
its results per query.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dataset_builders.instructions import OBLIQUE_INSTRUCTIONS, format_query
from dataset_builders.lexical import BM25
from dataset_builders.oblique.groups import development_queries, query_groups
from dataset_builders.oblique.statistics import overlap
from dataset_builders.schema import Split
from dataset_builders.sources.obliq_bench import ObliqueTask, ObliqueTaskName, Qrels
from hub_models.evaluation.measured import Encode, Measured, Table
from hub_models.evaluation.metrics import Float32, Float64, Int, rank_columns
from hub_models.evaluation.results import Comparison, Metric, Strategy
from hub_models.evaluation.significance import paired_differences
from hub_models.retrieval.dense import DenseIndex

Judged = Literal["gold", "pooled"]

NDCG_AT = (10, 50)
RECALL_AT = (10, 50, 100, 1000)
DEPTH = RECALL_AT[-1]
METRICS = tuple(
    f"{name}_at_{k}_{judged}"
    for judged in ("gold", "pooled")
    for name, cuts in (("ndcg", NDCG_AT), ("recall", RECALL_AT))
    for k in cuts
)
MAIN = "ndcg_at_10_gold"

GAIN_AT = (1, 2, 3, 5, 10, 20, 50, 100)
"""Ranks at which NDCG is kept for each query, so that the gain over another run can be read by rank (O figure 3)."""

SHUFFLED = "shuffled_ndcg_at_10_gold"
SHUFFLE_DEPTH = 100

LARGEST_SHARE = 0.1
"""Recall at k says little where k is a larger share of the corpus than this: it is null."""

UNIT = "query group"

_TOP = 10  # document ids kept for each query
_BLOCK = 2**22  # scores held at once

BlockScores = Callable[[slice], Float32]
"""Some of the queries, by place, to float32[n, n_docs]; ``-inf`` where a document is not found."""


# -- what is asked and what is right -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ObliqueQuery:
    """One query, its group (the unit of intervals), and whether it is of the development split."""

    query_id: str
    text: str
    group: str
    development: bool


@dataclass(frozen=True, slots=True)
class _Relevant:
    """What is right for one query: grade by document column, and all grades, best first, also of what is absent."""

    grades: dict[int, int]
    ideal: Float64


@dataclass(frozen=True, eq=False)
class ObliqueJudgements:
    """The queries of a split, the documents they are searched in, and what is right.

    Attributes:
        source: The data's name.
        task: Which of the oblique tasks it is.
        revision: SHA-256 of texts, judgements, exclusions and development split.
        split: What was asked for.
        documents: Ids, ascending, which is how ties are broken.
        texts: One a document.
        queries: Those with a relevant document that may be returned or is absent.
        qrels: Judgements by name, exclusions taken out; no ``pooled`` where there is no pool.
        excluded: Document columns that may not be returned, for each query.
        left_out: How many queries have no relevant document.
        dangling: How many relevant documents are not in the corpus, with gold's queries counted each.
    """

    source: str
    task: ObliqueTaskName
    revision: str
    split: Split
    documents: list[str]
    texts: list[str]
    queries: list[ObliqueQuery]
    qrels: dict[Judged, list[_Relevant]]
    excluded: list[Int]
    left_out: int
    dangling: int

    @property
    def instruction(self) -> str:
        """The task's prefix."""
        return OBLIQUE_INSTRUCTIONS[self.task]

    @cached_property
    def recall_at(self) -> tuple[int, ...]:
        """The cuts of recall that mean something on a corpus of this size."""
        return tuple(k for k in RECALL_AT if k <= LARGEST_SHARE * len(self.documents))

    def counts(self) -> dict[str, Any]:
        """Sizes of everything, and the ceiling of each metric: what a perfect ranking of the corpus reaches."""
        n_excluded = [len(e) for e in self.excluded]
        relevant = {name: [int((r.ideal > 0).sum()) for r in found] for name, found in self.qrels.items()}
        return {
            "split": self.split,
            "task": self.task,
            "documents": len(self.documents),
            "distinct_texts": len(set(self.texts)),
            "queries": len(self.queries),
            "groups": len({q.group for q in self.queries}),
            "development": sum(q.development for q in self.queries),
            "left_out": self.left_out,
            "relevant": {
                name: {"min": min(n), "mean": sum(n) / len(n), "max": max(n)} for name, n in relevant.items()
            },
            "excluded": {"min": min(n_excluded), "max": max(n_excluded)},
            "dangling": self.dangling,
            "ceiling": self._ceiling(),
        }

    def _ceiling(self) -> dict[str, float]:
        ceilings: dict[str, float] = {}
        for name, found in self.qrels.items():
            best = np.zeros((len(found), DEPTH), np.int64)
            for row, relevant in enumerate(found):
                grades = sorted((g for g in relevant.grades.values() if g > 0), reverse=True)[:DEPTH]
                best[row, : len(grades)] = grades
            values = _values(best, found, NDCG_AT, self.recall_at, name)
            ceilings |= {metric: float(column.mean()) for metric, column in values.items()}
        return ceilings


def judge(task: ObliqueTask, source: str, split: Split = "test", seed: int = 0) -> ObliqueJudgements:
    """Lay out a split's queries, documents and judgements.

    Where the queries name their split, that is it, and nothing of it is development. Where they do not, as in
    OBLIQ-Bench, ``test`` is all queries, those of the seeded development split marked, and ``validation`` is these.

    Raises:
        ValueError: If some queries have a split and some have none, or no query of the split has a relevant document.
    """
    named = Counter(q.split for q in task.queries.values())
    if None in named and len(named) > 1:
        raise ValueError(
            f"{source}: {named[None]} of {len(task.queries)} queries have no split; give every query one, or none"
        )
    development: frozenset[str] = frozenset()
    if set(named) != {None}:
        task = task.restrict(split)
    else:
        development = development_queries(task, seed)
    groups = query_groups(task)
    asked = [q for q in task.queries if set(named) != {None} or split == "test" or q in development]
    documents = sorted(task.corpus)
    column = {document: i for i, document in enumerate(documents)}
    judgements: dict[Judged, Qrels] = {"gold": task.qrels}
    if task.pooled is not None:
        judgements["pooled"] = task.pooled

    queries: list[ObliqueQuery] = []
    qrels: dict[Judged, list[_Relevant]] = {name: [] for name in judgements}
    excluded: list[Int] = []
    dangling = 0
    for query in asked:
        out = task.excluded.get(query, frozenset())
        found = {
            name: {d: grade for d, grade in all_of.get(query, {}).items() if d not in out}
            for name, all_of in judgements.items()
        }
        if not any(grade > 0 for grade in found["gold"].values()):
            continue
        queries.append(ObliqueQuery(query, task.queries[query].text, groups[query], query in development))
        excluded.append(np.array(sorted(column[d] for d in out if d in column), np.int64))
        dangling += sum(grade > 0 and d not in column for d, grade in found["gold"].items())
        for name, grades in found.items():
            ideal = np.array(sorted(grades.values(), reverse=True), np.float64)
            qrels[name].append(_Relevant({column[d]: g for d, g in grades.items() if d in column}, ideal))
    if not queries:
        raise ValueError(
            f"{source}: none of {len(asked)} {task.task} queries of the split {split!r} has a relevant document; "
            "there is nothing to find"
        )
    texts = [task.corpus[d].text for d in documents]
    return ObliqueJudgements(
        source,
        task.task,
        _digest(task, documents, texts, queries),
        split,
        documents,
        texts,
        queries,
        qrels,
        excluded,
        len(asked) - len(queries),
        dangling,
    )


def _digest(task: ObliqueTask, documents: list[str], texts: list[str], queries: list[ObliqueQuery]) -> str:
    digest = hashlib.sha256(json.dumps([task.task, [asdict(q) for q in queries]]).encode())
    for document, text in zip(documents, texts, strict=True):
        digest.update(json.dumps([document, text]).encode())
    for query in queries:
        judged = [(all_of or {}).get(query.query_id, {}) for all_of in (task.qrels, task.pooled)]
        out = sorted(task.excluded.get(query.query_id, ()))
        digest.update(json.dumps([query.query_id, judged, task.pooled is None, out], sort_keys=True).encode())
    return digest.hexdigest()


def query_texts(judged: ObliqueJudgements, query_template: str | None) -> list[str]:
    """The queries as a model gets them: in the template, or bare where there is none."""
    if query_template is None:
        return [q.text for q in judged.queries]
    return [format_query(query_template, judged.instruction, q.text) for q in judged.queries]


# -- searching -----------------------------------------------------------------------------------------------------


def evaluate(judged: ObliqueJudgements, query_template: str, encode: Encode) -> dict[Strategy, Measured]:
    """Search by vectors, with formatted queries (``dense``) and with bare ones (``claim_only``).

    Args:
        judged: What is asked and what is right.
        query_template: The encoder's own.
        encode: The encoder. It gets `all_texts` in one call: a query that is a document is encoded once.

    Raises:
        ValueError: If the encoder returns a NaN.
    """
    start = time.perf_counter()
    vectors = encode(all_texts(judged, query_template))
    encoded = time.perf_counter()
    n, m = len(judged.texts), len(judged.queries)
    index = DenseIndex(judged.texts, vectors[:n])
    timing = {"encode_s": encoded - start}
    measured: dict[Strategy, Measured] = {}
    strategies: tuple[tuple[Strategy, Float32], ...] = (
        ("dense", vectors[n + m :]),
        ("claim_only", vectors[n : n + m]),
    )
    for strategy, queries in strategies:
        ranking = time.perf_counter()
        table = per_query(judged, lambda rows, queries=queries: index.scores(queries[rows]))  # type: ignore[misc]
        measured[strategy] = Measured(table, timing | {"rank_s": time.perf_counter() - ranking})
        timing = {}
    return measured


def all_texts(judged: ObliqueJudgements, query_template: str) -> list[str]:
    """What an encoder has to encode: the documents, the queries bare, and in the template."""
    return [*judged.texts, *query_texts(judged, None), *query_texts(judged, query_template)]


def evaluate_bm25(judged: ObliqueJudgements) -> Measured:
    """Search by keywords, with bare queries. A document that no word of the query matches is not found."""
    start = time.perf_counter()
    index = BM25(judged.texts, judged.documents)

    def scores(rows: slice) -> Float32:
        found = np.stack([index.scores(q.text) for q in judged.queries[rows]])
        return np.where(found > 0, found, np.float32(-np.inf))

    return Measured(per_query(judged, scores), {"rank_s": time.perf_counter() - start})


def evaluate_random(judged: ObliqueJudgements, seed: int) -> Measured:
    """Rank by chance: each query draws an order of its own, which other queries do not change."""
    start = time.perf_counter()

    def scores(rows: slice) -> Float32:
        drawn = [np.random.default_rng([seed, *q.query_id.encode()]) for q in judged.queries[rows]]
        return np.stack([rng.random(len(judged.documents), np.float32) for rng in drawn])

    return Measured(per_query(judged, scores), {"rank_s": time.perf_counter() - start}, seed=seed)


def per_query(judged: ObliqueJudgements, scores: BlockScores) -> Table:
    """Rank every query's documents and measure the ranking.

    Exclusions come before the cut: as many documents more are fetched as are excluded for a query at most, so all
    queries keep their depth and nothing of the size queries × corpus is built.

    Returns:
        A row for each query: who it is, R, whether ties decided, the first documents' ids, the metrics, NDCG at
        `GAIN_AT`, `SHUFFLED`, and what the query shares with its gold documents.
    """
    size = max(1, _BLOCK // len(judged.documents))
    blocks = [slice(start, min(start + size, len(judged.queries))) for start in range(0, len(judged.queries), size)]
    parts = [_rank(judged, rows, scores(rows)) for rows in blocks]
    return measure_ranking(judged, *(np.concatenate([part[i] for part in parts]) for i in range(2)))


def _rank(judged: ObliqueJudgements, rows: slice, scores: Float32) -> tuple[Int, NDArray[np.bool_]]:
    """int64[n, depth] document columns in ranked order, -1 where nothing more was found; bool[n], whether equal
    scores stand among the first R + 1."""
    excluded = judged.excluded[rows]
    depth = min(DEPTH, len(judged.documents))
    order = rank_columns(scores, min(len(judged.documents), depth + 1 + max(len(e) for e in excluded)))
    found = np.take_along_axis(scores, order, axis=1)
    kept = found > -np.inf
    for row, columns in enumerate(excluded):
        if len(columns):
            kept[row] &= ~np.isin(order[row], columns)
    place = np.argsort(~kept, axis=1, kind="stable")
    order, found = np.take_along_axis(order, place, axis=1), np.take_along_axis(found, place, axis=1)
    kept = np.take_along_axis(kept, place, axis=1)
    equal_next = (found[:, :-1] == found[:, 1:]) & kept[:, 1:]
    cut = np.array([min(depth, int((r.ideal > 0).sum())) for r in judged.qrels["gold"][rows]])
    tied = (equal_next & (np.arange(equal_next.shape[1]) < cut[:, None])).any(axis=1)
    return np.where(kept, order, -1)[:, :depth], tied


def measure_ranking(judged: ObliqueJudgements, order: Int, tied: NDArray[np.bool_]) -> Table:
    """The table of a ranking that was made elsewhere.

    Args:
        judged: What is right.
        order: int64[n_queries, depth] document columns, best first, excluded ones taken out, -1 for none.
        tied: bool[n_queries], whether equal scores were put in order by id.
    """
    gold = judged.qrels["gold"]
    ids = np.array([*judged.documents, None], object)
    top = np.empty(len(order), object)
    top[:] = [[i for i in row if i is not None] for row in ids[order[:, :_TOP]].tolist()]
    table: Table = {
        "query_id": np.array([q.query_id for q in judged.queries], object),
        "group": np.array([q.group for q in judged.queries], object),
        "development": np.array([q.development for q in judged.queries]),
        "n_relevant": np.array([int((r.ideal > 0).sum()) for r in gold]),
        "tied": tied,
        "top": top,
    }
    for name, relevant in judged.qrels.items():
        grades = np.array(
            [[r.grades.get(c, 0) for c in row] for r, row in zip(relevant, order.tolist(), strict=True)], np.int64
        ).reshape(len(order), -1)
        cuts = tuple(sorted({*NDCG_AT, *GAIN_AT})) if name == "gold" else NDCG_AT
        table |= _values(grades, relevant, cuts, judged.recall_at, name)
        if name == "gold":
            table[SHUFFLED] = _shuffled(grades, (order >= 0).sum(axis=1), relevant)
    pairs = [
        [overlap(q.text, judged.texts[c]) for c, grade in r.grades.items() if grade > 0]
        for q, r in zip(judged.queries, gold, strict=True)
    ]
    for what in ("jaccard", "coverage"):
        table[f"overlap_{what}"] = np.array([_mean([getattr(o, what) for o in found]) for found in pairs])
    table["entity_leakage"] = np.array([_mean([bool(o.leaked) for o in found]) for found in pairs])
    return table


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def _discounts(n: int) -> Float64:
    return 1 / np.log2(np.arange(2, n + 2))


def _ideal(relevant: Sequence[_Relevant], k: int) -> Float64:
    return np.array([float(r.ideal[:k] @ _discounts(min(k, len(r.ideal)))) for r in relevant])


def _values(
    grades: Int, relevant: Sequence[_Relevant], ndcg_at: Sequence[int], recall_at: Sequence[int], name: Judged
) -> Table:
    """NDCG (linear gain, ideal over all that is relevant) and recall of int64[n_queries, depth] grades in ranked
    order."""
    values: Table = {}
    for k in ndcg_at:
        top = grades[:, :k]
        values[f"ndcg_at_{k}_{name}"] = (top @ _discounts(top.shape[1])) / _ideal(relevant, k)
    n_relevant = np.array([int((r.ideal > 0).sum()) for r in relevant])
    for k in recall_at:
        values[f"recall_at_{k}_{name}"] = (grades[:, :k] > 0).sum(axis=1) / n_relevant
    return values


def _shuffled(grades: Int, n_found: Int, relevant: Sequence[_Relevant]) -> Float64:
    """NDCG@10 that is expected, exactly, once the first 100 are put in random order (O appendix M): at each rank the
    mean grade of what was found."""
    n = np.minimum(n_found, SHUFFLE_DEPTH)
    mean_grade = grades[:, :SHUFFLE_DEPTH].sum(axis=1) / np.maximum(n, 1)
    discounted = np.concatenate([[0.0], np.cumsum(_discounts(10))])[np.minimum(n, 10)]
    return np.asarray(mean_grade * discounted / _ideal(relevant, 10))


# -- reading the table ---------------------------------------------------------------------------------------------


def slices_of(table: Table) -> dict[str, NDArray[np.bool_]]:
    """``overall``; and where the table has a development split, ``development`` and the ``clean`` remainder."""
    development = table["development"].astype(bool)
    everything = np.full(len(development), True)
    if not development.any() or development.all():
        return {"overall": everything}
    return {"overall": everything, "clean": ~development, "development": development}


def summarise(table: Table, n_documents: int) -> dict[str, dict[str, Metric]]:
    """Slice to metric to mean and sample std over its queries; null, with the reason, for what was not computed."""
    found: dict[str, dict[str, Metric]] = {}
    for name, rows in slices_of(table).items():
        found[name] = {
            metric: Metric.over(table[metric][rows])
            if metric in table
            else Metric(mean=None, std=None, n=int(rows.sum()), reason=_reason(metric, table, n_documents))
            for metric in METRICS
        }
    return found


def _reason(metric: str, table: Table, n_documents: int) -> str:
    if metric.endswith("_pooled") and "ndcg_at_10_pooled" not in table:
        return "there are no pooled judgements"
    k = metric.split("_")[2]
    return f"{k} is over {LARGEST_SHARE:.0%} of a corpus of {n_documents} documents"


def compare(table: Table, baseline: Table, name: str, *, resamples: int = 10_000, seed: int = 0) -> list[Comparison]:
    """Paired differences on the same queries, over every slice, with intervals that resample query groups.

    Args:
        table: The system's per-query values.
        baseline: The baseline's, on the same data.
        name: The baseline's id.
        resamples: Draws for each interval and p-value.
        seed: Their seed.

    Raises:
        ValueError: If the two were not asked the same queries.
    """
    place = {query: i for i, query in enumerate(baseline["query_id"])}
    if set(place) != set(table["query_id"]):
        raise ValueError(
            f"baseline {name!r} answered {len(place)} queries, the model {len(table['query_id'])}, and they are not "
            "the same; evaluate both on the same data and split"
        )
    match = np.array([place[query] for query in table["query_id"]])
    metrics = [m for m in METRICS if m in table and m in baseline]
    comparisons: list[Comparison] = []
    for slice_name, rows in slices_of(table).items():
        differences = np.stack([(table[m] - baseline[m][match])[rows] for m in metrics], axis=1)
        found = paired_differences(differences, table["group"][rows].tolist(), resamples=resamples, seed=seed)
        comparisons += [
            Comparison(
                baseline=name,
                slice=slice_name,
                metric=metric,
                **asdict(difference),
                unit=UNIT,
                reason="one group gives nothing to resample" if difference.low is None else None,
            )
            for metric, difference in zip(metrics, found, strict=True)
        ]
    return comparisons
