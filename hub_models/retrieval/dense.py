"""Exact dense search over unit vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]


class DenseIndex:
    """The cosine of every query to every document.

    Equal texts get equal scores to the last bit: a matrix product may round two equal columns differently, so each
    distinct text takes part once.

    Args:
        texts: One text a document.
        vectors: float32[n_docs, d], L2-normalised, equal for equal texts.

    Raises:
        ValueError: If there is not one vector for each text.
    """

    def __init__(self, texts: Sequence[str], vectors: Float32) -> None:
        if len(texts) != len(vectors):
            raise ValueError(f"got {len(texts)} texts and {len(vectors)} vectors, wanted one vector a text")
        first: dict[str, int] = {}
        for row, text in enumerate(texts):
            first.setdefault(text, row)
        self._vectors = vectors if len(first) == len(texts) else vectors[list(first.values())]
        place = {text: i for i, text in enumerate(first)}
        self._column = None if len(first) == len(texts) else np.array([place[text] for text in texts])

    def scores(self, queries: Float32) -> Float32:
        """Cosines in [-1, 1].

        Args:
            queries: float32[n_queries, d], L2-normalised.

        Returns:
            float32[n_queries, n_docs].

        Raises:
            ValueError: If the queries have another dimension than the documents.
        """
        if queries.shape[1:] != self._vectors.shape[1:]:
            raise ValueError(
                f"got queries of dimension {queries.shape[1:]}, wanted {self._vectors.shape[1:]} like the documents; "
                "encode both with one model"
            )
        scores = queries @ self._vectors.T
        return scores if self._column is None else scores[:, self._column]
