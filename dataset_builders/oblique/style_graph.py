"""The graph of a frozen specialist: who writes like whom, taken over as training pairs (O 3.2).

Of the specialist only the neighbourhoods are used, never its scores. It is a callable over texts, such as the built-in
`stylometric`, or a file of vectors, a row a document: `python -m hub_models encode` writes one for any
sentence-transformers model, and for LUAR (O's own teacher), whose repository's code it runs if the user names it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataset_builders.choices import STYLE_NEIGHBOURS
from dataset_builders.knn import approximate_neighbours, lengths, neighbours
from dataset_builders.oblique.stylometry import STYLOMETRIC, stylometric

__all__ = ["STYLOMETRIC", "Edge", "K", "Specialist", "draw_edges", "embed", "randomise", "style_graph", "stylometric"]

Specialist = Callable[[Sequence[str]], NDArray[np.floating]]
"""Texts to floating-point numbers of shape [n, d], a row a text in their order."""

K = STYLE_NEIGHBOURS

_CONSTANT = 1e-6  # of unit vectors: what rounding leaves between equal ones


class Edge(NamedTuple):
    """A directed edge: ``positive`` is among the nearest of ``anchor``. Both are document ids."""

    anchor: str
    positive: str


def embed(specialist: Specialist | NDArray[np.floating], texts: Mapping[str, str]) -> NDArray[np.float32]:
    """float32[n, d], the specialist's vectors of the documents, as it gave them.

    Args:
        specialist: Called once with all texts; or vectors that were computed before.
        texts: By document id; at least two.

    Raises:
        ValueError: If there are fewer than two documents or one is blank; or the vectors are no matrix of numbers with
            a row a document and at least two columns, one is zero, NaN or infinite, or all of them are equal.
    """
    ids = list(texts)
    if len(ids) < 2:
        raise ValueError(f"got {len(ids)} documents, wanted at least 2: a graph needs neighbours")
    blank = [i for i, text in texts.items() if not text.strip()]
    if blank:
        raise ValueError(f"{len(blank)} documents have no text, such as {blank[:5]}: remove them, or fill them in")
    given = specialist(list(texts.values())) if callable(specialist) else specialist
    try:
        vectors = np.asarray(given, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the specialist gave no matrix ({error}); wanted numbers of shape [{len(ids)}, d], rows of one width"
        ) from None
    if vectors.ndim != 2 or len(vectors) != len(ids) or vectors.shape[1] < 2:
        raise ValueError(
            f"the specialist gave numbers of shape {list(vectors.shape)} for {len(ids)} documents, wanted "
            f"[{len(ids)}, d] with d of 2 or more, a row a document in their order"
        )
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"the specialist's vectors hold NaN or infinity for {(~finite).sum()} documents, such as "
            f"{[ids[i] for i in np.flatnonzero(~finite)[:5]]}"
        )
    norms = lengths(vectors)
    if not norms.all():
        raise ValueError(
            f"the specialist's vectors are zero for {(norms == 0).sum()} documents, such as "
            f"{[ids[i] for i in np.flatnonzero(norms == 0)[:5]]}"
        )
    first = vectors[0] / norms[0]
    if all(abs(v / n - first).max() <= _CONSTANT for v, n in zip(vectors, norms, strict=True)):
        raise ValueError(
            f"the specialist gave all {len(ids)} documents the same vector: nobody is nearer than anybody else"
        )
    return vectors


def style_graph(
    vectors: NDArray[np.float32],
    ids: Sequence[str],
    k: int = K,
    *,
    sources: Sequence[Hashable] | None = None,
    approximate: bool = False,
    seed: int = 0,
) -> list[Edge]:
    """The edges of the graph: each document with its ``k`` nearest others by cosine (O equations 2 to 4).

    A document is left out of its own neighbours by its id, never by its rank.

    Args:
        vectors: float32[n, d], of `embed`.
        ids: One distinct id a document.
        k: Neighbours a document.
        sources: As for `knn.neighbours`: parts of one longer text are no edge, for they share a subject too.
        approximate: Search as `knn.approximate_neighbours` does.
        seed: Of the approximate search.

    Returns:
        By anchor, nearest first; fewer than ``k`` an anchor where sources leave fewer.

    Raises:
        ValueError: If ``k`` is not from 1 to n - 1, or for what `knn.neighbours` refuses.
    """
    if not 1 <= k < len(ids):
        raise ValueError(f"got k = {k} and {len(ids)} documents, wanted from 1 to {len(ids) - 1}: the others")
    if approximate:
        graph = approximate_neighbours(vectors, k, ids, sources=sources, seed=seed)
    else:
        graph = neighbours(vectors, k, ids, sources=sources)
    return [Edge(anchor, near) for anchor, hits in zip(ids, graph, strict=True) for near, _ in hits]


def draw_edges(edges: Sequence[Edge], dose: int | None, seed: int = 0) -> list[Edge]:
    """``dose`` edges, drawn uniformly without replacement (O equation 5), in the order of the graph; all, if null.

    With one seed the edges of a smaller dose are among those of a larger one.

    Raises:
        ValueError: If ``dose`` is below 1 or above the number of edges.
    """
    if dose is None:
        return list(edges)
    if not 1 <= dose <= len(edges):
        raise ValueError(
            f"got a dose of {dose} and {len(edges)} edges, wanted from 1 to {len(edges)}; a larger k gives more edges"
        )
    drawn = np.random.default_rng(seed).permutation(len(edges))[:dose]
    return [edges[i] for i in sorted(drawn)]


def randomise(
    edges: Sequence[Edge], ids: Sequence[str], negatives: Sequence[Sequence[str]], seed: int = 0
) -> list[Edge]:
    """The control: each positive replaced by a document drawn uniformly, anchors and negatives as they are (O H).

    Args:
        edges: Of the true graph.
        ids: All documents.
        negatives: Of each edge: no anchor is drawn itself, or any negative of its edges, which would be right in
            one row and wrong in another.
        seed: Of the draw.

    Raises:
        ValueError: If nothing is left to draw.
    """
    rng = np.random.default_rng(seed)
    barred_of: dict[str, set[str]] = {edge.anchor: {edge.anchor} for edge in edges}
    for edge, kept in zip(edges, negatives, strict=True):
        barred_of[edge.anchor].update(kept)
    drawn = []
    for edge in edges:
        barred = barred_of[edge.anchor]
        if barred.issuperset(ids):
            raise ValueError(
                f"got {len(ids)} documents, wanted more than the negatives and the anchor {edge.anchor!r}"
            )
        while (positive := ids[int(rng.integers(len(ids)))]) in barred:
            pass
        drawn.append(Edge(edge.anchor, positive))
    return drawn
