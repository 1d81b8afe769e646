"""The tables and bounds of an oblique task."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from statistics import mean
from typing import Any

from dataset_builders.checks import Check, Part, none_of, show
from dataset_builders.choices import ObliqueTaskName
from dataset_builders.oblique.statistics import bm25_ndcg, mean_overlap, overlap, random_ndcg
from dataset_builders.schema import SPLITS, Split
from dataset_builders.sources.obliq_bench import AuthoredDocument, ObliqueTask
from dataset_builders.stance.splits import near_duplicates
from dataset_builders.text import text_key, words

_DOCUMENTS = 240
_ATTRIBUTES: dict[ObliqueTaskName, int] = {"twitter": 16, "math": 24, "writing": 16, "congress": 24, "wildchat": 10}
_QUERY_IS_A_DOCUMENT: tuple[ObliqueTaskName, ...] = ("math", "writing")
_MEASURED: tuple[Split, ...] = ("validation", "test")
_PASSAGE = (60, 150)  # words of a passage of writing
_SHARED_TOPICS = 8
_BM25_GAIN = 0.1  # NDCG@10 above random
_COVERAGE = 0.15  # of a recollection's content words
_LEAKED = 0.064  # the worst of O's own synthetic queries


def measure(task: ObliqueTask, train: list[AuthoredDocument], attributes: Mapping[str, tuple[Split, str]]) -> Part:
    """Statistics of one task of the sample and the bounds that it was written to.

    Args:
        task: Its documents and queries of validation and test.
        train: Its training documents.
        attributes: Split and description of every attribute.
    """
    part = Part()
    part.statistics = _counts(task, train, attributes) | {"ndcg_at_10": {}, "overlap": {}}
    lengths = [len(words(t)) for t in _documents(task, train).values()]
    part.statistics["words_per_document"] = {"min": min(lengths), "mean": mean(lengths), "max": max(lengths)}
    part.checks = _structure(task, train, attributes)

    gains: dict[str, float] = {}
    for split in _MEASURED:
        view = task.restrict(split)
        bm25, random = bm25_ndcg(view), random_ndcg(view)
        part.statistics["ndcg_at_10"][split] = {
            "documents": len(view.corpus),
            "queries": len(view.queries),
            "bm25": mean(bm25.values()),
            "random": mean(random.values()),
        }
        gains |= {query: bm25[query] - random[query] for query in bm25}
    worst = sorted(gains, key=lambda query: (-gains[query], query))
    part.checks.append(
        Check(
            f"{task.task}: BM25's NDCG@10 above random",
            mean(gains.values()),
            _BM25_GAIN,
            faults=tuple(f"{q} {gains[q]:+.2f} ({task.queries[q].attribute})" for q in worst if gains[q] > _BM25_GAIN),
        )
    )
    part.checks += _overlaps(task, train, part)
    return part


def tables(tasks: Mapping[ObliqueTaskName, Mapping[str, Any]]) -> dict[str, list[list[str]]]:
    """The statistics of several tasks side by side: sizes, BM25 against random, overlap (O table J.1)."""
    sizes = [["task", "attributes", "documents", "distractors", "queries", "relevant a query", "words a document"]]
    ndcg = [["task", "split", "documents", "queries", "BM25", "random"]]
    shared = [["task", "pairs", "n", "Jaccard", "coverage", "5-letter", "highest", "entities leaked"]]
    for task, figures in tasks.items():
        relevant, length = figures["relevant_per_query"], figures["words_per_document"]
        sizes.append(
            [
                task,
                " + ".join(f"{n} {split}" for split, n in figures["attributes"].items()),
                " + ".join(f"{n} {split}" for split, n in figures["documents"].items()),
                show(figures["distractors"]),
                " + ".join(f"{n} {split}" for split, n in figures["queries"].items()),
                f"{relevant['mean']:.2f} ({relevant['min']}-{relevant['max']})",
                f"{length['mean']:.0f} ({length['min']}-{length['max']})",
            ]
        )
        for split, row in figures["ndcg_at_10"].items():
            ndcg.append([task, split, *(show(row[k]) for k in ("documents", "queries", "bm25", "random"))])
        for name, row in figures["overlap"].items():
            shared.append([task, name, *(show(v) for v in row.values())])
    return {
        "Oblique tasks": sizes,
        "NDCG@10 of BM25 and of a random order": ndcg,
        "Queries and their documents (O table J.1)": shared,
    }


def _documents(task: ObliqueTask, train: Iterable[AuthoredDocument]) -> dict[str, str]:
    return {i: d.text for i, d in task.corpus.items()} | {d.document_id: d.text for d in train}


def _counts(
    task: ObliqueTask, train: list[AuthoredDocument], attributes: Mapping[str, tuple[Split, str]]
) -> dict[str, Any]:
    relevant = [sum(grade > 0 for grade in task.qrels.get(q, {}).values()) for q in task.queries]
    splits = Counter(d.split for d in task.corpus.values())
    return {
        "attributes": {s: sum(split == s for split, _ in attributes.values()) for s in SPLITS},
        "documents": {"train": len(train)} | {s: splits[s] for s in _MEASURED},
        "distractors": splits[None],
        "queries": {s: sum(q.split == s for q in task.queries.values()) for s in _MEASURED},
        "relevant_per_query": {"min": min(relevant), "mean": mean(relevant), "max": max(relevant)},
    }


def _structure(
    task: ObliqueTask, train: list[AuthoredDocument], attributes: Mapping[str, tuple[Split, str]]
) -> list[Check]:
    name = task.task
    texts = _documents(task, train)
    ids = list(texts)
    claimed = [
        *(
            (i, t.attribute, t.split)
            for i, t in [*task.corpus.items(), *task.queries.items()]
            if t.attribute or t.split
        ),
        *((d.document_id, d.attribute, "train") for d in train),
    ]
    checks = [
        Check(f"{name}: documents", len(texts), _DOCUMENTS, at_least=True),
        Check(f"{name}: attributes", len(attributes), _ATTRIBUTES[name], at_least=True),
        none_of(
            f"{name}: texts in another split than their attribute",
            [i for i, attribute, split in claimed if attributes.get(attribute or "", (None, ""))[0] != split],
        ),
        none_of(
            f"{name}: equal or near-duplicate documents",
            [f"{ids[i]} and {ids[j]}" for i, j in near_duplicates(list(texts.values()))],
        ),
        none_of(f"{name}: equal queries", _repeated({q: t.text for q, t in task.queries.items()})),
        none_of(
            f"{name}: training rows not marked authored", [d.document_id for d in train if d.generator != "authored"]
        ),
        none_of(f"{name}: queries whose gold is not what shows the attribute", _wrong_gold(task)),
        none_of(f"{name}: queries that may find themselves", _self_hits(task)),
    ]
    if name == "writing":
        low, high = _PASSAGE
        n = {i: len(words(t)) for i, t in texts.items()}
        checks.append(
            none_of(
                f"writing: passages not of {low} to {high} words",
                [f"{i} ({k})" for i, k in n.items() if not low <= k <= high],
            )
        )
        checks.append(Check("writing: topics of the author with the fewest", *_topics(task, train), at_least=True))
    return checks


def _wrong_gold(task: ObliqueTask) -> list[str]:
    """Queries whose relevant documents are not those with its attribute, less the excluded ones.

    A congress query is a recollection of one document, so there the gold is one document with the attribute.
    """
    members: dict[str | None, set[str]] = defaultdict(set)
    for i, document in task.corpus.items():
        members[document.attribute].add(i)
    wrong = []
    for i, query in task.queries.items():
        gold = {d for d, grade in task.qrels.get(i, {}).items() if grade > 0}
        wanted = members[query.attribute] - task.excluded.get(i, frozenset())
        if not gold or (len(gold) != 1 or not gold <= wanted if task.task == "congress" else gold != wanted):
            wrong.append(i)
    return wrong


def _self_hits(task: ObliqueTask) -> list[str]:
    """Queries that may find the document from which they are taken, or another part of the longer text it is from."""
    wrong = []
    for i, query in task.queries.items():
        key = text_key(query.text)
        source = query.metadata.get("document")
        own = None if source is None else task.corpus[source].metadata.get("text_id")
        for d in task.candidates(i):
            document = task.corpus[d]
            if d == source or key in text_key(document.text) or (own and document.metadata.get("text_id") == own):
                wrong.append(f"{i} finds {d}")
        if task.task in _QUERY_IS_A_DOCUMENT and source is None:
            wrong.append(f"{i} names no document")
    return wrong


def _topics(task: ObliqueTask, train: list[AuthoredDocument]) -> tuple[int, int]:
    """Fewest topics of an author, counting those that another author has too; and the bound."""
    topics: dict[str, set[str]] = defaultdict(set)
    for attribute, metadata in [
        *((d.attribute, d.metadata) for d in task.corpus.values()),
        *((d.attribute, d.metadata) for d in train),
    ]:
        if attribute:
            topics[attribute].add(metadata["topic"])
    authors = Counter(topic for found in topics.values() for topic in found)
    return min(sum(authors[t] > 1 for t in found) for found in topics.values()), _SHARED_TOPICS


def _repeated(texts: Mapping[str, str]) -> list[str]:
    n = Counter(text_key(t) for t in texts.values())
    return [i for i, t in texts.items() if n[text_key(t)] > 1]


def _overlaps(task: ObliqueTask, train: list[AuthoredDocument], part: Part) -> list[Check]:
    """Measure queries against their documents, add the rows to the statistics, and return the bounds."""
    pairs = {
        "queries": [
            (i, overlap(task.queries[i].text, task.corpus[d].text))
            for i, grades in task.qrels.items()
            for d, grade in grades.items()
            if grade > 0
        ],
        "train queries": [(d.document_id, overlap(d.query, d.text)) for d in train],
        "train descriptions": [(d.document_id, overlap(d.description, d.text)) for d in train],
    }
    checks = []
    for name, found in pairs.items():
        part.statistics["overlap"][name] = mean_overlap([o for _, o in found])
        leaks = [f"{i}: {', '.join(o.leaked)}" for i, o in found if o.leaked]
        share = len(leaks) / len(found)
        checks.append(Check(f"{task.task}: {name} with an entity leaked", share, _LEAKED, faults=tuple(leaks)))
        if task.task == "congress" and name != "train descriptions":
            over = tuple(f"{i} {o.coverage:.2f}" for i, o in found if o.coverage > _COVERAGE)
            checks.append(
                Check(
                    f"congress: highest coverage of {name}", max(o.coverage for _, o in found), _COVERAGE, faults=over
                )
            )
    return checks
