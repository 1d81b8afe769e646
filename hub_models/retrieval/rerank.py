"""Reranking: one interface for every policy (O 3.4).

A reranker takes a query and its candidates in first-stage order and gives back a permutation of them, with what it
cost. It moves candidates and adds none: recall at the depth of the pool stays what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from typing import Protocol, TypeVar

from tqdm import tqdm

from dataset_builders.generate import Reply, Request
from hub_models.retrieval.replies import OUTCOMES, Outcome

Ask = Callable[[Request], Reply]
"""A language model: `dataset_builders.generate.LanguageModel.ask`, which keeps every answer, so that none is paid for
twice."""

T = TypeVar("T")

DEPTH = 100
"""Candidates that are reranked (O 3.4, S 4.1)."""

LARGEST_FALLBACK_SHARE = 0.1
"""A run whose replies are useless more often than this measures the first stage and calls it a reranker: it fails."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What some reranking cost.

    Attributes:
        calls: Requests to a language model, those included that the cache answered.
        prompt_tokens, completion_tokens: As the endpoint counted them.
        seconds: Spent by the model, one call after the other.
        parsed, repaired, fallback: How many replies were read in which way (`hub_models.retrieval.replies`).
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    parsed: int = 0
    repaired: int = 0
    fallback: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    @classmethod
    def of(cls, reply: Reply, outcome: Outcome) -> Cost:
        """One call's."""
        read = {name: int(name == outcome) for name in OUTCOMES}
        return cls(1, reply.prompt_tokens, reply.completion_tokens, reply.seconds, **read)

    @property
    def fallback_share(self) -> float:
        """Useless replies among all, in [0, 1]; 0 without a call."""
        return self.fallback / self.calls if self.calls else 0.0


@dataclass(frozen=True, slots=True)
class Reranked:
    """A permutation of the candidates, best first, and what it cost."""

    order: list[int]
    cost: Cost = field(default_factory=Cost)


class Reranker(Protocol):
    """Puts candidates into another order."""

    def __call__(self, query: str, candidates: Sequence[str]) -> Reranked:
        """Rerank.

        Args:
            query: What is asked.
            candidates: Texts in first-stage order, any number.

        Returns:
            A permutation of ``range(len(candidates))``.
        """


def identity(query: str, candidates: Sequence[str]) -> Reranked:
    """Leave the first-stage order as it is."""
    return Reranked(list(range(len(candidates))))


def rerank_all(
    reranker: Reranker,
    queries: Sequence[str],
    candidates: Callable[[int], Sequence[str]],
    *,
    concurrency: int = 1,
    description: str = "rerank",
) -> list[Reranked]:
    """Rerank the candidates of many queries, several queries at once.

    Args:
        reranker: The policy.
        queries: What is asked.
        candidates: Place of a query to its candidates in first-stage order.
        concurrency: Queries at a time. A language model takes several; a local model takes one.
        description: Of the bar.

    Raises:
        GenerationError: If the endpoint gives up. Answers that were had are kept: a second run goes on from there.
        RuntimeError: If too many replies are useless.
        ValueError: If the reranker returns no permutation.
    """

    def one(i: int) -> Reranked:
        texts = candidates(i)
        found = reranker(queries[i], texts)
        if sorted(found.order) != list(range(len(texts))):
            raise ValueError(f"query {i}: got {len(found.order)} places for {len(texts)} candidates, no permutation")
        return found

    done = side_by_side(one, len(queries), concurrency, description)
    check_fallbacks([r.cost for r in done], description)
    return done


def side_by_side(one: Callable[[int], T], n: int, concurrency: int, description: str) -> list[T]:
    """``one(0)`` to ``one(n - 1)``, several at once, under a bar. The first error ends it: nothing more is begun."""
    pool = ThreadPoolExecutor(concurrency)
    try:
        return list(tqdm(pool.map(one, range(n)), desc=description, total=n, unit="query", delay=2))
    finally:
        pool.shutdown(cancel_futures=True)


def check_fallbacks(costs: Sequence[Cost], what: str) -> None:
    """Refuse a run in which too many replies were useless.

    Raises:
        RuntimeError: If their share is over `LARGEST_FALLBACK_SHARE`.
    """
    cost = sum(costs, Cost())
    if cost.fallback_share > LARGEST_FALLBACK_SHARE:
        raise RuntimeError(
            f"{what}: got {cost.fallback} of {cost.calls} replies without a usable ranking, wanted at most "
            f"{LARGEST_FALLBACK_SHARE:.0%}; look at the model's replies: too few tokens for its thoughts, refusals, "
            "or a model that does not follow the form"
        )


def mean_cost(costs: Sequence[Cost]) -> dict[str, float]:
    """Calls, tokens and seconds a query, and the replies by the way they were read, over all queries."""
    n = max(1, len(costs))
    total = sum(costs, Cost())
    per_query = ("calls", "prompt_tokens", "completion_tokens", "seconds")
    found = {f"{name}_per_query": getattr(total, name) / n for name in per_query}
    return found | {name: float(getattr(total, name)) for name in OUTCOMES}
