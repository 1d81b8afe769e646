"""A flat faiss search and a bm25s search, one after the other: the opponent of a hybrid query, which fuses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import bm25s
import faiss
import numpy as np
from numpy.typing import NDArray

from dataset_builders.lexical import tokenize

Float32 = NDArray[np.float32]


class Bare:
    """Both indexes over the same documents."""

    def __init__(self, texts: Sequence[str], vectors: Float32) -> None:
        self.dense = faiss.IndexFlatIP(vectors.shape[1])
        self.dense.add(vectors)
        self.words = bm25s.BM25(method="lucene", k1=1.5, b=0.75, backend="numpy")
        self.words.index([tokenize(text) for text in texts], show_progress=False)

    def search(self, vector: Float32, claim: str, k: int) -> Any:
        """The ``k`` best of either side."""
        return self.dense.search(vector[None], k), self.words.retrieve([tokenize(claim)], k=k, show_progress=False)
