"""Vectors in a quarter and in a thirty-second of the memory, for corpora whose float32 vectors do not fit.

Queries stay float32. On the disk vectors stay float32 too (`hub_models.vector_store`): what is quantised here is what
a search holds in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hub_models.retrieval.dense import Float32, check_dimension, check_one_a_text, distinct
from hub_models.retrieval.ranking import CANDIDATES

_BLOCK = 4096  # vectors: as many as stay in a processor's cache as float32


class Int8Index:
    """Every score, from a byte a number: a quarter of the memory and about the time of float32.

    The range is fixed by the vector itself, [-m, m] for its largest magnitude m, in 255 steps: a document's code hangs
    on its text alone, never on the others of its batch or corpus, and nothing is clipped.

    Args:
        texts: One text a document.
        vectors: float32[n_docs, d], L2-normalised, equal for equal texts; read a block at a time, not kept.

    Raises:
        ValueError: If there is not one vector for each text.
    """

    depth: int | None = None

    def __init__(self, texts: Sequence[str], vectors: Float32) -> None:
        check_one_a_text(texts, vectors)
        first, self._column = distinct(texts)
        self._codes = np.empty((len(first), vectors.shape[1]), np.int8)
        self._steps = np.empty(len(first), np.float32)
        for start in range(0, len(first), _BLOCK):
            block = vectors[first[start : start + _BLOCK]]
            steps = np.abs(block).max(axis=1) / np.float32(127)
            self._steps[start : start + _BLOCK] = steps
            self._codes[start : start + _BLOCK] = np.rint(block / steps[:, None])

    @property
    def nbytes(self) -> int:
        """What the vectors take in memory: d + 4 bytes a distinct text."""
        return self._codes.nbytes + self._steps.nbytes

    def scores(self, queries: Float32, also: Sequence[int] = ()) -> Float32:
        """As in `dense.VectorIndex`: all of them, each off by at most half a step a dimension."""
        check_dimension(queries, self._codes.shape[1])
        scores = np.empty((len(queries), len(self._codes)), np.float32)
        for start in range(0, len(self._codes), _BLOCK):
            block = self._codes[start : start + _BLOCK].astype(np.float32)
            scores[:, start : start + _BLOCK] = queries @ block.T
        scores *= self._steps
        return scores if self._column is None else scores[:, self._column]


class BinaryIndex:
    """A bit a number finds candidates by Hamming distance, whose float32 vectors give the scores.

    Memory holds a thirty-second of the vectors, the disk all of them: a query reads its candidates' alone.

    Args:
        texts: One text a document.
        vectors: float32[n_docs, d], L2-normalised, equal for equal texts; kept, so have them mapped from a file.

    Attributes:
        depth: How many documents a query finds, None where that is all.

    Raises:
        ValueError: If there is not one vector for each text.
    """

    def __init__(self, texts: Sequence[str], vectors: Float32) -> None:
        import faiss

        check_one_a_text(texts, vectors)
        self._first, self._column = distinct(texts)
        self._vectors = vectors
        self._index = faiss.IndexBinaryFlat(8 * ((vectors.shape[1] + 7) // 8))  # the bits beyond are 0 everywhere
        for start in range(0, len(self._first), _BLOCK):
            self._index.add(_bits(vectors[self._first[start : start + _BLOCK]]))
        self.depth = None if len(self._first) <= CANDIDATES else CANDIDATES

    @property
    def nbytes(self) -> int:
        """What the bits take in memory: d / 8 bytes a distinct text."""
        return int(self._index.ntotal * self._index.code_size)

    def scores(self, queries: Float32, also: Sequence[int] = ()) -> Float32:
        """As in `dense.VectorIndex`."""
        check_dimension(queries, self._vectors.shape[1])
        scores = np.full((len(queries), len(self._first)), -np.inf, np.float32)
        wanted = np.asarray(also, np.int64) if self._column is None else self._column[list(also)]
        near = self._index.search(_bits(queries), min(CANDIDATES, len(self._first)))[1]
        for query, row, found in zip(queries, scores, near, strict=True):
            places = np.union1d(found, wanted)  # in order: the disk is read in one direction
            row[places] = self._vectors[self._first[places]] @ query
        return scores if self._column is None else scores[:, self._column]


def _bits(vectors: Float32) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    return np.packbits(vectors > 0, axis=1)
