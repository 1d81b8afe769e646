"""Two baselines of O that ask a language model elsewhere: before the search, and on a pool that holds all gold.

Agents that search several times in turn (O's Multi-Hop Agent) are not among them: out of scope.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from hub_models.evaluation.diagnostics import contrast
from hub_models.evaluation.measured import Measured
from hub_models.evaluation.metrics import Int
from hub_models.evaluation.oblique import ObliqueJudgements
from hub_models.evaluation.oblique_metrics import MAIN
from hub_models.evaluation.oblique_ranking import measure_ranking, rank
from hub_models.evaluation.reranking import Searchable, Setting, asked, cost_columns, pool_ceiling, rerank_order
from hub_models.evaluation.results import Strategy
from hub_models.retrieval.policies import Policy
from hub_models.retrieval.rerank import check_fallbacks, mean_cost, side_by_side
from hub_models.retrieval.rewrite import Rewriter


@dataclass(frozen=True, eq=False)
class Rewriting:
    """Search with the queries that a language model made of the given ones: a run ``rewrite``."""

    setting: Setting

    strategy: ClassVar[Strategy] = "rewrite"

    @property
    def params(self) -> dict[str, Any]:
        return asked(self.setting.model)

    def measure(self, judged: ObliqueJudgements, searched: Searchable) -> Measured:
        """Rewrite, search and measure.

        Raises:
            GenerationError: If the endpoint gives up.
            RuntimeError: If too many replies are useless.
            ValueError: If there is no language model.
        """
        model = self.setting.model
        if model is None:
            raise ValueError("rewriting queries asks a language model; name one")
        start = time.perf_counter()
        rewriter, what = Rewriter(model.ask, judged.instruction), f"{judged.task}: rewrite"
        texts = [q.text for q in judged.queries]
        done = side_by_side(lambda i: rewriter(texts[i]), len(texts), model.concurrency, what)
        costs = [d.cost for d in done]
        check_fallbacks(costs, what)
        rewritten = [replace(q, text=d.query) for q, d in zip(judged.queries, done, strict=True)]
        ranked = rank(judged, searched.oblique_scores(replace(judged, queries=rewritten)))
        table = measure_ranking(judged, ranked.order, ranked.tied) | cost_columns(costs)
        _, plain = self.setting.first_stage.of(judged, searched)
        diagnostics = {"cost": mean_cost(costs), "against_first_stage": contrast(table, plain, MAIN)}
        return Measured(table, {"rewrite_s": time.perf_counter() - start}, self.params, None, diagnostics)


@dataclass(frozen=True, eq=False)
class OracleTournament:
    """TourRank on a pool that holds all gold documents: a run ``oracle_tournament``, the ceiling of verification.

    The pool has the usual depth. Gold documents that the first stage has not found in it take the places of its last
    ones; all stand in first-stage order, and what the first stage did not find at all comes last.
    """

    tournaments: int
    setting: Setting

    strategy: ClassVar[Strategy] = "oracle_tournament"

    @property
    def params(self) -> dict[str, Any]:
        return {"policy": f"tourrank:{self.tournaments}", **self.setting.params(True)}

    def measure(self, judged: ObliqueJudgements, searched: Searchable) -> Measured:
        """Put gold into the pool, rerank and measure.

        Raises:
            GenerationError, RuntimeError, ValueError: See `rerank_order`.
        """
        start = time.perf_counter()
        ranked, plain = self.setting.first_stage.of(judged, searched)
        pool = with_gold(judged, ranked.order, self.setting.depth)
        order, costs = rerank_order(judged, pool, Policy("tourrank", self.tournaments), self.setting)
        table = measure_ranking(judged, order, ranked.tied) | cost_columns(costs)
        diagnostics = {
            "cost": mean_cost(costs),
            "pool_ceiling": float(pool_ceiling(judged, pool, self.setting.depth).mean()),
            "against_first_stage": contrast(table, plain, MAIN),
        }
        timing = {"rerank_s": time.perf_counter() - start}
        return Measured(table, timing, self.params, self.setting.seed, diagnostics)


def with_gold(judged: ObliqueJudgements, order: Int, depth: int) -> Int:
    """Rankings whose first ``depth`` documents hold as much gold as there is room for.

    Args:
        judged: What is gold.
        order: int64[n_queries, m] document columns, best first, -1 for none.
        depth: Of the pool.

    Returns:
        int64[n_queries, m]: the pool, then the other documents as they were.
    """
    found = order.copy()
    for row, relevant in enumerate(judged.qrels["gold"]):
        ranked = order[row][order[row] >= 0].tolist()
        place = {column: i for i, column in enumerate(ranked)}
        gold = [column for column, grade in relevant.grades.items() if grade > 0]
        gold = sorted(gold, key=lambda column: (place.get(column, len(place)), column))[:depth]
        others = [column for column in ranked if column not in set(gold)]
        pool = sorted(
            [*gold, *others[: depth - len(gold)]], key=lambda column: (place.get(column, len(place)), column)
        )
        rest = others[depth - len(gold) :]
        whole = [*pool, *rest][: order.shape[1]]
        found[row, : len(whole)] = whole
    return found
