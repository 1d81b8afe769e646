"""Documents held in memory, and one query's scores over all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dataset_builders.lexical import BM25
from dataset_builders.text import check_text
from hub_models.retrieval.fusion import WHOLE_CORPUS_LIMIT, fuse, fuse_candidates

Float64 = NDArray[np.float64]
Mask = NDArray[np.bool_]

CANDIDATES = 1_000
"""How deep both lists go where a corpus is too large to fuse whole."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One document found.

    Attributes:
        id: Its key in the mapping, or its position in the list as a string.
        text: The document, as it was given.
        dense: Cosine of query and document in [-1, 1].
        bm25: BM25 score of the claim, or of the oblique query; 0 where no word matches or the search was dense alone.
        score: What the hits are sorted by; comparable within one search only.
    """

    id: str
    text: str
    dense: float
    bm25: float
    score: float


_STRIDE = 64  # of a sample of scores


class Documents:
    """Texts with their ids and their words.

    Args:
        texts: The documents, as a list or as id to text.

    Attributes:
        ids: In the order given.
        texts: Likewise.
        depth: How many candidates of either side are fused, or None where the whole corpus is (up to 200,000
            documents).

    Raises:
        ValueError: If ``texts`` is a single string or has no document, an id is no string, or a document is empty or
            no valid Unicode.
    """

    def __init__(self, texts: Sequence[str] | Mapping[str, str]) -> None:
        if isinstance(texts, str):
            raise ValueError(f"got the single text {texts[:40]!r}, wanted a list of documents or id to document")
        documents = dict(texts) if isinstance(texts, Mapping) else {str(i): text for i, text in enumerate(texts)}
        if not documents:
            raise ValueError("got no document to search in, wanted at least one")
        for key, text in documents.items():
            if not isinstance(key, str):
                raise ValueError(f"got the document id {key!r} of type {type(key).__name__}, wanted a string")
            check_text(text, f"document {key!r}")
        self.ids, self.texts = list(documents), list(documents.values())
        self.by_id = np.argsort(np.argsort(np.array(self.ids)))  # rank of each document's id
        self.depth = None if len(self.ids) <= WHOLE_CORPUS_LIMIT else CANDIDATES

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def bm25(self) -> BM25:
        """The index of their words.

        Raises:
            ValueError: If no document has a word.
        """
        return BM25(self.texts, self.ids)

    @cached_property
    def place(self) -> dict[str, int]:
        """Where each id stands."""
        return {key: i for i, key in enumerate(self.ids)}

    def fused(self, dense: Float64, bm25: Float64, weight: float, depth: int | None) -> Float64:
        """float64[n_docs]: the fused scores; ``-inf`` for a document that is no candidate.

        Args:
            dense: float64[n_docs] cosines; ``-inf`` where an index did not find a document.
            bm25: float64[n_docs], 0 where no word matches.
            weight: λ, in [0, 1].
            depth: How many candidates of either side are fused; None fuses the whole corpus.
        """
        if depth is None:
            return fuse(dense, bm25, weight)
        return fuse_candidates(dense, bm25, self.best(dense, depth), self.matching(bm25, depth), weight)

    def matching(self, bm25: Float64, depth: int) -> list[int]:
        """The places of the ``depth`` best documents that hold a word of the query."""
        return self.best(np.where(bm25 > 0, bm25, -np.inf), depth)

    def best(self, scores: Float64, k: int) -> list[int]:
        """The places of the ``k`` best finite scores: score descending, then id ascending."""
        found = _promising(scores, k)
        if k < len(found):  # a full sort of a large corpus costs more than the search
            near = scores[found]
            found = found[near >= np.partition(near, len(near) - k)[len(near) - k]]
        order = np.lexsort((self.by_id[found], -scores[found]))[:k]
        places: list[int] = found[order].tolist()
        return places


def _promising(scores: Float64, k: int) -> NDArray[np.intp]:
    """Places of finite scores among which the ``k`` best are, with all their ties: few, where a sample shows a score
    that enough of them reach."""
    sample = scores[::_STRIDE]
    reached = 2 * k // _STRIDE + _STRIDE  # twice as many as there should be, and some
    if reached < len(sample):
        least = np.partition(sample, -reached)[-reached]
        found = np.flatnonzero(scores >= least)
        if least > -np.inf and len(found) >= k:
            return found
    return np.flatnonzero(scores > -np.inf)


@dataclass(frozen=True, eq=False, slots=True)
class Ranking:
    """One query's scores over every document.

    Attributes:
        documents: What was searched.
        dense: float64[n_docs] cosines; ``-inf`` where an index did not find a document.
        bm25: float64[n_docs], all 0 where BM25 was not asked.
        score: float64[n_docs], what is ranked by; ``-inf`` for a document that may not be returned.
        weight: The λ that was used.
    """

    documents: Documents
    dense: Float64
    bm25: Float64
    score: Float64
    weight: float

    def hits(self, k: int, among: Mask | None = None) -> list[Hit]:
        """The ``k`` best documents, by score descending, then id ascending.

        Args:
            k: At most this many.
            among: bool[n_docs], which documents may be shown; the scores stay those over all of them.
        """
        score = self.score if among is None else np.where(among, self.score, -np.inf)
        d = self.documents
        return [
            Hit(d.ids[i], d.texts[i], float(self.dense[i]), float(self.bm25[i]), float(score[i]))
            for i in d.best(score, k)
            if score[i] > -np.inf
        ]

    def rank(self, document_id: str) -> int:
        """The rank of a document over the whole corpus, from 1."""
        i = self.documents.place[document_id]
        mine, by_id = self.score[i], self.documents.by_id
        return 1 + int((self.score > mine).sum() + ((self.score == mine) & (by_id < by_id[i])).sum())

    def by_words(self) -> Ranking:
        """The same query's ranking by BM25 alone; a document that no word matches is not found."""
        return replace(self, score=np.where(self.bm25 > 0, self.bm25, -np.inf))

    def without(self, ids: Iterable[str]) -> Ranking:
        """The same without some documents, such as the query's own."""
        score = self.score.copy()
        score[[self.documents.place[key] for key in ids if key in self.documents.place]] = -np.inf
        return replace(self, score=score)
