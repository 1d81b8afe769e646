"""Quantised vectors: against codes worked by hand, against float32, and in a search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataset_builders.sources import load
from hub_models import ObliqueSearch, StanceSearch
from hub_models.corpus import encode_corpus
from hub_models.retrieval import quantised
from hub_models.retrieval.dense import DenseIndex
from hub_models.retrieval.quantised import BinaryIndex, Int8Index
from tests.hub_models.evaluation.helpers import write_run

CLAIM = "Cities should ban cars from their centers."


def unit(n: int, width: int, seed: int = 0) -> Any:
    vectors = np.random.default_rng(seed).standard_normal((n, width), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def names(n: int) -> list[str]:
    return [f"t{i}" for i in range(n)]


def recall(found: Any, exact: Any, k: int) -> float:
    near = (np.argsort(-scores, axis=1, kind="stable")[:, :k] for scores in (found, exact))
    return float(np.mean([len(set(a) & set(b)) / k for a, b in zip(*near, strict=True)]))


# -- int8 ----------------------------------------------------------------------------------------------------------


def test_a_byte_a_number_by_hand() -> None:
    """0.6 / 0.8 of 127 steps is 95.25, so 95: the first number becomes 95 * 0.8 / 127."""
    index = Int8Index(["a", "b"], np.array([[0.6, 0.8], [0, -1]], np.float32))
    assert index._codes.tolist() == [[95, 127], [0, -127]]
    assert index._steps.tolist() == pytest.approx([0.8 / 127, 1 / 127])
    scores = index.scores(np.array([[1, 0], [0, 1]], np.float32))
    assert scores.tolist() == [pytest.approx([95 * 0.8 / 127, 0]), pytest.approx([0.8, -1])]
    assert index.nbytes == 2 * (2 + 4)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 60), st.integers(1, 40), st.integers(0, 2**31))
def test_a_score_is_off_by_half_a_step_a_dimension_at_most(n: int, width: int, seed: int) -> None:
    vectors, queries = unit(n, width, seed), unit(3, width, seed + 1)
    steps = np.abs(vectors).max(axis=1) / 127
    off = np.abs(Int8Index(names(n), vectors).scores(queries) - queries @ vectors.T)
    assert (off <= np.abs(queries).sum(axis=1)[:, None] * steps / 2 + 1e-6).all()


def test_a_code_hangs_on_its_own_text_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, query = unit(50, 16), unit(1, 16, seed=1)
    alone = [Int8Index(["t"], vectors[[i]]).scores(query)[0, 0] for i in range(50)]
    monkeypatch.setattr(quantised, "_BLOCK", 7)
    np.testing.assert_allclose(Int8Index(names(50), vectors).scores(query)[0], alone, atol=1e-7)


@pytest.mark.parametrize("kind", [Int8Index, BinaryIndex])
def test_equal_texts_have_equal_scores_and_are_held_once(kind: Any) -> None:
    vectors = unit(37, 24)
    texts = [f"t{i % 37}" for i in range(500)]
    index = kind(texts, vectors[[int(t[1:]) for t in texts]])
    scores = index.scores(unit(4, 24, seed=1), [36, 499])
    assert scores.shape == (4, 500)
    for i in range(37):
        assert (scores[:, i::37] == scores[:, [i]]).all()
    assert index.nbytes == 37 * (24 + 4 if kind is Int8Index else 3)


@pytest.mark.parametrize("kind", [Int8Index, BinaryIndex])
def test_bad_vectors(kind: Any) -> None:
    with pytest.raises(ValueError, match="got 1 texts and 2 vectors"):
        kind(["a"], np.eye(2, dtype=np.float32))
    with pytest.raises(ValueError, match=r"got queries of dimension \(3,\), wanted \(2,\)"):
        kind(["a", "b"], np.eye(2, dtype=np.float32)).scores(np.zeros((1, 3), np.float32))


# -- binary --------------------------------------------------------------------------------------------------------


def test_a_bit_a_number_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bits of the query 110: a 110 (distance 0), b 100 (1), c 111 (1), d 001 (3). Two candidates are a and one of b
    and c; the best by cosine is then c, whose vector is read."""
    monkeypatch.setattr(quantised, "CANDIDATES", 3)
    vectors = np.array([[0.6, 0.8, 0], [1, 0, 0], [0.48, 0.64, 0.6], [0, -0.6, 0.8]], np.float32)
    index = BinaryIndex(["a", "b", "c", "d"], vectors)
    assert index.nbytes == 4 and index.depth == 3
    query = np.array([[0.6, 0.8, 0]], np.float32)
    assert index.scores(query)[0].tolist() == pytest.approx([1, 0.6, 0.8, -np.inf])
    assert index.scores(query, [3])[0].tolist() == pytest.approx([1, 0.6, 0.8, -0.48]), "what is asked for is scored"


def test_what_is_found_has_the_score_of_float32() -> None:
    vectors, queries = unit(3000, 64), unit(5, 64, seed=1)
    scores, exact = BinaryIndex(names(3000), vectors).scores(queries, [5, 7]), queries @ vectors.T
    found = np.isfinite(scores)
    assert set(found.sum(axis=1)) <= {1000, 1001, 1002} and found[:, [5, 7]].all()
    np.testing.assert_allclose(scores[found], exact[found], atol=1e-6)
    whole = BinaryIndex(names(900), vectors[:900])
    assert whole.depth is None
    np.testing.assert_allclose(whole.scores(queries), exact[:, :900], atol=1e-6)


# -- in a search ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    arguments = sorted(load("sample").arguments, key=lambda a: a.argument_id)
    return {a.argument_id: a.text for a in arguments[:60]}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def test_recall_on_arguments_of_the_sample(minilm: Any, texts: dict[str, str], cache: Path) -> None:
    vectors = encode_corpus([*texts.values(), *(c.claim for c in load("sample").claims[:20])], minilm, cache_dir=cache)
    documents, queries = vectors[: len(texts)], vectors[len(texts) :]
    exact = DenseIndex(list(texts), documents).scores(queries)
    assert recall(Int8Index(list(texts), documents).scores(queries), exact, 10) > 0.95


def test_int8_is_a_whole_search(minilm: Any, texts: dict[str, str], cache: Path) -> None:
    exact, narrow = (StanceSearch(minilm, texts, cache_dir=cache, index=index) for index in ("float32", "int8"))
    assert narrow.depth is None
    expected = {h.id: h for h in exact.search(CLAIM, k=60)}
    for hit in narrow.search(CLAIM, k=10):
        assert hit.dense == pytest.approx(expected[hit.id].dense, abs=0.003)
        assert hit.bm25 == expected[hit.id].bm25


def test_binary_finds_candidates_and_keeps_float32_on_the_disk(
    minilm: Any, texts: dict[str, str], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantised, "CANDIDATES", 20)
    search = ObliqueSearch(minilm, texts, task="twitter", cache_dir=cache, index="binary")
    assert search.depth == 20
    exact = ObliqueSearch(minilm, texts, task="twitter", cache_dir=cache)
    expected = {h.id: h for h in exact.search(CLAIM, k=60, hybrid=0.3)}
    hits = search.search(CLAIM, k=60, hybrid=0.3)
    assert 20 <= len(hits) <= 40 and any(h.bm25 for h in hits)
    for hit in hits:  # those too that BM25 alone found
        assert hit.dense == pytest.approx(expected[hit.id].dense, abs=1e-6)
    assert search.search(CLAIM, k=5)[0].id == exact.search(CLAIM, k=5)[0].id


def test_bad_indexes(minilm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"got the index 'int4', wanted one of .*Did you mean 'int8'\?"):
        StanceSearch(minilm, ["A text."], index="int4")
    with pytest.raises(ValueError, match="got the index 'binary' and no cache_dir"):
        StanceSearch(minilm, ["A text."], index="binary")
    monkeypatch.setattr(quantised, "CANDIDATES", 1)
    run = write_run(tmp_path / "run")
    with pytest.raises(ValueError, match=r"got anchor 0\.5 and the index 'binary', which finds 1 of 2 documents"):
        StanceSearch(run, ["One.", "Two."], index="binary", cache_dir=tmp_path / "cache", anchor=0.5)
    search = StanceSearch(run, ["One.", "Two."], index="binary", cache_dir=tmp_path / "cache")
    assert not search.has_auto
    with pytest.raises(ValueError, match="got hybrid 'auto' and the index 'binary', which finds 1 of 2 documents"):
        search.search(CLAIM, hybrid="auto")
    assert StanceSearch(run, ["One.", "Two."], index="int8", anchor=0.5).levers.anchor == 0.5
