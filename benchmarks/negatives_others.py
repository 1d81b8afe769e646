"""The best documents by BM25 as rank_bm25 and bm25s give them: the opponents of `Miner`, without its rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import bm25s
from rank_bm25 import BM25Okapi

from dataset_builders.lexical import tokenize

Search = Any


def rank_bm25_index(texts: Sequence[str]) -> Search:
    """An index of the whole corpus."""
    return BM25Okapi([tokenize(text) for text in texts])


def by_rank_bm25(index: Search, texts: Sequence[str], queries: Sequence[str], k: int) -> list[list[str]]:
    """The ``k`` best texts of each query."""
    return [index.get_top_n(tokenize(query), texts, n=k) for query in queries]


def bm25s_index(texts: Sequence[str]) -> Search:
    """An index of the whole corpus, by numpy, as ours is."""
    index = bm25s.BM25(method="lucene", k1=1.5, b=0.75, backend="numpy")
    index.index([tokenize(text) for text in texts], show_progress=False)
    return index


def by_bm25s(index: Search, queries: Sequence[str], k: int) -> Any:
    """The numbers and scores of the ``k`` best of each query."""
    return index.retrieve([tokenize(query) for query in queries], k=k, show_progress=False)
