"""Relative score fusion of a dense and a lexical ranking: ``minmax(dense) + weight * minmax(bm25)``.

The stance paper (5.3) adds and does not mix: for the order, a weight of 0.1 equals a convex share of 0.1 / 1.1. The
two functions differ in what they see. `fuse` sees every document, as the paper does, so a constant list tells nothing
and counts 0. `fuse_candidates` sees the best of either side, where a document that is absent counts 0 and one that was
found, be it alone, counts 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

_EPSILON = 1e-8  # the paper's guard against a constant list

WHOLE_CORPUS_LIMIT = 200_000
"""Up to this many documents whole score lists are fused, in evaluation and search alike; above, candidate lists."""


def fuse(dense: ArrayLike, bm25: ArrayLike, weight: float) -> NDArray[np.float64]:
    """Fuse the scores of the whole corpus.

    Args:
        dense: float[..., n_docs] cosines.
        bm25: float[..., n_docs] BM25 scores, all 0 where no term matched.
        weight: λ, in [0, 1]. With 0 the order is the dense one.

    Returns:
        float64[..., n_docs] in [0, 1 + weight].

    Raises:
        ValueError: If a score is not finite (naming the list), the shapes differ, or the weight is not in [0, 1].
    """
    check_weight(weight)
    a, b = np.asarray(dense, np.float64), np.asarray(bm25, np.float64)
    if a.shape != b.shape:
        raise ValueError(
            f"got dense scores of shape {a.shape} and bm25 scores of shape {b.shape}, wanted the same documents"
        )
    for name, scores in (("dense", a), ("bm25", b)):
        if not np.isfinite(scores).all():
            place = tuple(int(i) for i in np.argwhere(~np.isfinite(scores))[0])
            raise ValueError(f"list {name!r}, document {place[-1]}: got {scores[place]}, wanted a finite score")
    return _minmax(a) + weight * _minmax(b) if weight else _minmax(a)


def fuse_candidates(
    dense: NDArray[np.float64],
    bm25: NDArray[np.float64],
    of_dense: Sequence[int],
    of_bm25: Sequence[int],
    weight: float,
) -> NDArray[np.float64]:
    """Fuse the scores of two lists of candidates, each stretched to [0, 1] over its own list.

    Args:
        dense: float64[n_docs] cosines; only those of candidates are read.
        bm25: float64[n_docs] BM25 scores; likewise.
        of_dense: Places of the candidates of the dense side, whose scores are finite.
        of_bm25: Places of those of the lexical side.
        weight: λ, in [0, 1].

    Returns:
        float64[n_docs] in [0, 1 + weight]; ``-inf`` for a document that is no candidate; with weight 0 only the dense
        ones are.

    Raises:
        ValueError: If the weight is not in [0, 1].
    """
    check_weight(weight)
    fused = np.full(len(dense), -np.inf)
    if weight:
        fused[of_bm25] = 0.0
    fused[of_dense] = _stretched(dense[of_dense])
    if weight:
        fused[of_bm25] += weight * _stretched(bm25[of_bm25])
    return fused


def _minmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    if not scores.shape[-1]:
        return scores
    low = scores.min(axis=-1, keepdims=True)
    return np.asarray((scores - low) / (scores.max(axis=-1, keepdims=True) - low + _EPSILON))


def _stretched(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores on [0, 1]; a constant list, such as a single hit, is 1 throughout."""
    low, high = (scores.min(), scores.max()) if len(scores) else (0.0, 0.0)
    return (scores - low) / (high - low) if high > low else np.ones_like(scores)


def check_weight(weight: object) -> None:
    """Refuse a weight that is no number from 0 to 1."""
    number = isinstance(weight, (int, float, np.integer, np.floating)) and not isinstance(weight, bool)
    if not (number and 0 <= weight <= 1):  # type: ignore[operator]
        raise ValueError(f"got the weight {weight!r}, wanted a number from 0 to 1, such as 0.1")
