"""The triplet engine: the three curricula of the stance paper (S section 5) from claims, arguments and inversions.

A *cell* is a two-sided claim with a seen instruction; each gets k triplets. The three curricula are one list of rows:
`mixed` differs from `homogeneous` in the negatives of two thirds of the rows, `mixed_aug` from `mixed` in half of the
negatives of the remaining third. Rows are held as indices; texts are put in when a batch is written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tqdm import tqdm

from dataset_builders.instructions import SEEN, STANCES, Stance, seen_for
from dataset_builders.schema import TRIPLETS, Claim, Curriculum, Inversion, NegativeKind
from dataset_builders.stance.data import StanceData
from dataset_builders.text import text_key

TRIPLETS_PER_CELL = 6  # S: 265 two-sided claims x 20 instructions x 6 = 31,800

Index = NDArray[np.int32]

_KINDS: tuple[NegativeKind, ...] = ("hard", "semi_hard", "easy", "inverted")
_HARD, _SEMI_HARD, _EASY, _INVERTED = range(4)
_BATCH = 100_000  # rows: about 60 MB of text
_DICTIONARY = 20_000  # values: about 3 MB of text


@dataclass(frozen=True)
class Texts:
    """What the indices of `Triplets` point to.

    Attributes:
        claims: The two-sided claims, sorted by id.
        ids: Ids of the arguments, sorted, then those of the inversions.
        texts: Their texts, in the same order.
    """

    claims: list[Claim]
    ids: list[str]
    texts: list[str]


@dataclass(frozen=True)
class Triplets:
    """One curriculum as indices, rows sorted by claim, instruction and round.

    Attributes:
        texts: What the indices point to.
        claim: int32[n], into ``texts.claims``.
        instruction: int8[n], into ``instructions.SEEN``.
        positive: int32[n], into ``texts.texts``.
        negative: int32[n], the same.
        kind: int8[n], 0 hard, 1 semi-hard, 2 easy, 3 inverted.
    """

    texts: Texts
    claim: Index
    instruction: NDArray[np.int8]
    positive: Index
    negative: Index
    kind: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.claim)

    def kinds(self) -> dict[NegativeKind, int]:
        """How many negatives there are of each kind."""
        return dict(zip(_KINDS, np.bincount(self.kind, minlength=len(_KINDS)).tolist(), strict=True))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of ``schema.TRIPLETS``, `_BATCH` at a time."""
        claims = self.texts.claims
        of_claim = {
            "claim_id": _values(c.claim_id for c in claims),
            "claim": _values(c.claim for c in claims),
            "source": _values(c.source for c in claims),
            "licence": _values(c.licence for c in claims),
        }
        instructions, stances = _values(i.text for i in SEEN), _values(i.stance for i in SEEN)
        ids, texts, kinds = _values(self.texts.ids), _values(self.texts.texts), _values(_KINDS)
        for start in range(0, len(self), _BATCH):
            rows = slice(start, start + _BATCH)
            claim, instruction, positive, negative, kind = (
                pa.array(a[rows]) for a in (self.claim, self.instruction, self.positive, self.negative, self.kind)
            )
            columns = {
                **{name: values.take(claim) for name, values in of_claim.items()},
                "instruction": instructions.take(instruction),
                "stance": stances.take(instruction),
                "positive_id": ids.take(positive),
                "positive": texts.take(positive),
                "negatives": pa.ListArray.from_arrays(
                    pa.array(np.arange(len(claim) + 1, dtype=np.int32)),
                    pa.StructArray.from_arrays(
                        [ids.take(negative), texts.take(negative), kinds.take(kind)], names=["id", "text", "kind"]
                    ),
                ),
            }
            yield pa.RecordBatch.from_pydict({name: columns[name] for name in TRIPLETS})


def build(data: StanceData, *, triplets: int | None = None, seed: int = 0) -> dict[Curriculum, Triplets]:
    """Build the curricula from the claims of one split.

    One-sided claims are left out: those that lack, for one of the stances, an argument of that stance alone. A
    negative is never a text that is a known positive of the row's claim and stance; texts are compared by `text_key`.
    For claim c and stance s a *hard* negative has the other stance towards c; a *semi-hard* one has stance s towards
    some claim and no relation to c or its group; an *easy* one has stance s towards no claim and no relation to c or
    its group; an *inverted* one is the inversion of the positive.

    Args:
        data: Claims that may meet in one split.
        triplets: Rows of each curriculum; None takes `TRIPLETS_PER_CELL` for each cell. Kinds come in exact thirds if
            it is divisible by three, else to within one row.
        seed: The same data, whatever the order of its rows, and seed give the same triplets.

    Returns:
        ``homogeneous``, ``mixed`` and ``mixed_aug``, the last one if the data has inversions.

    Raises:
        ValueError: If there is no two-sided claim, no semi-hard or no easy negative for one of them, or if there are
            inversions but too few for half of the hard negatives.
    """
    if triplets is not None and triplets < 1:
        raise ValueError(f"got {triplets} triplets, wanted at least 1")
    pool = _Pool(data)
    claims = pool.two_sided(data.claims)
    if not claims:
        raise ValueError(
            f"{data.source}: none of the {len(data.claims)} claims has both a supporting and an attacking argument of "
            "its own; a hard negative needs both"
        )
    n_cells = len(claims) * len(SEEN)
    n = n_cells * TRIPLETS_PER_CELL if triplets is None else triplets
    order, kind_shift = _cell_order(len(claims), np.random.default_rng(seed)), int(n_cells % 3 == 0)
    place = np.empty(n_cells, np.int64)
    place[order] = np.arange(n_cells)

    counts = n // n_cells + (place < n % n_cells)  # rows of each cell
    starts = np.concatenate([[0], np.cumsum(counts)])
    claim_of = np.empty(n, np.int32)
    instruction = np.empty(n, np.int8)
    kind = np.empty(n, np.int8)
    positive, hard, mixed = (np.empty(n, np.int32) for _ in range(3))
    for c, claim in enumerate(tqdm(claims, desc="triplets", unit="claim", delay=2)):
        for stance in STANCES:
            asked = [SEEN.index(i) for i in seen_for(stance)]
            cells = c * len(SEEN) + asked[0] + np.arange(len(asked))  # neighbours: SEEN is sorted by stance
            rows = slice(starts[cells[0]], starts[cells[-1] + 1])
            here = counts[cells]
            round_ = np.arange(rows.stop - rows.start) - np.repeat(starts[cells] - rows.start, here)
            claim_of[rows] = c
            instruction[rows] = np.repeat(asked, here)
            kind[rows] = (round_ * n_cells + np.repeat(place[cells], here) + round_ * kind_shift) % 3
            rng = np.random.default_rng([seed, 1, c, STANCES.index(stance)])
            positives, negatives = pool.sides(claim, stance)
            pair = _walk(rng, len(positives) * len(negatives), len(round_))
            positive[rows] = positives[pair // len(negatives)]
            hard[rows] = mixed[rows] = negatives[pair % len(negatives)]
            for k, name, candidates in (
                (_SEMI_HARD, "semi-hard", pool.semi_hard[stance]),
                (_EASY, "easy", pool.easy[stance]),
            ):
                drawn = np.flatnonzero(kind[rows] == k) + rows.start
                mixed[drawn] = _draw(rng, candidates, pool.near(claim), len(drawn), f"{name} negative", claim, stance)

    texts = Texts(claims, pool.ids, pool.texts)
    result: dict[Curriculum, Triplets] = {
        "homogeneous": Triplets(texts, claim_of, instruction, positive, hard, np.zeros(n, np.int8)),
        "mixed": Triplets(texts, claim_of, instruction, positive, mixed, kind),
    }
    if data.inversions:
        result["mixed_aug"] = _augment(result["mixed"], data, pool)
    return result


class _Pool:
    """The distinct texts of the data, sorted by argument id, and who may be whose negative."""

    def __init__(self, data: StanceData) -> None:
        self.number: dict[str, int] = {}  # by text_key
        self.text_of: dict[str, int] = {}  # by argument id
        self.ids: list[str] = []
        self.texts: list[str] = []
        for argument in sorted(data.arguments, key=lambda a: a.argument_id):
            text = self.number.setdefault(text_key(argument.text), len(self.texts))
            self.text_of[argument.argument_id] = text
            if text == len(self.texts):
                self.ids.append(argument.argument_id)
                self.texts.append(argument.text)
        self._group = {c.claim_id: c.group_id for c in data.claims}
        self._of: dict[tuple[str, Stance], set[int]] = defaultdict(set)
        near: dict[str, set[int]] = defaultdict(set)
        anywhere: dict[Stance, set[int]] = defaultdict(set)
        for relation in data.relations:
            text = self.text_of[relation.argument_id]
            self._of[relation.claim_id, relation.stance].add(text)
            near[self._group[relation.claim_id]].add(text)
            anywhere[relation.stance].add(text)
        self._near = {group: _sorted(texts) for group, texts in near.items()}
        self.semi_hard = {s: _sorted(anywhere[s]) for s in STANCES}
        self.easy = {s: _sorted(anywhere[_other(s)] - anywhere[s]) for s in STANCES}

    def sides(self, claim: Claim, stance: Stance) -> tuple[Index, Index]:
        """The positives of (claim, stance), and its hard negatives: the other side's texts that are no positives."""
        positives = self._of[claim.claim_id, stance]
        return _sorted(positives), _sorted(self._of[claim.claim_id, _other(stance)] - positives)

    def two_sided(self, claims: list[Claim]) -> list[Claim]:
        """The claims with positives and hard negatives for both stances, sorted by id."""
        able = (c for c in claims if all(len(side) for s in STANCES for side in self.sides(c, s)))
        return sorted(able, key=lambda c: c.claim_id)

    def near(self, claim: Claim) -> Index:
        """The texts that relate to the claim or to any claim of its group."""
        return self._near[self._group[claim.claim_id]]


def _cell_order(n_claims: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A seeded order of all cells in which every prefix has each instruction equally often, to within one.

    The instructions take turns; each starts at another place in the round of the claims, so that a prefix has the
    claims about equally often as well.
    """
    n = len(SEEN)
    claims, instructions = rng.permutation(n_claims), rng.permutation(n)
    block, turn = np.divmod(np.arange(n_claims * n), n)
    order: NDArray[np.int64] = claims[(block + turn * n_claims // n) % n_claims] * n + instructions[turn]
    return order


def _walk(rng: np.random.Generator, size: int, n: int) -> NDArray[np.int64]:
    """``n`` positions below ``size``: one seeded permutation, walked anew where it is too short."""
    order = rng.choice(size, min(n, size), replace=False)
    return order[np.arange(n) % max(1, len(order))]


def _draw(
    rng: np.random.Generator, pool: Index, excluded: Index, n: int, what: str, claim: Claim, stance: Stance
) -> Index:
    """``n`` of ``pool`` (sorted) but none of ``excluded`` (sorted), different ones as long as there are enough."""
    holes = np.searchsorted(pool, excluded)  # not `np.isin`, which walks the whole pool
    holes = holes[pool.take(holes, mode="clip") == excluded] if len(pool) else holes[:0]
    size = len(pool) - len(holes)
    if n and not size:
        raise ValueError(
            f"there is no {what} for ({claim.claim_id!r}, {stance}): every argument that could be one relates to this "
            f"claim or its group {claim.group_id!r}; add claims of other groups, or build from more data"
        )
    drawn = _walk(rng, size, n)
    # The v-th position that is left lies behind every hole h_i with h_i - i <= v.
    chosen: Index = pool[drawn + np.searchsorted(holes - np.arange(len(holes)), drawn, side="right")]
    return chosen


def _augment(mixed: Triplets, data: StanceData, pool: _Pool) -> Triplets:
    """Replace half of the hard negatives, evenly spread over the rows, by the inversion of the row's positive."""
    inversions = sorted(data.inversions, key=lambda i: i.inversion_id)
    hard = np.flatnonzero(mixed.kind == _HARD)
    stance = np.array([STANCES.index(i.stance) for i in SEEN])[mixed.instruction[hard]]
    inverted = _lookup(
        _inversion_of_positive(mixed.texts.claims, inversions, pool),
        _row_key(mixed.claim[hard].astype(np.int64), stance, mixed.positive[hard], len(pool.texts)),
    )
    able = np.flatnonzero(inverted >= 0)
    wanted = len(hard) // 2
    if len(able) < wanted:
        raise ValueError(
            f"{data.source}: mixed_aug replaces half of its {len(hard)} hard negatives, {wanted}, by the inversion of "
            f"the row's positive, but only {len(able)} of these rows have a positive with one ({len(inversions)} "
            f"inversions, {len(pool.texts)} arguments); add inversions, or leave all out to build without mixed_aug"
        )
    chosen = able[np.arange(1, wanted + 1) * len(able) // max(1, wanted) - 1]
    negative, kind = mixed.negative.copy(), mixed.kind.copy()
    negative[hard[chosen]] = len(pool.texts) + inverted[chosen]
    kind[hard[chosen]] = _INVERTED
    texts = Texts(
        mixed.texts.claims,
        [*mixed.texts.ids, *(i.inversion_id for i in inversions)],
        [*mixed.texts.texts, *(i.inverted for i in inversions)],
    )
    return Triplets(texts, mixed.claim, mixed.instruction, mixed.positive, negative, kind)


def _inversion_of_positive(claims: list[Claim], inversions: list[Inversion], pool: _Pool) -> dict[int, int]:
    """Number of the first inversion that may stand against a positive, by the `_row_key` of the positive."""
    number = {c.claim_id: i for i, c in enumerate(claims)}
    found: dict[int, int] = {}
    for i, inversion in enumerate(inversions):
        claim, text = number.get(inversion.claim_id), pool.text_of.get(inversion.argument_id)
        if claim is not None and text is not None:
            positives, _ = pool.sides(claims[claim], inversion.original_stance)
            if pool.number.get(text_key(inversion.inverted), -1) not in positives:
                stance = STANCES.index(inversion.original_stance)
                found.setdefault(int(_row_key(claim, stance, text, len(pool.texts))), i)
    return found


def _row_key(claim: Any, stance: Any, text: Any, n_texts: int) -> Any:
    """One number for (claim, stance, text), for single numbers and arrays alike."""
    return (claim * len(STANCES) + stance) * n_texts + text


def _lookup(table: dict[int, int], keys: NDArray[np.int64]) -> Index:
    """``table[key]`` for every key, -1 where there is none."""
    known = np.array([-1, *sorted(table)])
    values = np.array([-1, *(table[k] for k in sorted(table))], np.int32)
    at = np.searchsorted(known, keys).clip(max=len(known) - 1)
    return np.where(known[at] == keys, values[at], np.int32(-1))


def _values(values: Iterable[str]) -> pa.Array:
    """What a column takes its values from, dictionary-encoded while they are few.

    A row group holds its dictionary whole, used or not; and each value comes once in it, since parquet files of
    dictionaries with repeats are not byte-identical.
    """
    array = pa.array(list(values), pa.string())
    return array.dictionary_encode() if len(array) <= _DICTIONARY else array


def _sorted(numbers: set[int]) -> Index:
    return np.array(sorted(numbers), np.int32)


def _other(stance: Stance) -> Stance:
    return "attack" if stance == "support" else "support"
