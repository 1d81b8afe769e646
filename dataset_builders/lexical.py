"""BM25: ours, with a tokenizer that keeps negation and scores repeatable to the last tie; and the stance paper's.

`BM25` is what searches. `PaperBM25` (tokens and weights of the stance paper, 5.3) is there for rows that are compared
with the paper's.
"""

from __future__ import annotations

import logging
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import bm25s
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from dataset_builders.text import words

logging.getLogger("bm25s").setLevel(logging.WARNING)  # it says of every index that it is being built

Lexical = Literal["slant", "s"]
"""Our tokenizer and weights, or those of the stance paper."""


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
        # Numbers, which all texts share, not words: a tenth of the memory.
        vocabulary: dict[str, int] = {}
        tokens = [
            [vocabulary.setdefault(word, len(vocabulary)) for word in tokenize(text)]
            for text in tqdm(texts, desc="words", unit="text", delay=2)
        ]
        if not vocabulary:
            raise ValueError(f"none of the {len(texts)} documents has a word; BM25 needs at least one")
        self.ids = list(ids)
        self._by_id = np.argsort(np.argsort(np.array(self.ids)))  # rank of each document's id
        self._index = bm25s.BM25(method="lucene", k1=1.5, b=0.75, dtype="float32", backend="numpy")
        self._index.index((tokens, vocabulary), show_progress=len(texts) > 100_000)

    def scores(self, query: str) -> NDArray[np.float32]:
        """The score of every document, float32[n_docs], in the order of the corpus; 0 where no word of it matches.

        All zeros mean that the query matches nothing.
        """
        tokens = self._index.get_tokens_ids(tokenize(query))
        if not tokens:
            return np.zeros(len(self.ids), np.float32)
        scores: NDArray[np.float32] = self._index.get_scores_from_ids(tokens)
        return scores

    def document_frequencies(self, query: str) -> NDArray[np.int64]:
        """In how many documents each distinct word of the query stands, in order of appearance; 0 for unknown ones."""
        starts, vocabulary = self._index.scores["indptr"], self._index.vocab_dict
        found = [vocabulary.get(token) for token in dict.fromkeys(tokenize(query))]
        return np.array([0 if t is None else starts[t + 1] - starts[t] for t in found], np.int64)

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


_APART = re.compile(r"""[;@#$%&?!"“”«»…<>()\[\]{}]|--|\.\.\.|[:,](?!\d)|''|``""")
_CLITIC = re.compile(r"(?i)(n't|'(?:s|m|d|ll|re|ve))$")


def paper_tokenize(text: str) -> list[str]:
    """Lower-cased words of letters alone, as the stance paper's code takes them from ``nltk.word_tokenize``.

    Whatever holds a digit, a hyphen, a slash or a point inside is no word ("COVID-19", "well-being", "U.S."), and so
    "don't" is "do": negation by clitic is lost. It differs from NLTK, which wants data of its own, in two things: no
    sentences are found, so that a point ends an abbreviation as it ends a sentence ("etc." is "etc"); and of the fused
    words only "cannot" comes apart, not "gonna" and its like.
    """
    words = []
    for part in re.sub(r"(?i)\b(can)(not)\b", r"\1 \2", _APART.sub(" ", text.replace("’", "'"))).split():
        word = part.strip("'").rstrip(".").strip("'")
        words.append(_CLITIC.sub("", word).lower())
    return [word for word in words if word.isalpha()]


class PaperBM25:
    """Okapi's BM25 (k1 = 1.5, b = 0.75) with a floor under the weight of frequent words, as in rank_bm25.

    A word in more than half of the documents has a negative weight, log((N - n + .5) / (n + .5)); it gets a quarter of
    the mean weight of all words instead. No library that is kept has that floor.

    Args:
        texts: The documents.

    Raises:
        ValueError: If no document has a word.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [Counter(paper_tokenize(text)) for text in texts]
        lengths = np.array([sum(c.values()) for c in counts], np.float64)
        if not lengths.any():
            raise ValueError(f"none of the {len(texts)} documents has a word; BM25 needs at least one")
        self._norm = 1.5 * (1 - 0.75 + 0.75 * lengths / lengths.mean())
        self._postings: dict[str, tuple[list[int], list[int]]] = {}
        for row, counted in enumerate(counts):
            for word, n in counted.items():
                rows, times = self._postings.setdefault(word, ([], []))
                rows.append(row)
                times.append(n)
        n_docs = len(texts)
        weights = {w: math.log((n_docs - len(r) + 0.5) / (len(r) + 0.5)) for w, (r, _) in self._postings.items()}
        floor = 0.25 * math.fsum(weights.values()) / len(weights)
        self._weights = {word: floor if weight < 0 else weight for word, weight in weights.items()}

    def scores(self, query: str) -> NDArray[np.float32]:
        """The score of every document, float32[n_docs]; a word that the query repeats counts as often. All zeros mean
        that the query matches nothing."""
        scores = np.zeros(len(self._norm))
        for word in paper_tokenize(query):
            if word in self._postings:
                rows, times = (np.array(values) for values in self._postings[word])
                scores[rows] += self._weights[word] * times * 2.5 / (times + self._norm[rows])
        return scores.astype(np.float32)
