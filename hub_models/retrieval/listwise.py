"""Listwise reranking by the task's latent attribute (O 3.4, appendix F), in one call or in a sliding window."""

from __future__ import annotations

from collections.abc import Sequence

from dataset_builders.choices import ObliqueTaskName
from dataset_builders.generate import Request
from hub_models.retrieval.replies import read_ranking
from hub_models.retrieval.rerank import Ask, Cost, Reranked
from hub_models.retrieval.rerank_prompts import listwise_messages

BEST_K: dict[ObliqueTaskName, int] = {"twitter": 20, "math": 20, "writing": 10, "congress": 50, "wildchat": 20}
"""How many candidates are shown: O's best (appendix F); WildChat is not among its tasks, its K is ours."""


def window_starts(n: int, size: int, step: int) -> list[int]:
    """Where windows over ``n`` candidates begin, from the tail upwards. The last one begins at the first candidate,
    also where the steps do not divide the list; fewer than 2 candidates need none."""
    if n < 2:
        return []
    return [*range(n - size, 0, -step), 0]


class Listwise:
    """One language-model call that ranks the first K candidates; the others keep their order behind them.

    Args:
        ask: The model.
        task: Which latent attribute the prompt names.
        shown: K, at least 2.
        sliding: Show K at a time, from the tail upwards by half a window, so that all candidates are seen.

    Raises:
        ValueError: If fewer than 2 are shown.
    """

    def __init__(self, ask: Ask, task: ObliqueTaskName, shown: int, *, sliding: bool = False) -> None:
        if shown < 2:
            raise ValueError(f"got K = {shown} candidates to rank in one call, wanted 2 or more")
        self._ask = ask
        self.task: ObliqueTaskName = task
        self.shown = shown
        self.sliding = sliding

    def __call__(self, query: str, candidates: Sequence[str]) -> Reranked:
        order = list(range(len(candidates)))
        starts = [0] if len(order) > 1 else []
        if self.sliding:
            starts = window_starts(len(order), self.shown, self.shown // 2)
        cost = Cost()
        for start in starts:
            window = order[start : start + self.shown]
            messages = listwise_messages(self.task, query, [candidates[i] for i in window])
            reply = self._ask(Request(messages))
            found = read_ranking(reply.text, len(window), truncated=reply.finish_reason == "length")
            cost += Cost.of(reply, found.outcome)
            order[start : start + self.shown] = [window[place] for place in found.places]
        return Reranked(order, cost)
