"""Candidate lists as dictionaries, fused by the arrays that a search fuses."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hub_models.retrieval.fusion import fuse_candidates


def fuse_lists(dense: Mapping[str, float], bm25: Mapping[str, float], weight: float) -> dict[str, float]:
    """Document id to fused score, best first, ties by id. Scores of what is no candidate are NaN: none may be read."""
    ids = sorted(dense.keys() | bm25.keys())
    arrays = [np.array([found.get(i, np.nan) for i in ids], np.float64) for found in (dense, bm25)]
    scores = fuse_candidates(*arrays, *([ids.index(i) for i in found] for found in (dense, bm25)), weight)
    found = {i: float(s) for i, s in zip(ids, scores, strict=True) if s > -np.inf}
    return {i: found[i] for i in sorted(found, key=lambda i: (-found[i], i))}
