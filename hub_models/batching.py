"""The distinct-claim batch sampler: no row of a training step holds what another row of that step is looking for.

A loss with in-batch negatives (InfoNCE, ``MultipleNegativesRankingLoss``) takes every text of the *other* rows for a
negative and has no mask. Stance data breaks that promise at once: a claim stands in hundreds of rows, each with one of
its many positives. So two rows go into one step only if

1. their claims differ (by id and by normalised text), and
2. no text of the one, positive *or negative*, is a known positive of the other's (claim, stance).

Rule 2 covers equal positives. Known positives are the positives of all rows of the data with that claim and stance.
Oblique rows have no claims: there the positive stands for one, and the query asks (`RowKeys.from_queries`).
"""

from __future__ import annotations

import heapq
import logging
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed
from numpy.typing import NDArray
from sentence_transformers.base.sampler import DefaultBatchSampler
from tqdm import tqdm

from dataset_builders.text import claim_key, text_key

logger = logging.getLogger(__name__)

TRIES = 32  # rows of one claim that are tried for one batch before the claim is passed over

Batch = list[int]


@dataclass(frozen=True, eq=False)
class RowKeys:
    """What the sampler knows of ``n`` training rows, as integers.

    Rows i and j conflict if ``claim[i] == claim[j]``, if ``anchor[i]`` is among the foes of j, or the reverse.

    Attributes:
        claim: int64[n]; rows with one number have one claim.
        anchor: int64[n]; rows with one number have one claim and stance, or one query.
        foes: int64[m]; ``foes[offsets[i]:offsets[i + 1]]`` are the anchors of *other* claims for which a text of row i
            is a known positive.
        offsets: int64[n + 1].
        claim_ids: One id for each number in ``claim``, for messages.
    """

    claim: NDArray[np.int64]
    anchor: NDArray[np.int64]
    foes: NDArray[np.int64]
    offsets: NDArray[np.int64]
    claim_ids: list[str]

    def __len__(self) -> int:
        return len(self.claim)

    @classmethod
    def from_columns(
        cls,
        claim_ids: Sequence[str],
        claims: Sequence[str],
        stances: Sequence[str],
        positives: Sequence[str],
        negatives: Sequence[Sequence[str]],
    ) -> RowKeys:
        """Number the texts of ``n`` triplet rows; each argument holds one entry a row.

        Claims are compared by id and by `claim_key`, all other texts by `text_key`.

        Raises:
            ValueError: If a row's negative is a known positive of the row's own claim and stance.
        """
        ids, id_names = _number(claim_ids)
        claim_texts, _ = _number(claims, claim_key)
        claim = _merge(ids, claim_texts)
        stance, _ = _number(stances)
        _, anchor = np.unique(np.stack([claim, stance], axis=1), axis=0, return_inverse=True)
        names = _names(claim, ids, id_names)
        return cls._joined(
            claim,
            anchor.reshape(-1),
            positives,
            negatives,
            names,
            "claim and stance",
            lambda row: f"claim {claim_ids[row]!r}, stance {stances[row]!r}",
        )

    @classmethod
    def from_queries(
        cls,
        queries: Sequence[str],
        attributes: Sequence[str | None],
        positive_ids: Sequence[str],
        positives: Sequence[str],
        negatives: Sequence[Sequence[str]],
    ) -> RowKeys:
        """Number the texts of ``n`` oblique rows; each argument holds one entry a row.

        The positive stands for the claim. Known positives of a query are those of all rows that ask for the same: by
        the same query, as the edges of one anchor of the style graph do, or for the same attribute where that is
        known. Rows of a known attribute are positives of each other, so that there the attribute stands for the claim.

        Args:
            queries: With their instructions.
            attributes: None where it is not known, or where the query means one document alone.
            positive_ids, positives, negatives: As they are.

        Raises:
            ValueError: If a row's negative is a known positive of the row's own query.
        """
        query, _ = _number(queries, text_key)
        own, attribute_names = _number([a if a is not None else "" for a in attributes])
        known = np.array([a is not None for a in attributes], dtype=bool)
        anchor = _merge(np.where(known, own, len(attribute_names) + query), query)
        ids, id_names = _number(positive_ids)
        texts, _ = _number(positives, text_key)
        claim = np.where(known, anchor, len(queries) + _merge(ids, texts))
        claim = np.unique(claim, return_inverse=True)[1].reshape(-1)
        names = _names(claim, np.where(known, own, len(attribute_names) + ids), [*attribute_names, *id_names])
        return cls._joined(
            claim,
            anchor,
            positives,
            negatives,
            names,
            "query",
            lambda row: f"positive {positive_ids[row]!r}, query {queries[row]!r}",
        )

    @classmethod
    def _joined(
        cls,
        claim: NDArray[np.int64],
        anchor: NDArray[np.int64],
        positives: Sequence[str],
        negatives: Sequence[Sequence[str]],
        names: list[str],
        asker: str,
        describe: Callable[[int], str],
    ) -> RowKeys:
        """Find the foes of each row: the anchors for which one of its texts is a known positive."""
        rows = np.arange(len(claim))
        widths = np.fromiter(map(len, negatives), np.int64, count=len(claim))
        text, _ = _number((*positives, *(t for row in negatives for t in row)), text_key)
        holder = np.concatenate([rows, np.repeat(rows, widths)])

        # Join (row, text) with (text, anchor): `looked_for[starts[t]:starts[t + 1]]` are the anchors looking for t.
        wanted = np.unique(np.stack([text[: len(rows)], anchor], axis=1), axis=0)
        looked_for = wanted[:, 1]
        starts = np.searchsorted(wanted[:, 0], np.arange(text.max(initial=-1) + 2))
        sizes = starts[text + 1] - starts[text]
        at = np.arange(sizes.sum()) + np.repeat(starts[text] - (np.cumsum(sizes) - sizes), sizes)
        foe, row = looked_for[at], np.repeat(holder, sizes)
        negative = np.repeat(np.arange(len(holder)) >= len(rows), sizes)

        own = np.flatnonzero(negative & (foe == anchor[row]))
        if len(own):
            first = int(row[own[0]])
            raise ValueError(
                f"{len(own)} negatives are a known positive of their own {asker}, such as in row {first} "
                f"({describe(first)}, negatives {list(negatives[first])}); "
                "training on them would push right answers away: remove those rows or build the rows anew"
            )
        # Rows of one claim are kept apart in any case; an anchor of several claims is a foe of each of them.
        only = np.full(int(anchor.max(initial=-1)) + 1, -1, dtype=np.int64)
        only[anchor] = claim
        only[anchor[only[anchor] != claim]] = -1
        other = only[foe] != claim[row]
        held = np.unique(np.stack([row[other], foe[other]], axis=1), axis=0)
        offsets = np.searchsorted(held[:, 0], np.arange(len(claim) + 1))
        return cls(claim, anchor, held[:, 1], offsets, names)


class DistinctClaimBatchSampler(DefaultBatchSampler):  # type: ignore[misc]
    """Batches of rows that do not conflict, over all processes of a step.

    Hand it to a trainer as ``batch_sampler=functools.partial(DistinctClaimBatchSampler, keys=keys, epochs=2)``: a
    partial can be pickled, an *instance* would be ignored in silence.

    One process: every row that fits is used (``drop_last`` has no say), full batches first, late ones shrink to 2.
    Several: the batches of one step together hold ``batch_size * world_size`` rows without a conflict, each process
    gets as many as every other, a partial step is dropped. Each epoch has an order of its own and every epoch the
    same number of batches, which is what ``len`` says and what resuming a run relies on.

    A claim's rows are spread evenly over the epoch (each has a due time, the k-th of n at about k / n), so that claims
    run dry together. A claim goes first when it has as many rows left as there are batches. At most `TRIES` rows of a
    claim are tried for a batch; with more rows of one claim that all conflict, some may stay unused.

    Args:
        dataset: Only its length is used.
        batch_size: Rows a process and step.
        drop_last: Taken for the trainer's sake.
        valid_label_columns: Taken for the trainer's sake.
        generator: Taken for the trainer's sake: the order comes from ``seed`` and the epoch alone.
        seed: Seed of the order.
        keys: The keys of ``dataset``'s rows, in its order.
        epochs: How many epochs the run has; coverage and length are taken over them.
        min_coverage: Least share of the rows in [0, 1] that the run must see.
        world_size: Number of processes; by default what ``torch.distributed`` says.

    Raises:
        ValueError: If keys and dataset differ in length, if a step has room for more rows than there are claims, or if
            the coverage is too low. The last two name the claim that dominates.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        drop_last: bool = False,
        valid_label_columns: list[str] | None = None,
        generator: torch.Generator | None = None,
        seed: int = 0,
        *,
        keys: RowKeys,
        epochs: int = 1,
        min_coverage: float = 0.95,
        world_size: int | None = None,
    ) -> None:
        super().__init__(dataset, batch_size, drop_last, valid_label_columns, generator, seed)
        if len(keys) != len(dataset):
            raise ValueError(
                f"got the keys of {len(keys)} rows for a dataset of {len(dataset)}; a sampler serves the one dataset "
                "that its keys were made from (evaluation needs keys of its own)"
            )
        self.keys = keys
        self.world_size = world_size or (
            torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
        )
        self.step_size = batch_size * self.world_size
        n_claims = len(keys.claim_ids)
        if n_claims < self.step_size:
            raise ValueError(
                f"a step takes {self.step_size} rows of different claims ({batch_size} x {self.world_size} processes) "
                f"and the data has {n_claims}. {self._dominant()} Add claims or set global_batch to "
                f"{n_claims} or less."
            )
        self._plans = [self._plan(epoch) for epoch in range(epochs)]
        self._steps = self._common_steps()
        seen = np.zeros(len(keys), dtype=bool)
        for plan in self._plans:
            for batch in _resize(plan, self._steps):
                seen[batch] = True
        self.coverage = float(seen.mean())
        logger.debug(
            "%d rows of %d claims: %d steps an epoch, coverage %.3f over %d epoch(s)",
            len(keys), n_claims, self._steps, self.coverage, epochs,
        )  # fmt: skip
        if self.coverage < min_coverage:
            raise ValueError(
                f"the batches hold {self.coverage:.1%} of the {len(keys)} rows over {epochs} epoch(s), wanted "
                f"{min_coverage:.0%} or more. {self._dominant()}"
                " Thin that claim out, add claims or make the batch smaller."
            )

    def __len__(self) -> int:
        return self._steps * self.world_size

    def __iter__(self) -> Iterator[Batch]:
        plan = self._plans[self.epoch] if self.epoch < len(self._plans) else self._plan(self.epoch)
        for rows in _resize(plan, self._steps):
            for start in range(0, len(rows), self.batch_size):
                yield rows[start : start + self.batch_size]

    def _common_steps(self) -> int:
        """The number of steps that every epoch can have: the trainer counts them once."""
        if self.world_size > 1:
            return min(map(len, self._plans))
        divisible = min(sum(len(rows) // 2 for rows in plan) for plan in self._plans)
        return min(max(map(len, self._plans)), divisible)

    def _dominant(self) -> str:
        rows = np.bincount(self.keys.claim)
        most = int(rows.argmax())
        return (
            f"Claim {self.keys.claim_ids[most]!r} alone has {rows[most]} of the {len(self.keys)} rows, and a step "
            "takes one row of a claim."
        )

    def _plan(self, epoch: int) -> list[Batch]:
        """The rows of each step of an epoch, as the class says, before the number of steps is made common."""
        keys, size = self.keys, self.step_size
        several = self.world_size > 1
        rng = np.random.default_rng((self.seed, epoch))
        draw = random.Random(int(rng.integers(2**63))).random

        remaining = np.bincount(keys.claim, minlength=len(keys.claim_ids))
        shuffled = rng.permutation(len(keys))
        grouped = shuffled[np.argsort(keys.claim[shuffled], kind="stable")]
        queues = [deque(rows.tolist()) for rows in np.split(grouped, np.cumsum(remaining)[:-1])]
        claim_of, anchor = keys.claim.tolist(), keys.anchor.tolist()
        foes, offsets = keys.foes.tolist(), keys.offsets.tolist()

        totals = remaining.tolist()
        due = [(draw() / n, claim) for claim, n in enumerate(totals)]
        heapq.heapify(due)
        claims_with = np.bincount(remaining)  # claims_with[r] claims have r rows left
        left, most = len(keys), int(remaining.max())
        possible = _full_steps(remaining, size)

        batch: Batch = []
        used: set[int] = set()  # the claims of the batch
        looking: set[int] = set()  # its anchors
        held: set[int] = set()  # the anchors that its texts are positives of

        def place(claim: int) -> None:
            queue = queues[claim]
            for _ in range(0 if claim in used else min(len(queue), TRIES)):
                row = queue.popleft()
                theirs = foes[offsets[row] : offsets[row + 1]]
                if anchor[row] in held or not looking.isdisjoint(theirs):
                    queue.append(row)
                    continue
                batch.append(row)
                used.add(claim)
                looking.add(anchor[row])
                held.update(theirs)
                return

        plan: list[Batch] = []
        with tqdm(total=len(keys), desc=f"batches of epoch {epoch}", unit="row", delay=2, leave=False) as bar:
            while len(due) > 1:
                while not claims_with[most]:
                    most -= 1
                if several:
                    room = size
                else:  # leave each row of the largest claim a partner, and no row alone
                    room = max(2, min(size, left - 2 * (most - 1)))
                    if left - room == 1 and room > 2:
                        room -= 1
                pressing: list[int] = []
                batches_left = possible - len(plan) if several else -(-left // size)
                if most >= batches_left:
                    late = np.flatnonzero(remaining >= batches_left)
                    pressing = late[np.lexsort((rng.random(len(late)), -remaining[late]))].tolist()

                popped = []
                for claim in pressing:
                    if len(batch) == room:
                        break
                    place(claim)
                while due and len(batch) < room:
                    popped.append(heapq.heappop(due)[1])
                    place(popped[-1])

                for row in batch:
                    claim = claim_of[row]
                    claims_with[remaining[claim]] -= 1
                    remaining[claim] -= 1
                    claims_with[remaining[claim]] += 1
                left -= len(batch)
                bar.update(len(batch))
                for claim in popped:
                    if queues[claim]:
                        heapq.heappush(due, ((totals[claim] - len(queues[claim]) + draw()) / totals[claim], claim))
                if len(batch) == room or (len(batch) > 1 and not several):
                    plan.append(batch.copy())
                elif several:
                    break
                for state in (batch, used, looking, held):
                    state.clear()
        return plan


def _full_steps(claim_sizes: NDArray[np.int64], size: int) -> int:
    """How many steps of ``size`` different claims there can be: the largest g with sum(min(n, g)) >= g * size."""
    low, high = 0, int(claim_sizes.sum()) // size
    while low < high:
        g = (low + high + 1) // 2
        low, high = (g, high) if np.minimum(claim_sizes, g).sum() >= g * size else (low, g - 1)
    return low


def _resize(plan: list[Batch], steps: int) -> list[Batch]:
    """Give a plan ``steps`` batches: halve the largest while there are too few, leave out the smallest if too many."""
    if len(plan) > steps:
        largest = sorted(range(len(plan)), key=lambda i: -len(plan[i]))[:steps]
        return [plan[i] for i in sorted(largest)]
    plan = list(plan)
    while len(plan) < steps:
        i = max(range(len(plan)), key=lambda i: len(plan[i]))
        half = len(plan[i]) // 4 * 2  # even, so that no row is lost to a batch of one
        plan[i : i + 1] = [plan[i][:half], plan[i][half:]]
    return plan


def _number(values: Iterable[str], key: Callable[[str], str] = str) -> tuple[NDArray[np.int64], list[str]]:
    """Number the values by their keys in order of appearance: the numbers, and a key for each number."""
    numbers: dict[str, int] = {}
    seen: dict[str, int] = {}  # each distinct string is normalised once
    out = []
    for value in values:
        number = seen.get(value)
        if number is None:
            number = seen[value] = numbers.setdefault(key(value), len(numbers))
        out.append(number)
    return np.array(out, dtype=np.int64), list(numbers)


def _names(claim: NDArray[np.int64], ids: NDArray[np.int64], id_names: Sequence[str]) -> list[str]:
    """One id for each claim, for messages."""
    names = [""] * (int(claim.max(initial=-1)) + 1)
    for code, name in zip(claim.tolist(), ids.tolist(), strict=True):
        names[code] = names[code] or id_names[name]
    return names


def _merge(ids: NDArray[np.int64], texts: NDArray[np.int64]) -> NDArray[np.int64]:
    """One number for the rows that are linked by an equal id or an equal text, directly or through other rows."""
    parent = list(range(int(ids.max(initial=-1)) + 1))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = i = parent[parent[i]]
        return i

    first: dict[int, int] = {}
    for i, text in np.unique(np.stack([ids, texts], axis=1), axis=0).tolist():
        parent[root(i)] = root(first.setdefault(text, i))
    roots = np.array([root(i) for i in range(len(parent))], dtype=np.int64)
    return np.unique(roots[ids], return_inverse=True)[1].reshape(-1)
