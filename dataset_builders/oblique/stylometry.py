"""The built-in specialist of style: what a text is like whatever it is about.

No model and no download: function words, character n-grams, punctuation and rhythm, the features that authorship
attribution has long used. It is the baseline that a trained authorship encoder has to beat.
"""

from __future__ import annotations

import itertools
import re
import zlib
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from dataset_builders.choices import STYLOMETRIC as STYLOMETRIC
from dataset_builders.text import FUNCTION_WORDS, is_function_word, sentences, words

Float64 = NDArray[np.float64]

_WORDS = sorted(FUNCTION_WORDS)
_MARKS = [".", ",", ";", ":", "!", "?", "-", "–", "—", "…", "(", ")", '"', "“", "'", "’", "/", "&", "%", "\n"]
_BUCKETS = 512
_TOKEN = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
_CLIP = 3.0  # standard deviations; one odd feature shall not decide
_CONSTANT = 1e-7  # the spread of rounding
_DIRECTION = 1e-3  # of a text that is average in everything: near to no other


def stylometric(texts: Sequence[str]) -> NDArray[np.float32]:
    """float32[n, d], one row of unit length for each text; cosine compares.

    Each feature is a rate within its text, standardised over the texts given, as in Burrows's Delta with cosine; the
    four families then weigh the same. So vectors of different calls do not compare. Character n-grams are taken of a
    text whose content words are reduced to their last two letters: they show inflection and joints, not the topic.

    Args:
        texts: At least two, not all alike.

    Raises:
        ValueError: If there are fewer than two texts, or they differ in no feature.
    """
    if len(texts) < 2:
        raise ValueError(f"got {len(texts)} texts, wanted at least 2: style is measured against the other texts")
    features = (_words, _ngrams, _marks, _rhythm)
    bounds = np.cumsum([0, *(len(feature("")) for feature in features)])
    vectors = np.empty((len(texts), bounds[-1] + 1), np.float32)
    for row, text in enumerate(tqdm(texts, desc="style", unit=" texts", delay=2)):
        vectors[row, :-1] = np.concatenate([feature(text) for feature in features])
    for start, stop in itertools.pairwise(bounds):
        _standardise(vectors[:, start:stop])
    if not vectors[:, :-1].any():
        raise ValueError(f"the {len(texts)} texts differ in no feature of style")
    vectors[:, -1] = _DIRECTION
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def _standardise(rates: NDArray[np.float32]) -> None:
    """In place: zero mean, unit variance, clipped, over the root of the number of features; a constant one is 0."""
    rates -= rates.mean(axis=0)
    spread = rates.std(axis=0)
    rates[:, spread <= _CONSTANT] = 0
    rates /= np.where(spread > _CONSTANT, spread, 1)
    np.clip(rates, -_CLIP, _CLIP, out=rates)
    rates /= np.sqrt(rates.shape[1])


def _words(text: str) -> Float64:
    found = words(text)
    count = Counter(found)
    return np.array([count[word] for word in _WORDS]) / max(1, len(found))


def _ngrams(text: str) -> Float64:
    tokens = []
    for token in _TOKEN.findall(text.lower()):
        content = token[0].isalnum() and not is_function_word(token.replace("’", "'"))
        tokens.append(f"*{token[-2:]}" if content else token)
    shape = f" {' '.join(tokens)} "
    counts = np.zeros(_BUCKETS)
    for i in range(len(shape) - 2):
        counts[zlib.crc32(shape[i : i + 3].encode("utf-8", "surrogatepass")) % _BUCKETS] += 1
    return counts / max(1, len(shape) - 2)


def _marks(text: str) -> Float64:
    stripped = text.strip()
    return np.array([stripped.count(mark) for mark in _MARKS]) / max(1, len(stripped))


def _rhythm(text: str) -> Float64:
    """Sentences: mean length, its spread, its change from one to the next. Words: mean length, its spread, share of
    long ones, variety."""
    lengths = np.array([len(words(s)) for s in sentences(text)] or [0], dtype=np.float64)
    found = words(text)
    letters = np.array([len(w) for w in found] or [0], dtype=np.float64)
    change = float(np.abs(np.diff(lengths)).mean()) if len(lengths) > 1 else 0.0
    return np.array(
        [
            *np.log1p([lengths.mean(), lengths.std(), change]),
            letters.mean(),
            letters.std(),
            (letters > 7).mean(),
            len(set(found)) / max(1, len(found)) ** 0.5,
        ]
    )
