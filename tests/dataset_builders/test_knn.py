from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.synthetic import clustered
from dataset_builders import knn
from dataset_builders.knn import approximate_neighbours, neighbours, search

TWO = np.array([[1, 0], [0, 1]], np.float32)
ONE = np.array([[1, 0]], np.float32)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knn, "_QUERIES", 2)
    monkeypatch.setattr(knn, "_DOCUMENTS", 3)


def test_a_short_index_gives_what_there_is_case_21() -> None:
    assert search(ONE, TWO, 4, ["0", "1"]) == [[("0", 1.0), ("1", 0.0)]]
    assert search(ONE, np.zeros((0, 2), np.float32), 4, []) == [[]]
    assert search(ONE, TWO, 2, ["0", "1"], admitted=["1"]) == [[("1", 0.0)]]
    assert search(ONE, TWO, 2, ["0", "1"], admitted=[]) == [[]]
    with pytest.raises(ValueError, match=r"got queries of shape \(1, 3\) and documents of shape \(2, 2\), wanted"):
        search(np.array([[1, 0, 0]], np.float32), TWO, 2, ["0", "1"])


def reference(
    queries: np.ndarray[Any, Any], documents: np.ndarray[Any, Any], k: int, ids: list[str], out: list[set[str]]
) -> list[list[str]]:
    found = []
    for q, dropped in zip(queries, out, strict=True):
        scored = sorted((-float(q @ d), i) for d, i in zip(documents, ids, strict=True) if i not in dropped)
        found.append([i for _, i in scored[:k]])
    return found


# Small whole numbers: exact products, and ties everywhere.
matrices = st.integers(1, 12).flatmap(lambda n: st.lists(st.tuples(*[st.integers(-2, 2)] * 3), min_size=n, max_size=n))


@given(matrices, matrices, st.integers(1, 6), st.randoms(use_true_random=False))
def test_search_is_a_sort_by_score_then_id(rows: Any, asked: Any, k: int, random: Any) -> None:
    documents, queries = np.array(rows, np.float32), np.array(asked, np.float32)
    ids = [f"d{i}" for i in range(len(rows))]
    random.shuffle(ids)
    admitted = ids[: len(ids) // 2 + 1]
    with small():
        everything = search(queries, documents, k, ids)
        some = search(queries, documents, k, ids, admitted=admitted)
    nothing: list[set[str]] = [set()] * len(queries)
    assert [[i for i, _ in hits] for hits in everything] == reference(queries, documents, k, ids, nothing)
    others = [set(ids) - set(admitted)] * len(queries)
    assert [[i for i, _ in hits] for hits in some] == reference(queries, documents, k, ids, others)


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
    """Forty vectors whose cosines differ by about 1e-9: one float32 for all of them."""
    angles = 1e-4 + 1e-5 * np.random.default_rng(0).permutation(40)
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    ids = [f"d{i:02d}" for i in range(40)]
    exact = vectors.astype(np.float64)
    for query, hits in zip(exact, search(vectors, vectors, 40, ids), strict=True):
        scored = sorted(zip(-(exact @ query), ids, strict=True))
        assert [i for i, _ in hits] == [i for _, i in scored]
        assert [s for _, s in hits] == [-s for s, _ in scored]


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
    yield (lambda: search(nan, TWO, 1, ["a", "b"])), r"queries \[1\] hold NaN or infinity"
    yield (lambda: search(TWO, TWO, 1, ["a", "b"], admitted=["c"])), r"1 admitted ids are of no document.*'c'"


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
