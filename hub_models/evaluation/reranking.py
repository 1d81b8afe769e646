"""Reranked runs of oblique tasks: a policy on the first documents of the first stage, measured like any other run.

Beside the metrics stands what the policy did to each query (O table 7) and what it cost (O table 8). A run moves what
the first stage found and adds nothing: its ceiling is the best order of the same pool.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from dataset_builders.generate import LanguageModel
from hub_models.evaluation.diagnostics import contrast
from hub_models.evaluation.measured import Measured, Table
from hub_models.evaluation.metrics import Float64, Int
from hub_models.evaluation.oblique import ObliqueJudgements
from hub_models.evaluation.oblique_metrics import MAIN, values
from hub_models.evaluation.oblique_ranking import Ranked, measure_ranking, rank
from hub_models.evaluation.results import Strategy
from hub_models.evaluation.systems import Encoder, Reference
from hub_models.retrieval.policies import Policy
from hub_models.retrieval.rerank import DEPTH, Cost, mean_cost, rerank_all
from hub_models.retrieval.rerank_prompts import prompts_digest

Searchable = Encoder | Reference
"""What a first stage can be."""


@dataclass(frozen=True, eq=False)
class FirstStage:
    """The first stage's ranking of a task, found once for all that is done with it."""

    known: dict[tuple[str, str], tuple[Ranked, Table]] = field(default_factory=dict)

    def of(self, judged: ObliqueJudgements, searched: Searchable) -> tuple[Ranked, Table]:
        """The ranking that the system's first run has, and its table."""
        key = (repr(searched.info), judged.revision)
        if key not in self.known:
            ranked = rank(judged, searched.oblique_scores(judged))
            self.known[key] = ranked, measure_ranking(judged, ranked.order, ranked.tied)
        return self.known[key]


def asked(model: LanguageModel | None) -> dict[str, Any]:
    """What tells the answers of language models apart, as far as can be seen from here: for a run's params."""
    if model is None:
        return {"llm": None}
    return {"llm": model.model, "endpoint": model.host, "prompts": prompts_digest()}


@dataclass(frozen=True, eq=False)
class Setting:
    """What the reranked runs of an evaluation share.

    Attributes:
        model: The language model, for policies that ask one.
        depth: How many documents of a query are reranked.
        seed: Of the tournaments' shuffles.
        first_stage: What was found before.
    """

    model: LanguageModel | None = None
    depth: int = DEPTH
    seed: int = 0
    first_stage: FirstStage = field(default_factory=FirstStage)

    def params(self, asks: bool) -> dict[str, Any]:
        """For results.json: with a language model, also where it is and what words it was asked with."""
        return {"depth": self.depth, **asked(self.model if asks else None)}


def rerank_order(judged: ObliqueJudgements, order: Int, policy: Policy, setting: Setting) -> tuple[Int, list[Cost]]:
    """Rerank the first documents of every query.

    Args:
        judged: What is asked.
        order: int64[n_queries, depth] document columns, best first, -1 for none.
        policy: How.
        setting: How deep, and with which model.

    Returns:
        The new order, of the same documents, and what each query cost.

    Raises:
        FileNotFoundError: If there is no such cross-encoder.
        GenerationError: If the endpoint gives up.
        RuntimeError: If too many replies are useless.
        ValueError: If there is no language model and the policy asks one.
    """
    policy = policy.of(judged.task)
    reranker = policy.build(judged.task, setting.model.ask if setting.model else None, setting.seed)
    pools = [row[row >= 0][: setting.depth].tolist() for row in order]
    done = rerank_all(
        reranker,
        [q.text for q in judged.queries],
        lambda i: [judged.texts[column] for column in pools[i]],
        concurrency=setting.model.concurrency if policy.asks and setting.model else 1,
        description=f"{judged.task}: {policy.label}",
    )
    found = order.copy()
    for row, (pool, reranked) in enumerate(zip(pools, done, strict=True)):
        found[row, : len(pool)] = [pool[place] for place in reranked.order]
    return found, [r.cost for r in done]


def cost_columns(costs: Sequence[Cost]) -> Table:
    """Per-query values: calls, tokens, seconds of the model, replies by the way they were read."""
    return {f.name: np.array([getattr(cost, f.name) for cost in costs]) for f in fields(Cost)}


def pool_ceiling(judged: ObliqueJudgements, order: Int, depth: int) -> Float64:
    """NDCG@10 of the best order of the first ``depth`` documents: float64[n_queries]."""
    gold = judged.qrels["gold"]
    grades = np.zeros((len(order), min(depth, order.shape[1])), np.int64)
    for row, relevant in enumerate(gold):
        of_pool = sorted((relevant.grades.get(c, 0) for c in order[row, :depth].tolist()), reverse=True)
        grades[row, : len(of_pool)] = of_pool
    found: Float64 = values(grades, gold, (10,), (), "gold")[MAIN]
    return found


@dataclass(frozen=True, eq=False)
class Reranking:
    """One policy on one pool: a run ``rerank``."""

    policy: Policy
    setting: Setting

    strategy: ClassVar[Strategy] = "rerank"

    @property
    def params(self) -> dict[str, Any]:
        return {"policy": self.policy.label, **self.setting.params(self.policy.asks), **self.policy.pin}

    def measure(self, judged: ObliqueJudgements, searched: Searchable) -> Measured:
        """Search, rerank and measure.

        Raises:
            GenerationError, RuntimeError, FileNotFoundError, ValueError: See `rerank_order`.
        """
        start = time.perf_counter()
        ranked, table = self.setting.first_stage.of(judged, searched)
        order, costs = rerank_order(judged, ranked.order, self.policy, self.setting)
        reranked = measure_ranking(judged, order, ranked.tied) | cost_columns(costs)
        diagnostics = {
            "policy": self.policy.of(judged.task).label,
            "cross_encoder_revision": self.policy.revision,
            "cost": mean_cost(costs),
            "pool_ceiling": float(pool_ceiling(judged, ranked.order, self.setting.depth).mean()),
            "against_first_stage": contrast(reranked, table, MAIN),
        }
        timing = {"rerank_s": time.perf_counter() - start}
        return Measured(reranked, timing, self.params, self.setting.seed, diagnostics)
