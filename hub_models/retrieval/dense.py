"""Dense search over unit vectors: what a search asks of an index, and the exact one in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
Places = NDArray[np.int64]


class VectorIndex(Protocol):
    """The seam between a search and whatever holds the vectors of its documents.

    Attributes:
        depth: How many documents a query finds at least, or None where it scores them all.
    """

    depth: int | None

    def scores(self, queries: Float32, also: Sequence[int] = ()) -> Float32:
        """Cosines in [-1, 1], equal for equal texts; ``-inf`` for a document that was not found.

        Args:
            queries: float32[n_queries, d], L2-normalised.
            also: Places of documents to score whether found or not, such as those that BM25 found.

        Returns:
            float32[n_queries, n_docs].

        Raises:
            ValueError: If the queries have another dimension than the documents.
        """


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

    depth: int | None = None

    def __init__(self, texts: Sequence[str], vectors: Float32) -> None:
        check_one_a_text(texts, vectors)
        first, self._column = distinct(texts)
        self._vectors = vectors if self._column is None else vectors[first]

    def scores(self, queries: Float32, also: Sequence[int] = ()) -> Float32:
        """As in `VectorIndex`: all of them."""
        check_dimension(queries, self._vectors.shape[1])
        scores = queries @ self._vectors.T
        return scores if self._column is None else scores[:, self._column]


def distinct(texts: Sequence[str]) -> tuple[Places, Places | None]:
    """Where each distinct text stands first, and for each text the number of its distinct one; None where all are."""
    first: dict[str, int] = {}
    for row, text in enumerate(texts):
        first.setdefault(text, row)
    places = np.fromiter(first.values(), np.int64, len(first))
    if len(first) == len(texts):
        return places, None
    number = {text: i for i, text in enumerate(first)}
    return places, np.fromiter((number[text] for text in texts), np.int64, len(texts))


def check_one_a_text(texts: Sequence[str], vectors: Float32) -> None:
    """Refuse vectors that are not as many as the texts."""
    if len(texts) != len(vectors):
        raise ValueError(f"got {len(texts)} texts and {len(vectors)} vectors, wanted one vector a text")


def check_dimension(queries: Float32, wanted: int) -> None:
    """Refuse queries that were encoded by another model than the documents."""
    if queries.shape[1:] != (wanted,):
        raise ValueError(
            f"got queries of dimension {queries.shape[1:]}, wanted {(wanted,)} like the documents; encode both with "
            "one model"
        )
