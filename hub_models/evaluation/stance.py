"""What a stance task asks, and what is right: claims, documents, labels, queries (stance paper, 3).

Every (claim, stance, instruction) is a query, every argument a document. `stance_ranking` makes per-query values of
scores, `stance_table` reads slices, intervals and diagnostics off them, `stance_runs` gives the scores of an encoder.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dataset_builders.instructions import INSTRUCTIONS, STANCES, Instruction, Stance, format_query
from dataset_builders.schema import SPLITS, STYLES, Argument, Claim, Split
from dataset_builders.stance.data import StanceData
from dataset_builders.text import text_key
from hub_models.evaluation.metrics import STANCE_BIT, Int, UInt8

ALL = "all"
"""The candidates of every slice but ``style=``, which searches the arguments of that style alone."""


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


def judge(data: StanceData, split: Split, *, wide: bool = False) -> Judgements:
    """Lay out a split's claims, documents and labels.

    Args:
        data: The stance data.
        split: Whose claims are asked about.
        wide: Search in the corpus of ``test`` whatever the split. A small corpus flatters whoever neglects the topic,
            so what is chosen on validation claims is chosen there.

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
        corpus = data.restrict({"test", "validation"} if wide or split == "test" else {split})
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
