"""The one BM25: a tokenizer that keeps negation, an index, scores that are repeatable to the last tie."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence

import bm25s
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from dataset_builders.text import words


def tokenize(text: str) -> list[str]:
    """Lower-cased words and numbers, all of them.

    There is no stop list and no stemmer: "should be banned" and "should not be banned" differ, as do "can" and
    "can't". A curly apostrophe counts as a straight one, and a ligature or full-width letter as the plain one.
    """
    return words(unicodedata.normalize("NFKC", text))


class BM25:
    """BM25 (Lucene's variant, k1 = 1.5, b = 0.75) over a corpus that is held in memory.

    Args:
        texts: The documents; one without a word is kept and never found.
        ids: One distinct id a document; ties go by it.

    Raises:
        ValueError: If ids and texts differ in number, an id is doubled, or no document has a word.

    Example:
        >>> BM25(["Ban guns.", "Do not ban guns."], ["a", "b"]).search("not", k=5)[0][0]
        'b'
    """

    def __init__(self, texts: Sequence[str], ids: Sequence[str]) -> None:
        if len(texts) != len(ids):
            raise ValueError(f"got {len(texts)} texts and {len(ids)} ids, wanted one id a text")
        doubled = [i for i, n in Counter(ids).items() if n > 1]
        if doubled:
            raise ValueError(f"ids must be distinct; doubled: {doubled[:10]}")
        tokens = [tokenize(text) for text in tqdm(texts, desc="words", unit="text", delay=2)]
        if not any(tokens):
            raise ValueError(f"none of the {len(texts)} documents has a word; BM25 needs at least one")
        self.ids = list(ids)
        self._by_id = np.argsort(np.argsort(np.array(self.ids)))  # rank of each document's id
        self._index = bm25s.BM25(method="lucene", k1=1.5, b=0.75, dtype="float32", backend="numpy")
        self._index.index(tokens, show_progress=len(texts) > 100_000)

    def scores(self, query: str) -> NDArray[np.float32]:
        """The score of every document, float32[n_docs], in the order of the corpus; 0 where no word of it matches.

        All zeros mean that the query matches nothing.
        """
        tokens = self._index.get_tokens_ids(tokenize(query))
        if not tokens:
            return np.zeros(len(self.ids), np.float32)
        scores: NDArray[np.float32] = self._index.get_scores_from_ids(tokens)
        return scores

    def search(self, query: str, k: int) -> list[tuple[str, float]]:
        """The best ``k`` matching documents as (id, score > 0), by score descending, then id ascending.

        Fewer, down to none, where fewer match.

        Raises:
            ValueError: If ``k`` is below 1.
        """
        if k < 1:
            raise ValueError(f"got k = {k}, wanted at least 1")
        scores = self.scores(query)
        found = np.flatnonzero(scores > 0)
        best = found[np.lexsort((self._by_id[found], -scores[found]))][:k]
        return [(self.ids[i], float(scores[i])) for i in best]
