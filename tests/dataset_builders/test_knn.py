from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.synthetic import clustered
from dataset_builders import knn
from dataset_builders.knn import approximate_neighbours, neighbours

TWO = np.array([[1, 0], [0, 1]], np.float32)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knn, "_QUERIES", 2)
    monkeypatch.setattr(knn, "_DOCUMENTS", 3)


def test_a_short_index_gives_what_there_is_case_21() -> None:
    assert neighbours(TWO, 4, ["0", "1"]) == [[("1", 0.0)], [("0", 0.0)]]
    assert neighbours(TWO[:1], 4, ["0"]) == [[]]
    assert neighbours(TWO[:0], 4, []) == []
    assert neighbours(TWO, 4, ["0", "1"], sources=["a", "a"]) == [[], []]


def reference(
    queries: np.ndarray[Any, Any], documents: np.ndarray[Any, Any], k: int, ids: list[str], out: list[set[str]]
) -> list[list[str]]:
    found = []
    for q, dropped in zip(queries, out, strict=True):
        scored = sorted((-float(q @ d), i) for d, i in zip(documents, ids, strict=True) if i not in dropped)
        found.append([i for _, i in scored[:k]])
    return found


# Of length 1, and of exact products: ties everywhere.
units = st.sampled_from([*np.eye(4), *-np.eye(4), *(np.array(signs) / 2 for signs in product((1, -1), repeat=4))])


@given(st.lists(st.tuples(units, st.integers(0, 3)), min_size=1, max_size=12), st.integers(1, 6), st.randoms())
def test_neighbours_are_a_sort_by_cosine_then_id(rows: Any, k: int, random: Any) -> None:
    vectors, sources = np.array([v for v, _ in rows], np.float32), [s or None for _, s in rows]
    ids = [f"d{i}" for i in range(len(rows))]
    random.shuffle(ids)
    itself = [{i} for i in ids]
    shared = [
        {j for j, s in zip(ids, sources, strict=True) if s == source} if source else own
        for own, source in zip(itself, sources, strict=True)
    ]
    with small():
        found = neighbours(vectors, k, ids)
        across = neighbours(vectors, k, ids, sources=sources)
    assert [[i for i, _ in hits] for hits in found] == reference(vectors, vectors, k, ids, itself)
    assert [[i for i, _ in hits] for hits in across] == reference(vectors, vectors, k, ids, shared)


def small() -> Any:
    patch = pytest.MonkeyPatch.context()

    class Small:
        def __enter__(self) -> None:
            m = patch.__enter__()
            m.setattr(knn, "_QUERIES", 2)
            m.setattr(knn, "_DOCUMENTS", 3)

        def __exit__(self, *raised: Any) -> None:
            patch.__exit__(*raised)

    return Small()


@pytest.mark.usefixtures("small_blocks")
def test_a_document_is_left_out_by_its_id_among_equal_ones() -> None:
    vectors = np.array([[0.6, 0.8]] * 5 + [[1, 0]], np.float32) * np.array([[1], [1], [1], [1], [1], [9]], np.float32)
    ids = ["e", "d", "c", "b", "a", "z"]
    found = neighbours(vectors, 2, ids)
    assert [[i for i, _ in hits] for hits in found] == [
        ["a", "b"],
        ["a", "b"],
        ["a", "b"],
        ["a", "c"],
        ["b", "c"],
        ["a", "b"],
    ]
    assert found[5][0][1] == pytest.approx(0.6)


@pytest.mark.usefixtures("small_blocks")
def test_documents_of_one_source_are_no_neighbours() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(11, 4)).astype(np.float32)
    ids = [f"d{i:02d}" for i in range(11)]
    sources = ["a"] * 6 + ["b"] * 3 + [None] * 2
    out = [{i for i, s in zip(ids, sources, strict=True) if s == source} for source in sources[:9]]
    out += [{"d09"}, {"d10"}]
    unit = vectors.astype(np.float64) / np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    found = neighbours(vectors, 6, ids, sources=sources)
    assert [[i for i, _ in hits] for hits in found] == reference(unit, unit, 6, ids, out)
    assert [len(hits) for hits in found] == [5] * 6 + [6] * 5


def test_equal_vectors_have_equal_scores_and_go_by_id() -> None:
    rng = np.random.default_rng(1)
    vectors = np.repeat(rng.normal(size=(40, 384)), 7, axis=0).astype(np.float32)
    ids = [f"d{i:03d}" for i in rng.permutation(len(vectors))]
    for hits in neighbours(vectors, 20, ids):
        assert hits == sorted(hits, key=lambda hit: (-hit[1], hit[0]))
        assert len({score for _, score in hits}) == 3  # six of its own, seven and seven


def test_memory_is_bounded_by_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: list[tuple[int, int]] = []
    matmul = faiss.knn

    def spy(queries: Any, documents: Any, *rest: Any, **more: Any) -> Any:
        shapes.append((len(queries), len(documents)))
        return matmul(queries, documents, *rest, **more)

    monkeypatch.setattr(faiss, "knn", spy)
    monkeypatch.setattr(knn, "_QUERIES", 256)
    monkeypatch.setattr(knn, "_DOCUMENTS", 512)
    mapped = np.memmap(tmp_path / "v", np.float32, "w+", shape=(700, 8))
    mapped[:] = np.random.default_rng(0).normal(size=mapped.shape)
    neighbours(mapped, 3, [str(i) for i in range(700)])
    assert shapes == [(q, d) for q in (256, 256, 188) for d in (512, 188)]


def test_what_float32_cannot_tell_apart_is_ordered_by_float64() -> None:
    """Forty vectors whose cosines differ by about 1e-9: one float32 or two for all of them."""
    angles = 1e-4 + 1e-5 * np.random.default_rng(0).permutation(40)
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    ids = [f"d{i:02d}" for i in range(40)]
    norms = np.linalg.norm(vectors, axis=1)
    queries, exact = (vectors / norms[:, None]).astype(np.float64), vectors.astype(np.float64)
    for own, query, hits in zip(ids, queries, neighbours(vectors, 39, ids), strict=True):
        scored = sorted((-s, i) for s, i in zip(exact @ query / norms, ids, strict=True) if i != own)
        assert [i for i, _ in hits] == [i for _, i in scored]
        assert [s for _, s in hits] == pytest.approx([-s for s, _ in scored], rel=1e-15)
        assert len({np.float32(s) for s, _ in scored}) <= 2


def test_ties_at_the_border_go_by_id_among_more_documents_than_are_fetched() -> None:
    vectors = np.eye(60, dtype=np.float32)
    ids = [f"d{i:02d}" for i in np.random.default_rng(0).permutation(60)]
    for i, hits in zip(ids, neighbours(vectors, 5, ids), strict=True):
        assert hits == [(other, 0.0) for other in sorted(set(ids) - {i})[:5]]


def bad() -> Iterator[tuple[Any, str]]:
    nan = TWO.copy()
    nan[1, 0] = np.nan
    yield (lambda: neighbours(nan, 1, ["a", "b"])), r"1 vectors hold NaN or infinity: \['b'\]"
    yield (lambda: neighbours(TWO * [[0], [1]], 1, ["a", "b"])), r"1 vectors are zero: \['a'\]"
    yield (lambda: neighbours(TWO, 1, ["a"])), r"vectors of shape \(2, 2\) and 1 ids"
    yield (lambda: neighbours(TWO, 1, ["a", "a"])), r"ids must be distinct; doubled: \['a'\]"
    yield (lambda: neighbours(TWO, 0, ["a", "b"])), "got k = 0, wanted at least 1"


@pytest.mark.parametrize(("call", "words"), list(bad()))
def test_bad_input_is_named(call: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()


def test_the_approximate_search_finds_nearly_all_in_clusters() -> None:
    vectors = clustered(4_000, 24, spread=1.0, seed=0)
    ids = [f"{i:05d}" for i in range(len(vectors))]
    sources = [i // 2 if i < 1_000 else None for i in range(len(vectors))]
    found = approximate_neighbours(vectors * 3, 10, ids, sources=sources)
    asked = range(0, len(vectors), 16)
    exact = [hits for i, hits in enumerate(neighbours(vectors, 10, ids, sources=sources)) if i in asked]
    shared = [
        len({d for d, _ in a} & {d for d, _ in b}) for a, b in zip([found[i] for i in asked], exact, strict=True)
    ]
    assert sum(shared) / (10 * len(asked)) >= 0.95
    for i, hits in enumerate(found):
        near = [d for d, _ in hits]
        assert len(near) == 10 and ids[i] not in near and (i >= 1_000 or ids[i ^ 1] not in near)
        assert [s for _, s in hits] == sorted((s for _, s in hits), reverse=True)
    assert approximate_neighbours(vectors * 3, 10, ids, sources=sources) == found


def test_the_approximate_search_refuses_what_the_exact_one_does_and_takes_few() -> None:
    assert approximate_neighbours(TWO, 1, ["a", "b"]) == [[("b", 0.0)], [("a", 0.0)]]
    with pytest.raises(ValueError, match=r"1 vectors are zero: \['b'\]"):
        approximate_neighbours(np.array([[1, 0], [0, 0]], np.float32), 1, ["a", "b"])
    with pytest.raises(ValueError, match=r"1 vectors hold NaN or infinity: \['a'\]"):
        approximate_neighbours(np.array([[np.nan, 0], [0, 1]], np.float32), 1, ["a", "b"])
