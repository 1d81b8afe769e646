from __future__ import annotations

import numpy as np
import pytest

from dataset_builders.oblique.stylometry import stylometric

LONG = [
    "We had, of course, been there before; and yet, for all that, we were afraid of the {}.",
    "It was, to be sure, a fine {}; but we would not, for all that, have stayed with it.",
]
SHORT = ["Got the {}. Cold. Went home!", "No {}. Wet. Sat down! Slept."]


def test_style_counts_and_topic_does_not() -> None:
    texts = [form.format(topic) for form in (*LONG, *SHORT) for topic in ("garden", "engine")]
    vectors = stylometric(texts)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    cosine = vectors @ vectors.T
    same = [cosine[i, j] for i in range(8) for j in range(8) if i != j and (i < 4) == (j < 4)]
    other = [cosine[i, j] for i in range(8) for j in range(8) if (i < 4) != (j < 4)]
    assert np.mean(same) > np.mean(other) + 0.3
    np.testing.assert_array_equal(stylometric(texts), vectors)


def test_content_words_show_their_last_two_letters_alone() -> None:
    texts = ["The garden is wet.", "The golden is wet.", "A dog, we think!"]
    assert texts[0] != texts[1]
    vectors = stylometric(texts)
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)


def test_odd_texts_have_a_direction() -> None:
    vectors = stylometric(["", "...", "🙂", "The usual text, of two halves.", "\u2028", "A" * 5000])
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_style_needs_texts_that_differ() -> None:
    with pytest.raises(ValueError, match="got 1 texts, wanted at least 2"):
        stylometric(["Alone."])
    with pytest.raises(ValueError, match="the 3 texts differ in no feature of style"):
        stylometric(["The same."] * 3)
