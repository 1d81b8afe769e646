"""Made-up texts whose words are as frequent as those of a language (Zipf), and made-up vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

WORDS = 50_000
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def vocabulary(words: int = WORDS) -> list[str]:
    """Distinct words of three letters and more, the most frequent first."""
    return [
        _LETTERS[i % 26] + _LETTERS[i // 26 % 26] + _LETTERS[i // 676 % 26] + str(i // 17_576) for i in range(words)
    ]


def texts(n: int, shortest: int, longest: int, seed: int, words: int = WORDS) -> list[str]:
    """``n`` texts of ``shortest`` to ``longest`` words; the i-th word of the vocabulary has a share of 1 / i."""
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, words + 1)
    edges = np.cumsum(shares / shares.sum())
    lengths = rng.integers(shortest, longest + 1, n)
    known = np.array(vocabulary(words), dtype=object)
    made = []
    for start in range(0, n, 10_000):
        here = lengths[start : start + 10_000]
        drawn = known[np.searchsorted(edges, rng.random(here.sum())).clip(max=words - 1)]
        made += [" ".join(part) for part in np.split(drawn, np.cumsum(here)[:-1])]
    return made


def clustered(
    n: int, width: int, spread: float, seed: int, *, per_cluster: int = 1_000, block: int | None = None
) -> NDArray[np.float32]:
    """float32[n, width] of unit length, in clusters: a centre and noise ``spread`` times as wide as centres lie apart.

    Args:
        n: Vectors.
        width: Dimensions.
        spread: Of the noise; with 1 it has the centres' variance.
        seed: Of centres, clusters and noise.
        per_cluster: Vectors a cluster, about.
        block: Draw so many at once, which bounds the memory and decides about the draws; by default all.
    """
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((max(1, n // per_cluster), width), dtype=np.float32)
    made = np.empty((n, width), np.float32)
    for start in range(0, n, block or n):
        part = made[start : start + (block or n)]
        part[:] = centres[rng.integers(0, len(centres), len(part))]
        part += np.float32(spread) * rng.standard_normal(part.shape, dtype=np.float32)
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return made


def vectors(n: int, width: int, seed: int) -> NDArray[np.float32]:
    """float32[n, width] of unit length, in no clusters."""
    rng = np.random.default_rng(seed)
    made = np.empty((n, width), np.float32)
    for start in range(0, n, 10_000):
        block = made[start : start + 10_000]
        rng.standard_normal(block.shape, dtype=np.float32, out=block)
        block /= np.linalg.norm(block, axis=1, keepdims=True)
    return made
