from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dataset_builders.oblique.style_graph import Edge, draw_edges, embed, randomise, style_graph, stylometric

TEXTS = {"a": "One text.", "b": "Another text.", "c": "A third, longer text.", "d": "The last of them!"}
VECTORS = np.array([[1, 0], [0.9, 0.1], [0.1, 0.9], [0, 1]], np.float32)


def test_the_nearest_others_by_hand() -> None:
    assert style_graph(VECTORS, list(TEXTS), 1) == [("a", "b"), ("b", "a"), ("c", "d"), ("d", "c")]
    assert style_graph(VECTORS * np.array([[5], [1], [2], [9]], np.float32), list(TEXTS), 2)[:2] == [
        ("a", "b"),
        ("a", "c"),
    ]  # cosine
    # Equal vectors: the document itself is left out by its id, not by its place.
    same = np.array([[1, 0], [1, 0], [1, 0], [0, 1]], np.float32)
    assert style_graph(same, list(TEXTS), 1) == [("a", "b"), ("b", "a"), ("c", "a"), ("d", "a")]
    # Parts of one longer text are no edge.
    assert style_graph(VECTORS, list(TEXTS), 1, sources=["x", "x", None, None])[:2] == [("a", "c"), ("b", "c")]


@pytest.mark.parametrize("k", [1, 3, 5, 10])
def test_every_size_of_the_sweep_holds_the_smaller_ones(k: int) -> None:
    vectors = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)
    ids = [f"d{i}" for i in range(30)]
    edges, most = style_graph(vectors, ids, k), style_graph(vectors, ids, 10)
    assert len(edges) == 30 * k and set(edges) <= set(most) and all(a != b for a, b in edges)
    assert set(style_graph(vectors, ids, k, approximate=True)) == set(edges)  # so few that all cells are looked into


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.ones((3, 2)), r"numbers of shape \[3, 2\] for 4 documents, wanted \[4, d\]"),
        (np.ones(4), r"numbers of shape \[4\] for 4 documents"),
        (np.ones((4, 1)), r"shape \[4, 1\] for 4 documents, wanted \[4, d\] with d of 2 or more"),
        (
            [[1.0, 2.0], [1.0], [1.0, 2.0], [1.0, 2.0]],
            r"gave no matrix \(.*\); wanted numbers of shape \[4, d\], rows of",
        ),
        (
            np.array([[1, 2], [np.nan, 1], [1, 0], [0, np.inf]]),
            r"NaN or infinity for 2 documents, such as \['b', 'd'\]",
        ),
        (np.array([[1, 2], [0, 0], [1, 0], [0, 1]]), r"zero for 1 documents, such as \['b'\]"),
        (np.array([[1, 2], [2, 4], [3, 6], [4, 8]]), "gave all 4 documents the same vector"),
    ],
)
def test_a_specialist_that_gives_no_vectors_to_use(given: Any, message: str) -> None:
    def specialist(texts: Sequence[str]) -> NDArray[np.float32]:
        assert list(texts) == list(TEXTS.values())
        found: NDArray[np.float32] = given
        return found

    with pytest.raises(ValueError, match=message):
        embed(specialist, TEXTS)
    if isinstance(given, np.ndarray):  # the same of a file
        with pytest.raises(ValueError, match=message):
            embed(given, TEXTS)


def test_a_graph_that_cannot_be() -> None:
    with pytest.raises(ValueError, match=r"1 documents have no text, such as \['c'\]: remove them, or fill them in"):
        embed(stylometric, TEXTS | {"c": " \n"})
    with pytest.raises(ValueError, match="got 1 documents, wanted at least 2: a graph needs neighbours"):
        embed(stylometric, {"a": "One."})
    for k in (0, 4):
        with pytest.raises(ValueError, match=f"got k = {k} and 4 documents, wanted from 1 to 3: the others"):
            style_graph(VECTORS, list(TEXTS), k)
    edges = style_graph(VECTORS, list(TEXTS), 1)
    for dose in (0, 5):
        with pytest.raises(ValueError, match=f"got a dose of {dose} and 4 edges, wanted from 1 to 4; a larger k"):
            draw_edges(edges, dose)


def test_a_dose_is_uniform_seeded_and_grows() -> None:
    edges = [Edge(str(i), str(i + 1)) for i in range(50)]
    assert draw_edges(edges, None) == edges
    small, large = draw_edges(edges, 10, seed=3), draw_edges(edges, 30, seed=3)
    assert set(small) < set(large) and sorted(large, key=edges.index) == large and len(large) == 30
    assert draw_edges(edges, 10, seed=3) == small != draw_edges(edges, 10, seed=4)
    n = Counter(edge for seed in range(2000) for edge in draw_edges(edges, 10, seed))
    assert len(n) == 50 and max(abs(count - 400) for count in n.values()) < 4.5 * (2000 * 0.2 * 0.8) ** 0.5


def test_the_control_keeps_anchors_and_leaves_negatives_alone() -> None:
    ids = [f"d{i}" for i in range(8)]
    edges = [Edge(i, "d0") for i in ids] * 300
    negatives = [["d5", "d6"] for _ in edges]
    found = randomise(edges, ids, negatives, seed=1)
    assert [e.anchor for e in found] == [e.anchor for e in edges]
    assert all(e.positive not in (e.anchor, "d5", "d6") for e in found)
    n = Counter(e.positive for e in found if e.anchor == "d7")
    assert n.keys() == {"d0", "d1", "d2", "d3", "d4"} and min(n.values()) > 30
    assert randomise(edges, ids, negatives, seed=1) == found
    with pytest.raises(ValueError, match="got 3 documents, wanted more than the negatives and the anchor 'a'"):
        randomise([Edge("a", "b")], ["a", "b", "c"], [["b", "c"]])
