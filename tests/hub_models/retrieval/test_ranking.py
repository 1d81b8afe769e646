"""Choosing and fusing candidates of a large corpus, against a full sort and the definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub_models.retrieval import ranking
from hub_models.retrieval.fusion import fuse_candidates
from hub_models.retrieval.ranking import Documents
from tests.candidate_lists import fuse_lists

# Few values: ties everywhere.
scores = st.lists(st.sampled_from([-np.inf, -1.0, 0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=60)


@given(scores, st.integers(1, 12), st.integers(1, 4), st.randoms(use_true_random=False))
def test_the_best_are_those_of_a_full_sort(values, k, stride, random):
    ids = [f"d{i:02d}" for i in range(len(values))]
    random.shuffle(ids)
    documents = Documents({i: f"text {i}" for i in ids})
    expected = sorted((-s, i, place) for place, (s, i) in enumerate(zip(values, ids, strict=True)) if s > -np.inf)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "_STRIDE", stride)
        found = documents.best(np.array(values), k)
    assert found == [place for _, _, place in expected[:k]]


def test_a_sample_of_the_scores_spares_most_of_them():
    values = np.random.default_rng(0).normal(size=100_000)
    found = ranking._promising(values, 100)
    assert 100 <= len(found) < 30_000
    assert set(np.argsort(-values)[:100]) <= set(found)
    # A sample that misleads, since every 64th document scores higher than all others: all are looked at.
    values[::64] += 100
    assert len(ranking._promising(values, 10_000)) == len(values)


lists = st.dictionaries(st.sampled_from("abcdefghij"), st.floats(-1, 1).map(lambda x: round(x, 2)), max_size=10)


@given(lists, lists, st.sampled_from([0.0, 0.1, 1.0]))
def test_candidates_are_fused_as_the_definition_says(dense, bm25, weight):
    def stretched(found):
        low, high = min(found.values(), default=0), max(found.values(), default=0)
        return {i: (s - low) / (high - low) if high > low else 1.0 for i, s in found.items()}

    a, b = stretched(dense), stretched(bm25) if weight else {}
    expected = {i: a.get(i, 0.0) + weight * b.get(i, 0.0) for i in a.keys() | b.keys()}
    assert fuse_lists(dense, bm25, weight) == expected


def test_a_weight_of_candidates_is_a_number_from_zero_to_one():
    with pytest.raises(ValueError, match="got the weight 2, wanted a number from 0 to 1"):
        fuse_candidates(np.zeros(1), np.zeros(1), [0], [0], 2)
