"""The one neighbour search over vectors: exact, in bounded memory, repeatable to the last tie; and an approximate one
for where the exact one takes hours."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Hits = list[tuple[str, float]]

_QUERIES = 8192  # rows of a block of scores
_DOCUMENTS = 8192  # its columns
_AT_ONCE = 2**18  # numbers of hits' vectors that are scored anew together: they stay in the cache
_MARGIN = 2  # hits beyond the depth that show that nothing below them can belong above
_CELLS = 4  # times the root of the number of documents
_PROBED = 32  # cells a query looks into


def neighbours(
    vectors: Float32, k: int, ids: Sequence[str], *, sources: Sequence[Hashable] | None = None
) -> list[Hits]:
    """The ``k`` nearest other documents of each document by cosine, itself left out by its id, never by its rank.

    Args:
        vectors: float32[n, d]; brought to unit length here.
        k: At most this many; fewer where fewer documents may be returned.
        ids: One distinct id a document.
        sources: Where each document is from, such as the longer text that it is a part of. Documents of one source are
            not each other's neighbours; null is no source.

    Returns:
        For each document its neighbours as (id, cosine), nearest first, ties by id.

    Raises:
        ValueError: If shapes or ids do not fit, ``k`` is below 1, or a vector is zero or holds NaN or infinity; each
            is named.
    """
    norms, out = _prepare(vectors, k, ids, sources)
    depth = k + max(map(len, out), default=0)
    return list(_search(vectors, norms, k, depth, ids, out if sources is not None else None))


def approximate_neighbours(
    vectors: Float32, k: int, ids: Sequence[str], *, sources: Sequence[Hashable] | None = None, seed: int = 0
) -> list[Hits]:
    """As `neighbours`, but some of the nearest may be missed: for a million vectors, where an exact scan takes hours.

    An inverted file (faiss, ``IVFFlat``): vectors are sorted into cells by k-means, and each looks into the 32 cells
    nearest to it, whose scores are exact. It is repeatable by its seed, which a graph index built by several threads
    is not. Memory holds the vectors a second time. On a million vectors in clusters the recall at 10 is above .99;
    where the clusters dissolve in noise it falls (``results/README.md``): then take the exact search.

    Args:
        vectors: As for `neighbours`.
        k: As for `neighbours`; there are fewer hits also where the cells looked into hold fewer.
        ids: As for `neighbours`.
        sources: As for `neighbours`.
        seed: Of the cells.

    Raises:
        ValueError: As `neighbours` does.
    """
    import faiss

    norms, out = _prepare(vectors, k, ids, sources)
    n, width = vectors.shape
    cells = max(1, min(int(_CELLS * n**0.5), n // 39))  # faiss wants 39 vectors a cell to train on
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(width), width, cells, faiss.METRIC_INNER_PRODUCT)
    index.cp.seed, index.cp.max_points_per_centroid = seed + 1, 64
    blocks = [slice(start, start + _DOCUMENTS) for start in range(0, n, _DOCUMENTS)]
    drawn = np.sort(np.random.default_rng(seed).permutation(n)[: cells * index.cp.max_points_per_centroid])
    index.train(vectors[drawn] / norms[drawn, None])
    for block in tqdm(blocks, desc="cells", unit=" blocks", delay=2):
        index.add(vectors[block] / norms[block, None])
    index.nprobe = min(_PROBED, cells)
    depth = min(n, k + max(map(len, out), default=0))
    found: list[Hits] = []
    for block in tqdm(blocks, desc="neighbours", unit=" blocks", delay=2):
        scores, rows = index.search(vectors[block] / norms[block, None], depth)
        for i, (near, at) in enumerate(zip(scores, rows, strict=True), start=block.start):
            hits = [(ids[row], float(score)) for row, score in zip(at, near, strict=True) if row >= 0]
            found.append(sorted((h for h in hits if h[0] not in out[i]), key=lambda h: (-h[1], h[0]))[:k])
    return found


def _prepare(
    vectors: Float32, k: int, ids: Sequence[str], sources: Sequence[Hashable] | None
) -> tuple[Float32, list[frozenset[str]]]:
    """The length of each vector, and the ids that are not its neighbours: its own, and those of its source."""
    _check(vectors, k, ids)
    norms = lengths(vectors)
    if not norms.all():
        raise ValueError(f"{(norms == 0).sum()} vectors are zero: {[ids[i] for i in np.flatnonzero(norms == 0)[:10]]}")
    out: list[frozenset[str]] = [frozenset([i]) for i in ids]
    if sources is not None:
        members: dict[Hashable, set[str]] = {}
        for document, source in zip(ids, sources, strict=True):
            if source is not None:
                members.setdefault(source, set()).add(document)
        shared = {source: frozenset(found) for source, found in members.items()}
        out = [shared.get(s, own) if s is not None else own for s, own in zip(sources, out, strict=True)]
    return norms, out


def lengths(vectors: Float32) -> Float32:
    """float32[n], the Euclidean length of each row."""
    blocks = [np.linalg.norm(vectors[i : i + _DOCUMENTS], axis=1) for i in range(0, len(vectors), _DOCUMENTS)]
    return np.concatenate(blocks).astype(np.float32) if blocks else np.zeros(0, np.float32)


def _check(documents: Float32, k: int, ids: Sequence[str]) -> None:
    if documents.ndim != 2 or len(ids) != len(documents):
        raise ValueError(f"got vectors of shape {documents.shape} and {len(ids)} ids, wanted [n, d] and n ids")
    doubled = [i for i, n in Counter(ids).items() if n > 1]
    if doubled:
        raise ValueError(f"ids must be distinct; doubled: {doubled[:10]}")
    if k < 1:
        raise ValueError(f"got k = {k}, wanted at least 1")
    bad = [ids[i] for start in range(0, len(ids), _DOCUMENTS) for i in _broken(documents, start)]
    if bad:
        raise ValueError(f"{len(bad)} vectors hold NaN or infinity: {bad[:10]}")


def _broken(documents: Float32, start: int) -> NDArray[np.intp]:
    block = documents[start : start + _DOCUMENTS]
    with np.errstate(over="ignore", invalid="ignore"):
        suspects = np.flatnonzero(~np.isfinite(block.sum(axis=1)))  # a finite sum has finite parts
    return start + suspects[~np.isfinite(block[suspects]).all(axis=1)]


def _search(
    vectors: Float32, norms: Float32, k: int, depth: int, ids: Sequence[str], out: Sequence[frozenset[str]] | None
) -> Iterator[Hits]:
    """Fetch ``depth`` for each vector, drop what is in ``out``, or without it the vector itself, keep ``k``."""
    order = np.argsort(np.array(ids)) if len(ids) else np.zeros(0, np.intp)
    rank = np.empty(len(ids), np.intp)
    rank[order] = np.arange(len(ids))
    # A matrix product may give equal vectors unequal last bits: they are scored once.
    groups = _equal(vectors, order)  # by smallest id, each by id
    first = np.array([group[0] for group in groups], dtype=np.intp)
    alone, names = len(groups) == len(ids), np.array(ids, dtype=object)
    for start in tqdm(range(0, len(vectors), _QUERIES), desc="neighbours", unit=" blocks", delay=2):
        block = vectors[start : start + _QUERIES] / norms[start : start + _QUERIES, None]
        best, scores = _certain(block, vectors, norms, first, depth)
        if alone and out is None:  # by arrays: a list for each query costs as much as the search
            best = first[best]
            scores[best == np.arange(start, start + len(block))[:, None]] = -np.inf
            by_score = np.lexsort((rank[best], -scores))[:, : min(k, len(ids) - 1)]
            found = names[np.take_along_axis(best, by_score, axis=1)].ravel().tolist()
            values = np.take_along_axis(scores, by_score, axis=1).ravel().tolist()
            hits, each = list(zip(found, values, strict=True)), by_score.shape[1]
            yield from (hits[i * each : (i + 1) * each] for i in range(len(block)))
            continue
        for i, (row, near) in enumerate(zip(best.tolist(), scores.tolist(), strict=True), start=start):
            dropped = {ids[i]} if out is None else out[i]
            members = sorted((-score, rank[m], m) for g, score in zip(row, near, strict=True) for m in groups[g])
            yield [(ids[m], -minus) for minus, _, m in members if ids[m] not in dropped][:k]


def _equal(documents: Float32, order: NDArray[np.intp]) -> list[list[int]]:
    """Rows of equal bytes together, all in the given order. Only rows of one checksum are looked at whole."""
    sums = np.empty(len(documents), np.uint32)
    for start in range(0, len(documents), _DOCUMENTS):
        block = np.ascontiguousarray(documents[start : start + _DOCUMENTS], np.float32)
        sums[start : start + _DOCUMENTS] = np.bitwise_xor.reduce(block.view(np.uint32), axis=1)
    _, inverse, counts = np.unique(sums, return_inverse=True, return_counts=True)
    shared = counts[inverse] > 1
    groups: dict[bytes | int, list[int]] = {}
    for i, twin in zip(order.tolist(), shared[order].tolist(), strict=True):
        groups.setdefault(hashlib.sha256(documents[i].tobytes()).digest() if twin else i, []).append(i)
    return list(groups.values())


def _certain(
    queries: Float32, documents: Float32, norms: Float32, first: NDArray[np.intp], depth: int
) -> tuple[NDArray[np.intp], Float64]:
    """The columns of the best ``depth`` of each query and some more, int[q, m], and their scores, float64[q, m].

    faiss finds the candidates in float32, they are scored anew in float64. Where the worst of the candidates is not
    further below the last wanted one than rounding can lift it, as with ties, the query goes to `_best`.
    """
    width = min(depth + _MARGIN, len(first))
    near, columns = _candidates(queries, documents, norms, first, width)
    scores = _scores(queries, documents, norms, first, columns)
    if width == len(first):
        return columns, scores
    error = 2.0**-23 * documents.shape[1] * np.linalg.norm(queries, axis=1)
    last = -np.partition(-scores, depth - 1, axis=1)[:, depth - 1]
    unsure = np.flatnonzero(last <= near.min(axis=1) + error)
    for start in range(0, len(unsure), 256):
        rows = unsure[start : start + 256]
        columns[rows, :depth] = _best(queries[rows], documents, norms, first, depth)
        scores[rows, :depth] = _scores(queries[rows], documents, norms, first, columns[rows, :depth])
        scores[rows, depth:] = -np.inf
    return columns, scores


def _candidates(
    queries: Float32, documents: Float32, norms: Float32, first: NDArray[np.intp], width: int
) -> tuple[Float32, NDArray[np.intp]]:
    """The highest ``width`` scores of each query in float32 and their columns, in no order, of equal ones any."""
    import faiss

    scores = np.empty((len(queries), 0), np.float32)
    columns = np.empty((len(queries), 0), np.intp)
    for start in range(0, len(first), _DOCUMENTS):
        here = first[start : start + _DOCUMENTS]
        block = documents[here] / norms[here, None]
        near, at = faiss.knn(queries, block, min(width, len(here)), metric=faiss.METRIC_INNER_PRODUCT)
        scores, columns = np.hstack([scores, near]), np.hstack([columns, at + start])
        if scores.shape[1] > width:
            kept = np.argpartition(-scores, width - 1, axis=1)[:, :width]
            scores, columns = np.take_along_axis(scores, kept, axis=1), np.take_along_axis(columns, kept, axis=1)
    return scores, columns


def _scores(
    queries: Float32, documents: Float32, norms: Float32, first: NDArray[np.intp], columns: NDArray[np.intp]
) -> Float64:
    """float64[q, m]: the product of each query with the documents of its columns, the same in whatever block."""
    scores = np.empty(columns.shape, np.float64)
    few = max(1, _AT_ONCE // max(1, columns.shape[1] * documents.shape[1]))
    for start in range(0, len(queries), few):
        rows = first[columns[start : start + few]]
        near, block = documents[rows].astype(np.float64), queries[start : start + few].astype(np.float64)
        scores[start : start + few] = np.einsum("qmd,qd->qm", near, block) / norms[rows]
    return scores


def _best(
    queries: Float32, documents: Float32, norms: Float32, first: NDArray[np.intp], depth: int
) -> NDArray[np.intp]:
    """int[q, min(depth, n)]: columns of the highest scores, of equal ones those that come first, in no order."""
    scores = np.empty((len(queries), 0), np.float32)
    columns = np.empty((len(queries), 0), np.intp)
    for start in range(0, len(first), _DOCUMENTS):
        here = first[start : start + _DOCUMENTS]
        scores = np.hstack([scores, queries @ (documents[here] / norms[here, None]).T])
        columns = np.hstack([columns, np.broadcast_to(np.arange(start, start + len(here)), (len(queries), len(here)))])
        if scores.shape[1] > depth:
            # Columns rise from left to right, those kept before included: of equal ones the first are the right ones.
            least = np.partition(scores, -depth, axis=1)[:, [-depth]]
            level = scores == least
            above = scores > least
            room = depth - above.sum(axis=1, keepdims=True)
            kept = above | (level & (np.cumsum(level, axis=1) <= room))
            scores = scores[kept].reshape(len(queries), depth)
            columns = columns[kept].reshape(len(queries), depth)
    return columns
