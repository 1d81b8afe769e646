"""Sums over units drawn anew many times: with replacement for intervals, under signs that are coins for p-values.

Both are looked up, several units at a time, in a table of what these can add up to, which saves draws and additions.
Random bits come straight from the bit generator, whose stream for a seed numpy guarantees, as it does not for
`Generator`; SFC64 is its fastest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
Places = NDArray[np.uint64]

_PAIRS = 2**18  # pairs that stand in a table: 2 MiB, which the cache still gives fast
_BLOCK = 2**16  # numbers looked up at once: they stay in the cache, and memory is bounded whatever the number of units
_SIGNS = 1.0 - 2.0 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)  # float64[256, 8], those of a byte


def generator(seed: int) -> np.random.Generator:
    """What `resampled` and `flipped` draw from."""
    return np.random.Generator(np.random.SFC64(seed))


def resampled(rng: np.random.Generator, columns: Float64, resamples: int) -> Float64:
    """float64[n_columns, resamples]: the sum of n draws, with replacement, from the n values of each column.

    Up to 512 values are drawn by twos: one random number stands for two draws. All columns have the same draws.
    """
    n = columns.shape[1]
    tables, times = columns, n
    if n * n <= _PAIRS:
        tables, times = (columns[:, :, None] + columns[:, None, :]).reshape(-1, n * n), n // 2
    sums = _looked_up(tables, times, resamples, lambda places: _fill(rng, tables.shape[1], places))
    if 2 * times == n - 1:  # one is left
        sums += _looked_up(columns, 1, resamples, lambda places: _fill(rng, n, places))
    return sums


def flipped(rng: np.random.Generator, columns: Float64, resamples: int) -> Float64:
    """float64[n_columns, resamples]: the sum of each column's values under signs that are coins, the same for all.

    A random byte is eight coins; a table holds the sums of eight values under each of its 256 patterns.
    """
    n = columns.shape[1]
    of_bytes = -(-n // 8)
    eights = np.pad(columns, ((0, 0), (0, of_bytes * 8 - n))).reshape(-1, of_bytes, 8)
    tables = (eights @ _SIGNS.T).reshape(len(columns), -1)
    starts = 256 * np.arange(of_bytes, dtype=np.uint64)

    def fill(places: Places) -> None:
        np.add(_words(rng, places.size, np.uint8).reshape(places.shape), starts, out=places)

    return _looked_up(tables, of_bytes, resamples, fill)


def _looked_up(tables: Float64, times: int, resamples: int, fill: Callable[[Places], None]) -> Float64:
    """float64[n_tables, resamples]: the sum of what stands at so many places of a table, which ``fill`` draws."""
    rows = min(resamples, max(1, _BLOCK // times))
    places, found = np.empty((rows, times), np.uint64), np.empty((rows, times))
    sums = np.empty((len(tables), resamples))
    for start in range(0, resamples, rows):
        here = slice(resamples - start)  # fewer than all in the last block
        fill(places[here])
        for table, out in zip(tables, sums[:, start : start + rows], strict=True):
            table.take(places[here].view(np.intp), mode="clip", out=found[here])
            np.einsum("ij->i", found[here], out=out)
    return sums


def _fill(rng: np.random.Generator, high: int, numbers: Places) -> None:
    """Numbers from 0 to below ``high``, less than 2**32, each as likely (Lemire, https://arxiv.org/abs/1805.10941).

    `Generator.integers` multiplies and rejects in the same way, number by number, which takes twice as long.
    """
    words = _words(rng, numbers.size, np.uint32).reshape(numbers.shape)
    np.multiply(words, high, out=numbers, dtype=np.uint64)
    numbers >>= np.uint64(32)
    if unfair := 2**32 % high:
        words *= np.uint32(high)  # the lower half of the product
        again = words < unfair
        if count := np.count_nonzero(again):
            anew = np.empty(count, np.uint64)
            _fill(rng, high, anew)
            numbers[again] = anew


def _words(rng: np.random.Generator, n: int, dtype: type[np.unsignedinteger[Any]]) -> NDArray[Any]:
    """Random bits as ``n`` unsigned numbers."""
    words: NDArray[Any] = rng.bit_generator.random_raw(-(-n * np.dtype(dtype).itemsize // 8)).view(dtype)[:n]
    return words
