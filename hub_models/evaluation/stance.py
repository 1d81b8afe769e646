"""Stance-aware retrieval, measured: one encoder on one source's claims (stance paper, 3).

Every (claim, stance, instruction) is a query, every argument a document. Results are kept per query; slices, intervals
and diagnostics are read off that table. It knows no model: texts go through a callable, so that a test can hand in
vectors made by hand and two evaluations can share what they encoded.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataset_builders.instructions import INSTRUCTIONS, STANCES, Instruction, Stance, format_query
from dataset_builders.schema import SPLITS, STYLES, Argument, Claim, Split
from dataset_builders.stance.data import StanceData
from dataset_builders.text import text_key
from hub_models.evaluation.metrics import (
    EASY,
    HARD,
    NDCG_DEPTH,
    POSITIVE,
    STANCE_BIT,
    STANCE_METRICS,
    Float32,
    Float64,
    Int,
    UInt8,
    composition,
    document_kinds,
    rank_columns,
    stance_values,
)
from hub_models.evaluation.results import Comparison, Metric, Strategy
from hub_models.evaluation.significance import paired_differences
from hub_models.retrieval.dense import DenseIndex

Encode = Callable[[Sequence[str]], Float32]
"""Texts to float32[n, d], L2-normalised, equal for equal texts."""

Table = dict[str, NDArray[Any]]
"""Per-query values: columns of one length."""

ALL = "all"
"""The candidates of every slice but ``style=``, which searches the arguments of that style alone."""

TOPIC = "topic_precision_at_r"
ORACLE = "stance_oracle_precision_at_r"
COMPARED = STANCE_METRICS[:5]

_TOP = 10  # document ids kept for each query
_BLOCK = 2**22  # scores held at once


# -- what is asked and what is right -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Judgements:
    """The claims of a split, the documents they are searched in, and who takes which stance.

    Attributes:
        source: The data's name.
        revision: SHA-256 of claims, documents and labels.
        split: What was asked for; data without splits is all ``test``.
        claims: The claims asked about.
        documents: By id ascending, which is how ties are broken. For ``test`` the arguments of all test and validation
            claims, for ``validation`` its own.
        labels: uint8[n_claims, n_docs], stances towards the claim as bits.
        anywhere: uint8[n_docs], stances towards any claim of the corpus.
        first: uint8[n_claims, n_docs], ``labels`` with a single bit of each: the stance that the data names first.
    """

    source: str
    revision: str
    split: Split
    claims: list[Claim]
    documents: list[Argument]
    labels: UInt8
    anywhere: UInt8
    first: UInt8

    @cached_property
    def candidates(self) -> dict[str, Int]:
        """Column numbers of each candidate set: all documents, and those of each style that occurs."""
        sets = {ALL: np.arange(len(self.documents))}
        for style in STYLES:
            columns = np.flatnonzero([d.style == style for d in self.documents])
            if len(columns):
                sets[style] = columns
        return sets

    def n_relevant(self, columns: Int) -> dict[Stance, Int]:
        """int64[n_claims] a stance: R among the given columns."""
        return {s: ((self.labels[:, columns] & STANCE_BIT[s]) > 0).sum(axis=1) for s in STANCES}

    def counts(self) -> dict[str, Any]:
        """Sizes of everything. Queries are those of the unseen instructions; a (claim, stance) without a relevant
        document is left out, and counted here. The candidate set of each style has its own."""
        sizes = {name: self._sizes(columns) for name, columns in self.candidates.items()}
        return {"split": self.split, "claims": len(self.claims), **sizes.pop(ALL), "style": sizes}

    def _sizes(self, columns: Int) -> dict[str, Any]:
        unseen = Counter(i.stance for i in INSTRUCTIONS if not i.seen)
        answerable = {stance: int((r > 0).sum()) for stance, r in self.n_relevant(columns).items()}
        return {
            "documents": len(columns),
            "queries": sum(n * unseen[stance] for stance, n in answerable.items()),
            "left_out": {stance: len(self.claims) - n for stance, n in answerable.items()},
        }


def judge(data: StanceData, split: Split) -> Judgements:
    """Lay out a split's claims, documents and labels.

    Raises:
        ValueError: If the split has no claim, some claims have a split and some have none, or no claim has an
            argument.
    """
    sizes = Counter(c.split for c in data.claims)
    if set(sizes) == {None}:
        corpus = data  # without splits every row is test
        if split != "test":
            raise ValueError(f"{data.source}: got split {split!r}, but the data has no splits: every claim is test")
    else:
        if None in sizes:
            raise ValueError(
                f"{data.source}: {sizes[None]} of {len(data.claims)} claims have no split; give every claim one,"
                " or none"
            )
        if not sizes[split]:
            there = {s: sizes[s] for s in SPLITS if sizes[s]}
            raise ValueError(f"{data.source}: the split {split!r} has no claim; got {there}; pass another --split")
        corpus = data.restrict({"test", "validation"} if split == "test" else {split})
    claims = [c for c in corpus.claims if c.split in (split, None)]
    related = corpus.labels()
    documents = sorted(corpus.arguments, key=lambda a: a.argument_id)
    column = {a.argument_id: i for i, a in enumerate(documents)}
    row = {c.claim_id: i for i, c in enumerate(claims)}
    labels = np.zeros((len(claims), len(documents)), np.uint8)
    anywhere = np.zeros(len(documents), np.uint8)
    for claim_id, stances_of in related.items():
        for argument_id, stances in stances_of.items():
            bits = sum(STANCE_BIT[s] for s in stances)
            anywhere[column[argument_id]] |= bits
            if claim_id in row:
                labels[row[claim_id], column[argument_id]] = bits
    if not labels.any():
        raise ValueError(f"{data.source}: no claim of the split {split!r} has an argument; there is nothing to find")
    first = _first_labels(corpus, claims, documents, labels)
    revision = _digest(claims, documents, labels, anywhere, first)
    return Judgements(data.source, revision, split, claims, documents, labels, anywhere, first)


def _first_labels(corpus: StanceData, claims: list[Claim], documents: list[Argument], labels: UInt8) -> UInt8:
    first = labels.copy()
    both_ways = np.argwhere(labels == sum(STANCE_BIT.values()))
    if len(both_ways):
        key = {a.argument_id: text_key(a.text) for a in corpus.arguments}
        named: dict[tuple[str, str], int] = {}
        for relation in corpus.relations:
            named.setdefault((relation.claim_id, key[relation.argument_id]), STANCE_BIT[relation.stance])
        for i, j in both_ways:
            first[i, j] = named[claims[i].claim_id, key[documents[j].argument_id]]
    return first


def _digest(claims: list[Claim], documents: list[Argument], labels: UInt8, anywhere: UInt8, first: UInt8) -> str:
    texts = json.dumps([[asdict(c) for c in claims], [asdict(d) for d in documents]], sort_keys=True)
    order = first.tobytes() if (first != labels).any() else b""  # says nothing where no document is labelled both ways
    return hashlib.sha256(texts.encode() + labels.tobytes() + anywhere.tobytes() + order).hexdigest()


@dataclass(frozen=True, slots=True)
class Query:
    """One query: its claim's row, the stance it asks for, and the instruction (none for the bare claim)."""

    query_id: str
    claim: int
    stance: Stance
    instruction: Instruction | None
    text: str


def queries_of(judged: Judgements, query_template: str | None) -> list[Query]:
    """All queries that have a relevant document.

    Args:
        judged: What is asked.
        query_template: Formats instruction and claim, one query for each of the 30 instructions; None gives the bare
            claims, one query for each (claim, stance).
    """
    relevant = judged.n_relevant(judged.candidates[ALL])
    queries = []
    for row, claim in enumerate(judged.claims):
        if query_template is None:
            queries += [Query(f"{claim.claim_id}-{s}", row, s, None, claim.claim) for s in STANCES if relevant[s][row]]
            continue
        queries += [
            Query(f"{claim.claim_id}-{i.id}", row, i.stance, i, format_query(query_template, i.text, claim.claim))
            for i in INSTRUCTIONS
            if relevant[i.stance][row]
        ]
    return queries


# -- measuring -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Measured:
    """One strategy's per-query table and the seconds that its parts took."""

    table: Table
    timing: dict[str, float]


def evaluate(
    judged: Judgements, query_template: str, encode: Encode, encode_base: Encode | None = None
) -> dict[Strategy, Measured]:
    """Search with formatted queries (``dense``) and with bare claims (``claim_only``).

    Args:
        judged: What is asked and what is right.
        query_template: The encoder's own.
        encode: The encoder. Documents and claims reach it bare.
        encode_base: The encoder without its adapter, for the stance oracle; None if it has none.

    Returns:
        Strategy to per-query values: `STANCE_METRICS`, and `TOPIC` and `ORACLE` of the query's claim.

    Raises:
        ValueError: If the encoder returns a NaN.
    """
    clock = [time.perf_counter()]
    texts, claims = [d.text for d in judged.documents], [c.claim for c in judged.claims]
    dense, bare = queries_of(judged, query_template), queries_of(judged, None)
    vectors = encode([*texts, *claims, *(q.text for q in dense)])
    clock.append(time.perf_counter())

    n, m, of_claim = len(texts), len(texts) + len(claims), [q.claim for q in bare]
    index = DenseIndex(texts, vectors[:n])
    dense_table = _per_query(judged, dense, vectors[m:], index, _stance_columns)
    clock.append(time.perf_counter())

    claim_table = _per_query(judged, bare, vectors[n:m][of_claim], index, _stance_columns)
    claim_table |= _per_query(judged, bare, vectors[n:m][of_claim], index, _topic_column)
    clock.append(time.perf_counter())

    base = vectors[:m] if encode_base is None else encode_base([*texts, *claims])
    clock.append(time.perf_counter())
    claim_table |= _per_query(judged, bare, base[n:][of_claim], DenseIndex(texts, base[:n]), _oracle_column)
    clock.append(time.perf_counter())

    place = {key: i for i, key in enumerate(_keys(claim_table, "claim_id", "stance"))}
    of_query = [place[key] for key in _keys(dense_table, "claim_id", "stance")]
    dense_table |= {name: claim_table[name][of_query] for name in (TOPIC, ORACLE)}

    encoding, ranking, ranking_claims, encoding_base, ranking_oracle = np.diff(clock).tolist()
    return {
        "dense": Measured(dense_table, {"encode_s": encoding, "rank_s": ranking}),
        "claim_only": Measured(
            claim_table, {"encode_base_s": encoding_base, "rank_s": ranking_claims + ranking_oracle}
        ),
    }


def values_of_ranking(judged: Judgements, queries: list[Query], order: Int) -> dict[str, Float64]:
    """The stance metrics of a ranking that was made elsewhere.

    Args:
        judged: What is right.
        queries: What was asked.
        order: int64[n_queries, depth] document columns, best first.

    Returns:
        `STANCE_METRICS` to float64[n_queries].

    Raises:
        ValueError: If ``depth`` is less than some query's R.
    """
    labels, wanted = judged.labels[[q.claim for q in queries]], _wanted(queries)
    kinds = document_kinds(np.take_along_axis(labels, order, axis=1), judged.anywhere[order], wanted)
    return stance_values(kinds, ((labels & wanted) > 0).sum(axis=1))


def _wanted(queries: list[Query]) -> UInt8:
    return np.array([[STANCE_BIT[q.stance]] for q in queries], np.uint8)


@dataclass(frozen=True, eq=False, slots=True)
class _Block:
    """Some queries against one candidate set, row by row.

    Attributes:
        queries: The queries.
        claims: Their claims.
        candidates: Name of the set.
        documents: The set, by id ascending.
        scores: float32[n_queries, n_docs].
        labels: uint8[n_queries, n_docs], stances towards the query's claim.
        anywhere: uint8[n_docs].
        wanted: uint8[n_queries, 1], the bit of the stance asked for.
        n_relevant: int64[n_queries], R.
    """

    queries: list[Query]
    claims: list[Claim]
    candidates: str
    documents: list[Argument]
    scores: Float32
    labels: UInt8
    anywhere: UInt8
    wanted: UInt8
    n_relevant: Int

    def ranked(self, cut: Int, scores: Float32 | None = None) -> Int:
        """int64[n_queries, depth] columns in ranked order, deep enough for the cuts and for NDCG, with one to
        spare."""
        depth = min(max(int(cut.max()) + 1, NDCG_DEPTH + 1), len(self.documents))
        return rank_columns(self.scores if scores is None else scores, depth)


def _per_query(
    judged: Judgements,
    queries: list[Query],
    vectors: Float32,
    index: DenseIndex,
    columns_of: Callable[[_Block], Table],
) -> Table:
    """The columns that ``columns_of`` makes of each block, one below the other: candidate sets, then queries in order.
    Queries without a relevant document in a set have no row there."""
    parts: list[Table] = []
    for name, columns in judged.candidates.items():
        relevant = judged.n_relevant(columns)
        kept = [i for i, q in enumerate(queries) if relevant[q.stance][q.claim]]
        documents = [judged.documents[c] for c in columns]
        size = max(1, _BLOCK // len(judged.documents))
        for start in range(0, len(kept), size):
            rows = kept[start : start + size]
            block = [queries[i] for i in rows]
            of_claim = [q.claim for q in block]
            parts.append(
                columns_of(
                    _Block(
                        queries=block,
                        claims=[judged.claims[c] for c in of_claim],
                        candidates=name,
                        documents=documents,
                        scores=index.scores(vectors[rows])[:, columns],
                        labels=judged.labels[of_claim][:, columns],
                        anywhere=judged.anywhere[columns],
                        wanted=_wanted(block),
                        n_relevant=np.array([relevant[q.stance][q.claim] for q in block]),
                    )
                )
            )
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _stance_columns(block: _Block) -> Table:
    """Who was asked what, every stance metric, ties, and the first documents' ids."""
    order = block.ranked(block.n_relevant)
    kinds = document_kinds(np.take_along_axis(block.labels, order, axis=1), block.anywhere[order], block.wanted)
    scores = np.take_along_axis(block.scores, order, axis=1)
    equal_next = scores[:, :-1] == scores[:, 1:]
    top = order[:, :_TOP]
    ids = np.array([d.argument_id for d in block.documents], object)
    first = np.empty(len(top), object)
    first[:] = [row.tolist() for row in ids[top]]
    return {
        "query_id": np.array([q.query_id for q in block.queries], object),
        "claim_id": np.array([c.claim_id for c in block.claims], object),
        "stance": np.array([q.stance for q in block.queries], object),
        "instruction_id": np.array([q.instruction.id if q.instruction else None for q in block.queries], object),
        "seen": np.array([q.instruction is not None and q.instruction.seen for q in block.queries]),
        "candidates": np.full(len(block.queries), block.candidates, object),
        "n_relevant": block.n_relevant,
        "tied": (equal_next & (np.arange(equal_next.shape[1]) < block.n_relevant[:, None])).any(axis=1),
        "top": first,
        **stance_values(kinds, block.n_relevant),
    }


def _topic_column(block: _Block) -> Table:
    """Precision where both stances are relevant, cut at their number."""
    cut = (block.labels > 0).sum(axis=1)
    related = np.take_along_axis(block.labels, block.ranked(cut), axis=1) > 0
    return {TOPIC: composition(np.where(related, POSITIVE, EASY).astype(np.uint8), cut)[:, POSITIVE]}


def _oracle_column(block: _Block) -> Table:
    """Precision at R once every document of the wrong stance is dropped: what a perfect judge of stance would
    reach."""
    kinds = document_kinds(block.labels, block.anywhere, block.wanted)
    right = np.where((kinds == HARD) | (kinds == EASY), np.float32(-np.inf), block.scores)
    order = block.ranked(block.n_relevant, right)
    return {ORACLE: composition(np.take_along_axis(kinds, order, axis=1), block.n_relevant)[:, POSITIVE]}


# -- reading the table ---------------------------------------------------------------------------------------------


def slices_of(table: Table) -> dict[str, NDArray[np.bool_]]:
    """Slice name to the rows it averages. All but ``instructions=seen`` leave the seen instructions out."""
    everything = table["candidates"] == ALL
    unseen = ~table["seen"].astype(bool)
    slices = {"overall": everything & unseen}
    slices |= {stance: everything & unseen & (table["stance"] == stance) for stance in STANCES}
    slices |= {f"style={s}": (table["candidates"] == s) & unseen for s in STYLES if (table["candidates"] == s).any()}
    if not unseen.all():
        slices["instructions=seen"] = everything & ~unseen
    return slices


def summarise(table: Table) -> dict[str, dict[str, Metric]]:
    """Slice to metric to mean and sample std over its queries."""
    return {
        name: {metric: Metric.over(table[metric][rows]) for metric in (*STANCE_METRICS, TOPIC, ORACLE)}
        for name, rows in slices_of(table).items()
    }


def diagnostics(table: Table, metric: str = "precision_at_r") -> dict[str, Any]:
    """What the means hide, over the unseen instructions and all documents.

    Returns:
        ``ties``: share of queries with equal scores among the first R + 1, where the id decided the order;
        ``by_instruction``: the metric's mean for each; ``spread_over_instructions``: sample std of those means, within
        each stance; ``spread_over_claims``: sample std of the claims' means. None where one value has no spread.
    """
    rows = slices_of(table)["overall"]
    values, claims = table[metric][rows], table["claim_id"][rows]
    found: dict[str, Any] = {"ties": float(table["tied"][rows].mean()), "metric": metric}
    found["spread_over_claims"] = _spread(_means(values, claims))
    instructions = table["instruction_id"][rows]
    if None not in instructions:
        by_instruction = _means(values, instructions)
        found["by_instruction"] = by_instruction
        found["spread_over_instructions"] = {
            s: _spread({i: m for i, m in by_instruction.items() if i.startswith(s)}) for s in STANCES
        }
    return found


def _means(values: Float64, keys: NDArray[Any]) -> dict[str, float]:
    return {key: float(values[keys == key].mean()) for key in sorted(set(keys))}


def _spread(means: dict[str, float]) -> float | None:
    return float(np.std(list(means.values()), ddof=1)) if len(means) > 1 else None


def compare(table: Table, baseline: Table, name: str, *, resamples: int = 10_000, seed: int = 0) -> list[Comparison]:
    """Paired differences on the same queries, over every slice, with intervals that resample claims.

    Args:
        table: The system's per-query values.
        baseline: The baseline's, of the same strategy on the same data.
        name: The baseline's id.
        resamples: Draws for each interval and p-value.
        seed: Their seed.

    Raises:
        ValueError: If the two were not asked the same queries.
    """
    place = {key: i for i, key in enumerate(_keys(baseline, "query_id"))}
    keys = _keys(table, "query_id")
    if set(keys) != set(place):
        raise ValueError(
            f"baseline {name!r} answered {len(place)} queries, the model {len(keys)}, of which "
            f"{len(set(keys) & set(place))} are the same; evaluate both on the same data and split"
        )
    match = np.array([place[key] for key in keys])
    comparisons: list[Comparison] = []
    for slice_name, rows in slices_of(table).items():
        if not rows.any():
            continue
        differences = np.stack([(table[m] - baseline[m][match])[rows] for m in COMPARED], axis=1)
        found = paired_differences(differences, table["claim_id"][rows].tolist(), resamples=resamples, seed=seed)
        comparisons += [
            Comparison(
                baseline=name,
                slice=slice_name,
                metric=metric,
                **asdict(difference),
                unit="claim",
                reason="one claim gives nothing to resample" if difference.low is None else None,
            )
            for metric, difference in zip(COMPARED, found, strict=True)
        ]
    return comparisons


def _keys(table: Table, *columns: str) -> list[tuple[str, ...]]:
    return list(zip(*(table[name].tolist() for name in ("candidates", *columns)), strict=True))
