"""Retrieval metrics over one ranking: score descending, then id ascending.

Two forms. The plain one takes qrels and a run as dictionaries, suits any task, and is what the tests hold the other
against. The stance one is vectorised and says of every ranked document *why* it is wrong (stance paper, 3.1 and 3.3).
Both are macro-averages over queries; a query without a relevant document is left out and counted, a query without a
result counts as 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataset_builders.instructions import Stance

Qrels = Mapping[str, Mapping[str, int]]
Run = Mapping[str, Mapping[str, float]]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
UInt8 = NDArray[np.uint8]
Int = NDArray[np.int64]

NDCG_DEPTH = 10
CAP = 10
"""The published tables cut precision at min(R, 10)."""

POSITIVE, HARD, SEMI_HARD, EASY = range(4)
COMPOSITION = ("precision", "hard", "semi_hard", "easy")
"""What the top R documents are made of; index = kind. The four shares have one denominator and sum to 1."""

STANCE_BIT: dict[Stance, int] = {"support": 1, "attack": 2}
"""A document's stances towards a claim as a bit mask: 0 unrelated, 3 labelled both ways."""

STANCE_METRICS = ("ndcg_at_10", *(f"{n}_at_r" for n in COMPOSITION), *(f"{n}_at_r_cap10" for n in COMPOSITION))


# -- any retrieval task --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueryScores:
    """One metric's value for each query that has a relevant document.

    Attributes:
        values: Query id to value in [0, 1].
        left_out: How many queries have no relevant document and are not in ``values``.
    """

    values: dict[str, float]
    left_out: int

    @property
    def n(self) -> int:
        """How many queries the mean is over."""
        return len(self.values)

    @property
    def mean(self) -> float | None:
        """The mean over queries, or None without any."""
        return math.fsum(self.values.values()) / self.n if self.n else None


def rank(scores: Mapping[str, float]) -> list[str]:
    """Document ids by score descending, then id ascending (ids are strings: "d10" comes before "d2").

    Raises:
        ValueError: If a score is not finite or an id is no string.
    """
    for doc, score in scores.items():
        _check_id(doc)
        if not math.isfinite(score):
            raise ValueError(f"document {doc!r}: got the score {score}, wanted a finite number")
    return sorted(scores, key=lambda doc: (-scores[doc], doc))


def ndcg(qrels: Qrels, run: Run, k: int = NDCG_DEPTH) -> QueryScores:
    """NDCG at ``k``: linear gain, discount log2(rank + 1), ideal over all relevant documents.

    Raises:
        ValueError: If a grade is negative, a score is not finite, or an id is no string.
    """
    values, left_out = {}, 0
    for query, grades, ranking in _queries(qrels, run):
        ideal = _dcg(sorted(grades.values(), reverse=True)[:k])
        if not ideal:
            left_out += 1
            continue
        values[query] = _dcg([grades.get(doc, 0) for doc in ranking[:k]]) / ideal
    return QueryScores(values, left_out)


def precision_at_r(qrels: Qrels, run: Run, cap: int | None = None) -> QueryScores:
    """The share of relevant documents among the first R, R being how many are relevant; with ``cap``, min(R, cap).

    Raises:
        ValueError: If a ranking is shorter than its cut-off (an absent or empty one counts as 0), a grade is
            negative, a score is not finite, or an id is no string.
    """
    values, left_out = {}, 0
    for query, grades, ranking in _queries(qrels, run):
        relevant = {doc for doc, grade in grades.items() if grade > 0}
        if not relevant:
            left_out += 1
            continue
        cut = min(len(relevant), cap or len(relevant))
        if 0 < len(ranking) < cut:
            raise ValueError(
                f"query {query!r}: precision at R needs {cut} ranked documents (R = {len(relevant)}), got depth "
                f"{len(ranking)}; retrieve deeper or report the capped metric"
            )
        values[query] = sum(doc in relevant for doc in ranking[:cut]) / cut
    return QueryScores(values, left_out)


def _queries(qrels: Qrels, run: Run) -> list[tuple[str, Mapping[str, int], list[str]]]:
    """Each judged query with its grades and ranking, checked. Queries that only the run has are not judged."""
    rows = []
    for query, grades in qrels.items():
        _check_id(query)
        for doc, grade in grades.items():
            _check_id(doc)
            if grade < 0:
                raise ValueError(
                    f"query {query!r}, document {doc!r}: got the grade {grade}, wanted 0 or more; "
                    "the opposite stance is a label of its own, not a negative grade"
                )
        rows.append((query, grades, rank(run.get(query, {}))))
    return rows


def _dcg(gains: list[int]) -> float:
    return math.fsum(gain / math.log2(place + 1) for place, gain in enumerate(gains, start=1))


def _check_id(value: Any) -> None:
    if not isinstance(value, str):
        raise ValueError(f"got the id {value!r} of type {type(value).__name__}, wanted a string")


# -- stance retrieval ----------------------------------------------------------------------------------------------


def rank_columns(scores: Float32, depth: int) -> Int:
    """The ``depth`` best columns of each row: score descending, then column ascending.

    With the columns in id order this is `rank`, vectorised and exact: score and column are packed into one integer, so
    no two keys are equal and a partition needs no tie rule.

    Args:
        scores: float32[n_queries, n_docs]; ``-inf`` marks a document that may not be returned.
        depth: How many, at most n_docs.

    Returns:
        int64[n_queries, depth] column numbers.

    Raises:
        ValueError: If a score is NaN, or ``depth`` is more than there are columns.
    """
    n_docs = scores.shape[1]
    if depth > n_docs:
        raise ValueError(f"got depth {depth}, wanted at most the {n_docs} documents there are")
    if np.isnan(scores).any():
        row, column = np.argwhere(np.isnan(scores))[0]
        raise ValueError(f"query {row}, document {column}: the score is NaN; the encoder returned no usable vector")
    bits = (scores + np.float32(0)).view(np.int32).astype(np.int64)  # + 0 makes -0.0 equal to 0.0
    ascending = np.where(bits < 0, ~bits & 0x7FFFFFFF, bits | 0x80000000)  # IEEE 754 bits in the order of the values
    keys = (ascending << 31) | (n_docs - 1 - np.arange(n_docs))
    best = np.partition(keys, n_docs - depth, axis=1)[:, n_docs - depth :] if depth else keys[:, :0]
    best.sort(axis=1)
    return np.asarray((n_docs - 1) - (best[:, ::-1] & 0x7FFFFFFF))


def document_kinds(labels: UInt8, anywhere: UInt8, wanted: UInt8 | np.uint8) -> UInt8:
    """What each document is to a query: positive, hard, semi-hard or easy.

    Args:
        labels: uint8[..., n_docs], the documents' stances towards the query's claim (`STANCE_BIT`).
        anywhere: uint8[..., n_docs], their stances towards any claim.
        wanted: uint8 or uint8[..., 1], the bit of the stance that the query asks for.

    Returns:
        uint8[..., n_docs]: positive if the document takes the stance on this claim (also where it is labelled both
        ways); else hard if it is about the claim; else semi-hard if it takes the stance on another claim; else easy.
    """
    return np.select(
        [(labels & wanted) > 0, labels > 0, (anywhere & wanted) > 0],
        [np.uint8(POSITIVE), np.uint8(HARD), np.uint8(SEMI_HARD)],
        np.uint8(EASY),
    )


def composition(kinds: UInt8, cut: Int) -> Float64:
    """The share of each kind among the first ``cut`` documents.

    Args:
        kinds: uint8[n_queries, depth], kinds in ranked order.
        cut: int64[n_queries], each from 1 to ``depth``.

    Returns:
        float64[n_queries, 4] in the order of `COMPOSITION`; rows sum to 1.

    Raises:
        ValueError: If a cut is 0 or beyond the ranking.
    """
    depth = kinds.shape[1]
    if cut.size and (cut.min() < 1 or cut.max() > depth):
        raise ValueError(
            f"got cut-offs from {cut.min()} to {cut.max()}, wanted 1 to the depth {depth}; retrieve deeper, and leave "
            "out (and count) queries without a relevant document"
        )
    inside = np.arange(depth) < cut[:, None]
    return np.stack([((kinds == kind) & inside).sum(axis=1) / cut for kind in range(len(COMPOSITION))], axis=1)


def stance_values(kinds: UInt8, n_relevant: Int) -> dict[str, Float64]:
    """Every stance metric for every query.

    Args:
        kinds: uint8[n_queries, depth], kinds in ranked order, at least max(R) of them.
        n_relevant: int64[n_queries], R of each query, at least 1.

    Returns:
        `STANCE_METRICS` to float64[n_queries] in [0, 1]. The plain composition is cut at R, ``_cap10`` at min(R, 10)
        as in the published tables; NDCG has binary gain.

    Raises:
        ValueError: If a query has no relevant document or fewer than R ranked ones.
    """
    at_r = composition(kinds, n_relevant)
    at_cap = composition(kinds, np.minimum(n_relevant, CAP))
    top = kinds[:, :NDCG_DEPTH] == POSITIVE
    discount = 1 / np.log2(np.arange(NDCG_DEPTH) + 2)
    ideal = np.concatenate([[0.0], np.cumsum(discount)])[np.minimum(n_relevant, NDCG_DEPTH)]
    columns = [(top * discount[: top.shape[1]]).sum(axis=1) / ideal, *at_r.T, *at_cap.T]
    return dict(zip(STANCE_METRICS, columns, strict=True))
