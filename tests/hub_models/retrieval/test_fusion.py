from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import ranx
from hypothesis import given
from hypothesis import strategies as st

from hub_models.retrieval.fusion import fuse
from tests.candidate_lists import fuse_lists

CASES = json.loads((Path(__file__).parents[2] / "cases" / "case22_fusion.json").read_text())["cases"]
LISTS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(-(2**24), 2**24).map(lambda i: i / 2**24), max_size=8)


@pytest.mark.parametrize("case", [c for c in CASES if not c.get("error")], ids=lambda c: c["name"])
def test_listed_fusions(case):
    fused = fuse_lists(case["dense"], case["bm25"], case["lambda"])
    assert fused == pytest.approx(case["expected"])
    assert list(fused) == case["order"]


def test_a_nan_names_list_and_document():
    with pytest.raises(ValueError, match="list 'dense', document 0: got nan"):
        fuse([math.nan, 0.8], [12.0, 0.0], 1.0)
    with pytest.raises(ValueError, match="list 'bm25', document 1: got nan"):
        fuse([0.0, 1.0], [0.0, math.nan], 0.1)


@pytest.mark.parametrize("weight", [-0.1, 1.01, math.nan, math.inf, True])
@pytest.mark.parametrize("function", [fuse, fuse_lists])
def test_the_weight_is_a_number_from_zero_to_one(function, weight):
    with pytest.raises(ValueError, match="wanted a number from 0 to 1"):
        function({}, {}, weight)


# Weaviate's own vectors (usecases/traverser/hybrid/fusion_test.go): lists by document, weights w and v, fused scores
# by rank, order. Its tie rule puts a higher secondary score first, ours the id, so rows with ties compare scores only.
WEAVIATE = [
    (0.5, 0.5, [1, 2, 3], [0, 1, 2], [1, 0.5, 0], [2, 1, 0]),
    (0.5, 0.5, [0, 2, 0.1], [0, 0.2, 2], [0.55, 0.525, 0], [1, 2, 0]),
    (0.75, 0.25, [0.5, 0.5, 0], [0, 0.01, 0.001], [1, 0.75, 0.025], [1, 0, 2]),
    (0.75, 0.25, [], [], [], []),
    (0.75, 0.25, [1], [], [0.75], [0]),
    (0.75, 0.25, [], [1], [0.25], [0]),
    (0.75, 0.25, [1, 2], [], [0.75, 0], [1, 0]),
    (0.75, 0.25, [], [1, 2], [0.25, 0], [1, 0]),
    (0.75, 0.25, [1, 1], [1, 2], [1, 0.75], [1, 0]),
    (0.75, 0.25, [1, 2, 3, 4], [1, 2, 3], [0.75, 0.75, 0.375, 0], None),
]


@pytest.mark.parametrize(("w", "v", "dense", "bm25", "scores", "order"), WEAVIATE)
def test_weaviates_vectors(w, v, dense, bm25, scores, order):
    fused = fuse_lists({str(d): s for d, s in enumerate(dense)}, {str(d): s for d, s in enumerate(bm25)}, v / w)
    assert [w * score for score in fused.values()] == pytest.approx(scores, abs=1e-4)
    if order is not None:
        assert [int(d) for d in fused] == order


@pytest.mark.slow  # ranx compiles for half a minute
def test_agrees_with_ranx_where_no_list_is_constant():
    rng = np.random.default_rng(0)
    dense = {f"d{i}": float(s) for i, s in enumerate(rng.random(12))}
    bm25 = {f"d{i}": float(s) for i, s in enumerate(rng.random(8) * 20, start=7)}
    runs = [ranx.Run({"q": dense}, name="dense"), ranx.Run({"q": bm25}, name="bm25")]
    theirs = ranx.fuse(runs=runs, norm="min-max", method="wsum", params={"weights": (1.0, 0.15)}).to_dict()["q"]
    assert fuse_lists(dense, bm25, 0.15) == pytest.approx(theirs)


@given(dense=LISTS, bm25=LISTS)
def test_weight_zero_keeps_the_dense_order_exactly(dense, bm25):
    assert list(fuse_lists(dense, bm25, 0)) == sorted(dense, key=lambda d: (-dense[d], d))


@given(scores=st.lists(st.integers(-(2**24), 2**24).map(lambda i: i / 2**24), min_size=1, max_size=20))
def test_weight_zero_keeps_the_dense_order_over_the_whole_corpus(scores):
    dense = np.array(scores, np.float32)
    fused = fuse(dense, np.arange(len(scores)), 0)
    assert np.argsort(-fused, kind="stable").tolist() == np.argsort(-dense.astype(float), kind="stable").tolist()


@given(dense=LISTS, bm25=LISTS, weight=st.floats(0, 1))
def test_insertion_order_changes_nothing_and_scores_stay_in_range(dense, bm25, weight):
    fused = fuse_lists(dense, bm25, weight)
    again = fuse_lists(dict(reversed(dense.items())), dict(reversed(bm25.items())), weight)
    assert list(fused.items()) == list(again.items())
    assert all(0 <= score <= 1 + weight + 1e-9 for score in fused.values())


def test_whole_corpus_by_hand():
    fused = fuse([0.2, 0.6, 1.0], [4.0, 0.0, 2.0], 0.1)
    assert fused == pytest.approx([0.1, 0.5, 1.05], abs=1e-6)
    assert fuse([[0.2, 0.6, 1.0]], [[4.0, 0.0, 2.0]], 0.1)[0] == pytest.approx(fused)


def test_over_the_whole_corpus_a_constant_list_counts_nothing():
    assert fuse([0.3, 0.1], [0.0, 0.0], 0.5) == pytest.approx(fuse([0.3, 0.1], [5.0, 5.0], 0.5))
    assert fuse([0.3], [5.0], 0.5).tolist() == [0.0]
    assert fuse([], [], 0.5).tolist() == []


def test_lists_of_other_documents_are_refused():
    with pytest.raises(ValueError, match=r"shape \(2,\) and bm25 scores of shape \(3,\)"):
        fuse([1, 2], [1, 2, 3], 0.1)
