"""The weight λ of BM25, chosen for each query from what can be seen without labels.

A linear model says, for each λ of a grid, by how much it should beat a default on a query like this; the highest wins.
It is fitted on validation claims by ``python -m hub_models tune`` and lives in ``slant.json``. Its features describe
the claim's words and the two score lists; which documents are right is not among them.
"""

from __future__ import annotations

import hashlib
import json
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from hub_models.retrieval.fusion import check_weight

Float64 = NDArray[np.float64]

FEATURES = ("rare", "known", "matched", "dense_spread", "bm25_spread", "correlation", "overlap")
_BEST = 10


def features(dense: NDArray[np.floating], bm25: NDArray[np.floating], frequencies: NDArray[np.int64]) -> Float64:
    """What can be seen of one query over a whole corpus.

    Args:
        dense: float[n_docs] dense scores.
        bm25: float[n_docs] BM25 scores of the claim, 0 where no word matches.
        frequencies: int64[n_words], in how many documents each distinct word of the claim stands.

    Returns:
        float64[7], `FEATURES`: ``rare``, the weight of the claim's rarest known word, from 0 (in every document, or
        none known) to 1 (in no other); ``known``, the share of its words that are in the corpus; ``matched``, the
        share of documents with any of them; ``dense_spread`` and ``bm25_spread``, by how many standard deviations the
        best ten stand above the mean; ``correlation`` of the two lists; ``overlap``, the share of the best ten that
        they have in common.
    """
    n = len(dense)
    known = frequencies[frequencies > 0]
    rare = float(np.log((n + 1) / (known.min() + 1)) / np.log(n + 1)) if len(known) else 0.0
    a, b = np.asarray(dense, np.float64), np.asarray(bm25, np.float64)
    spread = [float((np.sort(x)[-_BEST:].mean() - x.mean()) / x.std()) if x.std() else 0.0 for x in (a, b)]
    correlation = float(np.corrcoef(a, b)[0, 1]) if a.std() and b.std() else 0.0
    best = [set(np.argsort(-x, kind="stable")[:_BEST].tolist()) for x in (a, np.where(b > 0, b, -np.inf))]
    found = {i for i in best[1] if b[i] > 0}
    return np.array(
        [
            rare,
            len(known) / len(frequencies) if len(frequencies) else 0.0,
            float((b > 0).mean()),
            *spread,
            correlation,
            len(best[0] & found) / _BEST,
        ]
    )


class LambdaModel(BaseModel):
    """A fitted choice of λ.

    Attributes:
        schema_version: 1.
        grid: The λ to choose from, in [0, 1], ascending.
        fixed: The one of them that is best on the validation claims for all queries alike, by however little: what a
            choice by query is held against.
        default: What is taken where nothing is expected to beat it: ``fixed`` if that beat the dense scores alone
            clearly, else 0.
        features: Their names, `FEATURES`.
        mean: Of each feature over the validation queries.
        std: Likewise; 1 where a feature does not vary.
        coefficients: A row for each λ: intercept, then one number for each standardised feature; all 0 where no
            choice by query held up under cross-validation, which leaves ``default``.
        ridge: Strength of the penalty on the coefficients; None where they are all 0.
        fitted_on: Task, its data's hash, number of claims and queries, and what cross-validation found.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    schema_version: Literal[1] = 1
    grid: tuple[float, ...] = Field(min_length=1)
    fixed: float
    default: float
    features: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    coefficients: tuple[tuple[float, ...], ...]
    ridge: float | None
    fitted_on: dict[str, str | int | float | None]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for weight in self.grid:
            check_weight(weight)
        if not {self.fixed, self.default} <= set(self.grid):
            raise ValueError(f"fixed {self.fixed} or default {self.default} is not in the grid {list(self.grid)}")
        if self.features != FEATURES:
            raise ValueError(f"got the features {list(self.features)}, wanted {list(FEATURES)}; run tune again")
        sizes = (len(self.mean), len(self.std), {len(row) for row in self.coefficients}, len(self.coefficients))
        if sizes != (len(FEATURES), len(FEATURES), {1 + len(FEATURES)}, len(self.grid)):
            raise ValueError(f"means, stds and coefficients do not fit {len(FEATURES)} features and the grid")
        return self

    @property
    def digest(self) -> str:
        """Twelve digits of its SHA-256: one fitted anew has others."""
        content = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    def choose(self, seen: Float64) -> Float64:
        """λ for each query.

        Args:
            seen: float64[n_queries, 7], rows of `features`.

        Returns:
            float64[n_queries], from the grid.
        """
        rows = np.array(self.coefficients)
        gains = rows[:, 0] + ((seen - np.array(self.mean)) / np.array(self.std)) @ rows[:, 1:].T
        default = self.grid.index(self.default)
        gains[:, default] = 0.0  # what the others are measured against
        best = np.where(gains.max(axis=1) > 0, gains.argmax(axis=1), default)
        return np.array(self.grid)[best]
