"""TourRank: tournaments in which a language model picks the better half of small groups (Chen et al. 2025; O 3.4).

A tournament has up to five stages. In each, the documents that are left are dealt into groups, the model picks some of
each group, and a pick is worth a point. The points of several tournaments are added up; what has equal points stays in
first-stage order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dataset_builders.generate import Request
from hub_models.retrieval.replies import read_picks
from hub_models.retrieval.rerank import Ask, Cost, Reranked
from hub_models.retrieval.rerank_prompts import tournament_messages

Pick = Callable[[list[int], int], Sequence[int]]
"""A group, as shown, and how many to keep, to those kept; at most as many, all of the group."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Groups of at most ``largest`` documents, of each of which ``percent`` go on, rounded up."""

    largest: int
    percent: int

    def groups(self, n: int) -> int:
        """How many groups ``n`` documents make."""
        return -(-n // self.largest)

    def kept(self, size: int) -> int:
        """How many of a group of ``size`` go on."""
        return -(-size * self.percent // 100)


STAGES = (Stage(20, 50), Stage(10, 40), Stage(20, 50), Stage(10, 50), Stage(5, 40))
"""With 100 documents: 5 groups of 20 keep 10 each, 5 of 10 keep 4, then 20 to 10, 10 to 5, 5 to 2: 13 calls. Other
numbers get groups no larger than these, so that a prompt never grows; 200 documents take 26 calls."""


def schedule(n: int) -> list[list[tuple[int, int]]]:
    """Stage by stage, each group's size and how many of it are kept: one call a group. Fewer than 2 take no call."""
    plan = []
    for stage in STAGES:
        if n < 2:
            break
        groups = strided(list(range(n)), stage.groups(n))
        plan.append([(len(group), stage.kept(len(group))) for group in groups])
        n = sum(kept for _, kept in plan[-1])
    return plan


def strided(order: Sequence[int], groups: int) -> list[list[int]]:
    """Deal documents out like cards, so that every group gets its share of the strong ones."""
    return [list(order[start::groups]) for start in range(groups)]


def tournament(n: int, pick: Pick, rng: np.random.Generator) -> list[int]:
    """Play one tournament.

    Args:
        n: How many documents, numbered in first-stage order.
        pick: Chooses from a group.
        rng: Shuffles each group before it is shown.

    Returns:
        A document's points: at how many of the at most 5 stages it was picked.
    """
    points = [0] * n
    left = list(range(n))
    for stage in schedule(n):
        groups = strided(left, len(stage))
        for group, (_, kept) in zip(groups, stage, strict=True):
            shown = [group[i] for i in rng.permutation(len(group))]
            for document in pick(shown, kept):
                points[document] += 1
        # All documents take part again, so that too few picks are made up for in first-stage order.
        left = by_points(points)[: sum(kept for _, kept in stage)]
    return points


def by_points(points: Sequence[int]) -> list[int]:
    """Documents by points, equal ones in first-stage order."""
    return sorted(range(len(points)), key=lambda document: -points[document])


class TourRank:
    """The tournaments over a language model. Each call waits for the one before: run several queries at once.

    Args:
        ask: The model.
        tournaments: Y, at least 1. The first ones of more tournaments are those of fewer: a sweep over Y pays for the
            largest alone.
        seed: Of the shuffles, with the query and the tournament's number.

    Raises:
        ValueError: If there is no tournament.
    """

    def __init__(self, ask: Ask, tournaments: int, seed: int = 0) -> None:
        if tournaments < 1:
            raise ValueError(f"got {tournaments} tournaments, wanted 1 or more")
        self._ask = ask
        self.tournaments = tournaments
        self.seed = seed

    def __call__(self, query: str, candidates: Sequence[str]) -> Reranked:
        cost = Cost()

        def pick(group: list[int], kept: int) -> list[int]:
            nonlocal cost
            messages = tournament_messages(query, [candidates[i] for i in group], kept)
            reply = self._ask(Request(messages))
            found = read_picks(reply.text, len(group), kept, truncated=reply.finish_reason == "length")
            cost += Cost.of(reply, found.outcome)
            return [group[place] for place in found.places]

        digest = int.from_bytes(hashlib.sha256(query.encode()).digest()[:8])
        generators = (np.random.default_rng([self.seed, digest, number]) for number in range(self.tournaments))
        played = [tournament(len(candidates), pick, rng) for rng in generators]
        return Reranked(by_points([sum(points) for points in zip(*played, strict=True)]), cost)
