"""How oblique an oblique task is: what its queries share with their documents, and what a keyword search gets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile
from statistics import mean

import numpy as np

from dataset_builders.lexical import BM25
from dataset_builders.sources.obliq_bench import ObliqueTask
from dataset_builders.text import FUNCTION_WORDS, sentences, words

DEPTH = 10
_ALPHABETIC = re.compile(r"[^\W\d_]+")
_YEAR = re.compile(r"\b[12]\d{3}\b")
_UPPER = "".join(c for c in map(chr, range(0x530)) if c.isupper())  # Latin, Greek, Cyrillic
_CAPITALISED = re.compile(rf"\b[{_UPPER}][\w'’-]*(?: [{_UPPER}][\w'’-]*)*")


@dataclass(frozen=True, slots=True)
class Overlap:
    """What a query shares with its document (O appendix J).

    Attributes:
        jaccard: Of their content words, in [0, 1].
        coverage: Share of the query's content words that the document has, in [0, 1].
        stem_coverage: The same with words equal if their first five letters are; the stricter figure.
        leaked: The document's entities that stand in the query.
    """

    jaccard: float
    coverage: float
    stem_coverage: float
    leaked: tuple[str, ...]


def content_words(text: str) -> set[str]:
    """Alphabetic tokens of more than three letters, lower-cased, function words left out (O appendix J)."""
    return {w for w in _ALPHABETIC.findall(text.lower()) if len(w) > 3 and w not in FUNCTION_WORDS}


def entities(text: str) -> set[str]:
    """Capitalised spans that do not begin a sentence, and four-digit years (O appendix J).

    A function word at a span's head, such as "I" or the first word of a quotation, is no part of it.
    """
    found = set(_YEAR.findall(text))
    for sentence in sentences(text):
        sentence = sentence.lstrip("\"'“‘(…— ")
        for match in _CAPITALISED.finditer(sentence):
            if match.start() > 0:
                names = dropwhile(lambda word: words(word)[0] in _NO_NAME, match[0].split(" "))
                found.add(" ".join(names))
    return found - {""}


_NO_NAME = FUNCTION_WORDS | {"i'm", "i'd", "i've", "i'll"}


def overlap(query: str, document: str) -> Overlap:
    """Measure one query against one document; a query without content words shares nothing."""
    q, d = content_words(query), content_words(document)
    stems = {w[:5] for w in d}
    asked = f" {' '.join(words(query))} "
    return Overlap(
        jaccard=len(q & d) / len(q | d) if q or d else 0.0,
        coverage=len(q & d) / len(q) if q else 0.0,
        stem_coverage=sum(w[:5] in stems for w in q) / len(q) if q else 0.0,
        leaked=tuple(sorted(e for e in entities(document) if f" {' '.join(words(e))} " in asked)),
    )


def mean_overlap(found: Sequence[Overlap]) -> dict[str, float]:
    """The row of O table J.1 over one query and document or more, with the highest coverage besides.

    ``entity_leakage`` is the share of pairs with at least one entity leaked.
    """
    return {
        "n": len(found),
        "jaccard": mean(o.jaccard for o in found),
        "coverage": mean(o.coverage for o in found),
        "stem_coverage": mean(o.stem_coverage for o in found),
        "max_coverage": max(o.coverage for o in found),
        "entity_leakage": mean(bool(o.leaked) for o in found),
    }


def bm25_ndcg(task: ObliqueTask) -> dict[str, float]:
    """BM25's NDCG@10 of every query.

    Every document is ranked, also those that match nothing: score descending, then id ascending. Exclusions come
    before the cut.

    Args:
        task: One split (`ObliqueTask.restrict`).
    """
    import ir_measures  # brings its data set catalogue along

    ids = list(task.corpus)
    by_id = np.argsort(np.argsort(np.array(ids)))
    index = BM25([d.text for d in task.corpus.values()], ids)
    run: dict[str, dict[str, float]] = {}
    for query_id, query in task.queries.items():
        order = np.lexsort((by_id, -index.scores(query.text)))
        out = task.excluded.get(query_id, frozenset())
        ranking = [ids[i] for i in order if ids[i] not in out][:DEPTH]
        run[query_id] = {document: float(-rank) for rank, document in enumerate(ranking)}
    found = {m.query_id: m.value for m in ir_measures.iter_calc([ir_measures.nDCG @ DEPTH], task.qrels, run)}
    return {query_id: float(found.get(query_id, 0.0)) for query_id in task.queries}


def random_ndcg(task: ObliqueTask) -> dict[str, float]:
    """The expected NDCG@10 of a ranking in random order, exactly: at each rank, the mean grade of the candidates."""
    discounts = 1 / np.log2(np.arange(2, DEPTH + 2))
    expected = {}
    for query_id in task.queries:
        candidates = task.candidates(query_id)
        grades = [max(0, task.qrels.get(query_id, {}).get(d, 0)) for d in candidates]
        ideal = np.sort(grades)[::-1][:DEPTH]
        best = float(ideal @ discounts[: len(ideal)])
        expected[query_id] = float(np.mean(grades) * discounts[: len(grades)].sum() / best) if best else 0.0
    return expected
