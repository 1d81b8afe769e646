"""The graph of the nearest neighbours by cosine, as scikit-learn and faiss give it: the opponents of `neighbours`."""

from __future__ import annotations

import faiss
import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]


def by_scikit_learn(vectors: Float32, k: int, asked: int) -> Int64:
    """int[asked, k + 1], the neighbours of the first ``asked``, the vector itself among them."""
    search = NearestNeighbors(n_neighbors=k + 1, algorithm="brute", metric="cosine").fit(vectors)
    found: Int64 = search.kneighbors(vectors[:asked], return_distance=False)
    return found


def by_faiss(vectors: Float32, k: int) -> Int64:
    """The same of all; the vectors are of unit length already."""
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    found: Int64 = index.search(vectors, k + 1)[1]
    return found
