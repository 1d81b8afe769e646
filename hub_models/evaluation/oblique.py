"""Oblique tasks: what is asked, in which documents, and what is right (O section 2).

A query names a latent attribute in front of which stands the task's instruction (O B.3). `oblique_ranking` measures
whatever gives a score to every document: vectors, BM25, chance, late interaction.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dataset_builders.choices import ObliqueTaskName
from dataset_builders.instructions import OBLIQUE_INSTRUCTIONS, format_query
from dataset_builders.oblique.groups import development_queries, query_groups
from dataset_builders.schema import Split
from dataset_builders.sources.obliq_bench import ObliqueTask, Qrels
from hub_models.evaluation.metrics import Int
from hub_models.evaluation.oblique_metrics import DEPTH, LARGEST_SHARE, NDCG_AT, RECALL_AT, Judged, Relevant, values


@dataclass(frozen=True, slots=True)
class ObliqueQuery:
    """One query, its group (the unit of intervals), and whether it is of the development split."""

    query_id: str
    text: str
    group: str
    development: bool


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
    qrels: dict[Judged, list[Relevant]]
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

    def rows(self, asked: Sequence[int]) -> ObliqueJudgements:
        """Some of the queries, by place, over the same documents."""
        return replace(
            self,
            queries=[self.queries[i] for i in asked],
            qrels={name: [found[i] for i in asked] for name, found in self.qrels.items()},
            excluded=[self.excluded[i] for i in asked],
        )

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
            reached = values(best, found, NDCG_AT, self.recall_at, name)
            ceilings |= {metric: float(column.mean()) for metric, column in reached.items()}
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
    qrels: dict[Judged, list[Relevant]] = {name: [] for name in judgements}
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
            qrels[name].append(Relevant({column[d]: g for d, g in grades.items() if d in column}, ideal))
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
