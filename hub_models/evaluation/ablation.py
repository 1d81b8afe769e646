"""Word ablation: which words of a query move its similarity to a document (stance paper, 3.3).

One word is deleted by its position, the query is formatted again, and Δ is what its cosine to the document gains. From
the Δs of a query come how much of it hangs on the instruction (RIS) and how much on the claim (RCS), and where the
stance word pushes (DI): below 0 for the right arguments and above 0 for those of the other stance, if stance is
understood.

Every distinct text is encoded once, however many claims, instructions and documents share it, and no more than a block
of them is held at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from dataset_builders.instructions import STANCE_WORDS, STANCES, UNSEEN, Instruction, format_query
from dataset_builders.schema import STYLES
from hub_models.evaluation.measured import Encode, Table
from hub_models.evaluation.metrics import STANCE_BIT, Float32, Float64, Int
from hub_models.evaluation.results import Metric
from hub_models.evaluation.stance import Judgements

EPSILON = 1e-9
"""Keeps a query whose words move nothing from dividing by 0."""

Part = Literal["instruction", "claim"]
PARTS: tuple[Part, ...] = ("instruction", "claim")

_BLOCK = 2**14  # texts encoded in one call


@dataclass(frozen=True, slots=True)
class Deletion:
    """A query without one of its words."""

    part: Part
    word: str
    text: str


def deletions(instruction: str, claim: str, query_template: str) -> list[Deletion]:
    """The query without each of its words in turn: the instruction's first, then the claim's.

    Words are what white space separates. A part of a single word is left whole: without it there would be no part.
    """
    parts: dict[Part, list[str]] = {"instruction": instruction.split(), "claim": claim.split()}
    found = []
    for part, words in parts.items():
        for i, word in enumerate(words if len(words) > 1 else []):
            rest = {"instruction": instruction, "claim": claim, part: " ".join(words[:i] + words[i + 1 :])}
            found.append(Deletion(part, word, format_query(query_template, rest["instruction"], rest["claim"])))
    return found


def word_deltas(
    instruction: str, claim: str, document: str, encode: Encode, query_template: str
) -> list[tuple[Part, str, float]]:
    """What each word of one query does to its cosine with one document.

    Args:
        instruction: The instruction's text.
        claim: The claim.
        document: The document, bare.
        encode: Texts to float32[n, d], L2-normalised.
        query_template: Formats instruction and claim.

    Returns:
        Part, word and Δ in [-2, 2], in the query's order: Δ < 0 where the word draws query and document together.
    """
    without = deletions(instruction, claim, query_template)
    full = format_query(query_template, instruction, claim)
    vectors = encode([full, document, *(d.text for d in without)]).astype(np.float64)
    deltas = (vectors[2:] - vectors[0]) @ vectors[1]
    return [(d.part, d.word, float(delta)) for d, delta in zip(without, deltas, strict=True)]


@dataclass(frozen=True, slots=True)
class Reliance:
    """What one query's cosine with one document hangs on.

    Attributes:
        ris: Share of the words' influence that the instruction has, in [0, 1].
        rcs: The claim's share.
        di: Mean Δ of the instruction's stance words, or None where it has none that could be deleted.
    """

    ris: float
    rcs: float
    di: float | None


def reliance(deltas: Sequence[tuple[Part, str, float]]) -> Reliance:
    """Read RIS, RCS and DI off the `word_deltas` of one query and document."""
    of_part = {part: sum(abs(delta) for p, _, delta in deltas if p == part) for part in PARTS}
    total = sum(of_part.values()) + EPSILON
    stance = [delta for part, word, delta in deltas if part == "instruction" and is_stance_word(word)]
    di = sum(stance) / len(stance) if stance else None
    return Reliance(of_part["instruction"] / total, of_part["claim"] / total, di)


@dataclass(frozen=True, eq=False)
class Ablation:
    """A task's word ablation.

    Attributes:
        table: One row a (claim, instruction, document): ``query_id``, ``claim_id``, ``stance``, ``instruction_id``,
            ``argument_id``, ``style``, ``kind`` (``positive`` or ``hard``); ``ris`` and ``rcs`` in [0, 1]; ``di``, the
            mean Δ of the instruction's stance words, NaN where it has none that could be deleted; ``deltas``, float32
            of each `Deletion` in its order.
        skipped: How many queries kept a part whole because it is a single word.
        texts: How many distinct texts were encoded.
    """

    table: Table
    skipped: dict[Part, int]
    texts: int

    def slices(self) -> list[str]:
        """The slices that hold anything: overall, by stance, and by the documents' style."""
        styles = [f"style={s}" for s in STYLES if (self.table["style"] == s).any()]
        return ["overall", *STANCES, *styles]

    def metrics(self, slice_name: str) -> dict[str, Metric]:
        """RIS and RCS over (query, document), DI over queries; the std is the sample std over the same.

        Raises:
            ValueError: If there is no such slice.
        """
        if slice_name not in self.slices():
            raise ValueError(f"got the slice {slice_name!r}, wanted one of {self.slices()}")
        rows = np.full(len(self.table["ris"]), True)
        if slice_name in STANCES:
            rows = self.table["stance"] == slice_name
        elif slice_name != "overall":
            rows = self.table["style"] == slice_name.removeprefix("style=")
        found = {name: _metric(self.table[name][rows]) for name in ("ris", "rcs")}
        return found | {f"di_{kind}": _metric(self._by_query(rows, kind)) for kind in ("positive", "hard")}

    def _by_query(self, rows: NDArray[np.bool_], kind: str) -> Float64:
        """The mean DI of each query over its documents of that kind."""
        rows = rows & (self.table["kind"] == kind) & ~np.isnan(self.table["di"])
        _, query = np.unique(self.table["query_id"][rows].astype(str), return_inverse=True)
        sums, documents = np.bincount(query, weights=self.table["di"][rows]), np.bincount(query)
        return np.asarray(sums / documents, np.float64)


def _metric(values: Float64) -> Metric:
    if not len(values):
        return Metric(mean=None, std=None, n=0, reason="no document, or no word that could be deleted")
    return Metric.over(values)


def ablate(
    judged: Judgements, encode: Encode, query_template: str, instructions: Sequence[Instruction] = UNSEEN
) -> Ablation:
    """Delete every word of every query in turn, against the claim's own documents.

    Documents are the positives and hard negatives of the claim: all that relate to it. One that is labelled both ways
    counts as what the data labels it first.

    Args:
        judged: Claims and who takes which stance on them.
        encode: Texts to float32[n, d], L2-normalised. Gets each distinct text once.
        query_template: The encoder's own.
        instructions: What is asked; by default the unseen instructions, as in the paper.
    """
    queries = [_claim_queries(judged, row, query_template, instructions) for row in _rows(judged)]
    blocks = list(_blocks(queries))
    last_use = {text: i for i, block in enumerate(blocks) for claim in block for text in claim.texts()}
    held: dict[str, Float32] = {}
    parts: list[Table] = []
    for i, block in enumerate(tqdm(blocks, desc="ablate", unit=" blocks", delay=2, disable=len(blocks) < 2)):
        missing = list(dict.fromkeys(t for claim in block for t in claim.texts() if t not in held))
        held.update(zip(missing, encode(missing), strict=True) if missing else ())
        parts += [_measure(judged, claim, held) for claim in block]
        held = {text: vector for text, vector in held.items() if last_use[text] > i}
    table = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    skipped = {
        part: sum(not any(d.part == part for d in q.without) for claim in queries for q in claim.queries)
        for part in PARTS
    }
    return Ablation(table, skipped, len(last_use))


@dataclass(frozen=True, eq=False, slots=True)
class _Query:
    instruction: Instruction
    full: str
    without: list[Deletion]


@dataclass(frozen=True, eq=False, slots=True)
class _ClaimQueries:
    """A claim's queries and the columns of its documents."""

    row: int
    documents: list[str]
    columns: Int
    queries: list[_Query]

    def texts(self) -> Iterator[str]:
        yield from self.documents
        for query in self.queries:
            yield query.full
            yield from (d.text for d in query.without)


def _rows(judged: Judgements) -> list[int]:
    return [int(row) for row in np.flatnonzero(judged.labels.any(axis=1))]


def _claim_queries(
    judged: Judgements, row: int, query_template: str, instructions: Sequence[Instruction]
) -> _ClaimQueries:
    claim, columns = judged.claims[row].claim, np.flatnonzero(judged.labels[row])
    queries = [
        _Query(i, format_query(query_template, i.text, claim), deletions(i.text, claim, query_template))
        for i in instructions
    ]
    return _ClaimQueries(row, [judged.documents[c].text for c in columns], columns, queries)


def _blocks(queries: list[_ClaimQueries]) -> Iterator[list[_ClaimQueries]]:
    """Whole claims, some `_BLOCK` texts at a time."""
    block: list[_ClaimQueries] = []
    size = 0
    for claim in queries:
        n = sum(1 for _ in claim.texts())
        if block and size + n > _BLOCK:
            yield block
            block, size = [], 0
        block.append(claim)
        size += n
    yield block


def _measure(judged: Judgements, claim: _ClaimQueries, vectors: dict[str, Float32]) -> Table:
    """The rows of one claim: its queries in order, each against all its documents."""
    documents = np.stack([vectors[text] for text in claim.documents]).astype(np.float64)
    related, bits = [judged.documents[c] for c in claim.columns], judged.first[claim.row, claim.columns]
    ris, rcs, di, deltas = [], [], [], []
    for query in claim.queries:
        texts = np.stack([vectors[t] for t in (query.full, *(d.text for d in query.without))])
        cosines = texts @ documents.T
        moved = cosines[1:] - cosines[0]  # [n_words, n_documents]
        in_claim = np.array([d.part == "claim" for d in query.without], bool)
        of_stance = np.array([d.part == "instruction" and is_stance_word(d.word) for d in query.without], bool)
        of_claim, of_all = np.abs(moved[in_claim]).sum(axis=0), np.abs(moved).sum(axis=0)
        rcs.append(of_claim / (of_all + EPSILON))
        ris.append((of_all - of_claim) / (of_all + EPSILON))
        di.append(moved[of_stance].mean(axis=0) if of_stance.any() else np.full(len(related), np.nan))
        deltas += list(moved.T.astype(np.float32))
    n, claim_id = len(related), judged.claims[claim.row].claim_id
    asked = [q.instruction for q in claim.queries for _ in range(n)]
    right = np.concatenate([(bits & STANCE_BIT[q.instruction.stance]) > 0 for q in claim.queries])
    return {
        "query_id": np.array([f"{claim_id}-{i.id}" for i in asked], object),
        "claim_id": np.full(len(asked), claim_id, object),
        "stance": np.array([i.stance for i in asked], object),
        "instruction_id": np.array([i.id for i in asked], object),
        "argument_id": np.array([d.argument_id for d in related] * len(claim.queries), object),
        "style": np.array([d.style for d in related] * len(claim.queries), object),
        "kind": np.where(right, "positive", "hard").astype(object),
        "ris": np.concatenate(ris),
        "rcs": np.concatenate(rcs),
        "di": np.concatenate(di),
        "deltas": _objects(deltas),
    }


def _objects(arrays: list[Float32]) -> NDArray[np.object_]:
    """A column of arrays: equal lengths must not become a matrix."""
    column = np.empty(len(arrays), object)
    column[:] = arrays
    return column


def is_stance_word(word: str) -> bool:
    """Whether a word of an instruction, whatever its case, carries a stance."""
    return word.lower() in STANCE_WORDS
