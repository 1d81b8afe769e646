"""The weight by query: its features by hand, and a choice that is made of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hub_models.retrieval.adaptive import FEATURES, LambdaModel, features


def fitted(**changes):
    """Chooses .3 where the rarest word is rarer than on average, and .1, the default, elsewhere."""
    zeros = [0.0] * len(FEATURES)
    made = {
        "grid": [0.0, 0.1, 0.3],
        "fixed": 0.1,
        "default": 0.1,
        "features": FEATURES,
        "mean": [0.5, *zeros[1:]],
        "std": [1.0] * len(FEATURES),
        "coefficients": [[-1.0, *zeros], [0.0, *zeros], [0.0, 1.0, *zeros[1:]]],
        "ridge": 100.0,
        "fitted_on": {"task": "made"},
    }
    return LambdaModel.model_validate(made | changes)


def test_features_by_hand():
    n = 40
    dense, bm25 = np.linspace(1, 0, n), np.zeros(n)
    bm25[:4] = [4, 3, 2, 1]
    found = dict(zip(FEATURES, features(dense, bm25, np.array([4, 20, 0])), strict=True))
    assert found["rare"] == pytest.approx(math.log(41 / 5) / math.log(41))
    assert found["known"] == pytest.approx(2 / 3)
    assert found["matched"] == 0.1
    assert found["dense_spread"] == pytest.approx((dense[:10].mean() - 0.5) / dense.std())
    assert found["bm25_spread"] == pytest.approx((1 - 0.25) / bm25.std())
    assert found["correlation"] == pytest.approx(np.corrcoef(dense, bm25)[0, 1])
    assert found["overlap"] == 0.4


@pytest.mark.parametrize("frequencies", [[], [0, 0]])
def test_a_claim_without_a_known_word_has_features_too(frequencies):
    found = features(np.linspace(1, 0, 12), np.zeros(12), np.array(frequencies, np.int64))
    assert np.isfinite(found).all() and found[FEATURES.index("known")] == 0 and found[FEATURES.index("overlap")] == 0


def test_one_document_has_features_too():
    assert np.isfinite(features(np.ones(1), np.ones(1), np.array([1]))).all()


def test_the_highest_expected_gain_wins_and_the_default_where_there_is_none():
    seen = np.zeros((3, len(FEATURES)))
    seen[:, 0] = [0.9, 0.5, 0.1]
    assert fitted().choose(seen).tolist() == [0.3, 0.1, 0.1]
    nothing = fitted(coefficients=[[0.0] * (1 + len(FEATURES))] * 3, ridge=None)
    assert nothing.choose(seen).tolist() == [0.1, 0.1, 0.1]
    assert nothing.model_copy(update={"default": 0.0}).choose(seen).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"grid": [0.0, 0.1, 1.3]}, "got the weight 1.3, wanted a number from 0 to 1"),
        ({"fixed": 0.2}, "fixed 0.2 or default 0.1 is not in the grid"),
        ({"default": 0.2}, "fixed 0.1 or default 0.2 is not in the grid"),
        ({"features": ["rare"]}, "got the features .* run tune again"),
        ({"mean": [0.5]}, "do not fit 7 features"),
        ({"schema_version": 2}, "schema_version"),
        ({"threshold": 1}, "threshold"),
    ],
)
def test_a_model_that_is_none_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        fitted(**changes)
