"""One index for two cosines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub_models.retrieval.anchor import joined


def unit(seed, n, d=8):
    vectors = np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@given(seed=st.integers(0, 1000), weight=st.floats(0, 1))
def test_the_inner_product_is_the_weighted_mean_of_the_two_cosines(seed, weight):
    q, c, d, b = unit(seed, 3), unit(seed + 1, 3), unit(seed + 2, 20), unit(seed + 3, 20)
    queries, documents = joined(q, c, weight), joined(d, b, weight)
    np.testing.assert_allclose(queries @ documents.T, (q @ d.T + weight * (c @ b.T)) / (1 + weight), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(documents, axis=1), 1, atol=1e-5)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"adapted vectors of shape \(2, 8\) and base vectors of shape \(3, 8\)"):
        joined(unit(0, 2), unit(1, 3), 0.5)
    with pytest.raises(ValueError, match=r"got the weight 1.5, wanted a number from 0 to 1"):
        joined(unit(0, 2), unit(1, 2), 1.5)
