"""The run of the policy that development queries chose (O equation 8): ``--rerank auto``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from hub_models.evaluation.measured import Measured
from hub_models.evaluation.metrics import Float64
from hub_models.evaluation.oblique import ObliqueJudgements
from hub_models.evaluation.oblique_metrics import MAIN
from hub_models.evaluation.oblique_ranking import measure_ranking
from hub_models.evaluation.policy import choose
from hub_models.evaluation.reranking import Reranking, Searchable, Setting, rerank_order
from hub_models.evaluation.results import Strategy
from hub_models.retrieval.policies import Policy


@dataclass(frozen=True, eq=False)
class ChosenReranking:
    """Choose a policy on development queries, and apply it.

    Attributes:
        policies: What is chosen among; identity is always one of them.
        setting: How deep, and with which model.
        development: Source and task to its validation split, for data whose queries name their split. Elsewhere the
            queries marked as development are it, and the slice ``clean`` is what remains.
    """

    policies: tuple[Policy, ...]
    setting: Setting
    development: Mapping[str, ObliqueJudgements]

    strategy: ClassVar[Strategy] = "rerank"

    @property
    def params(self) -> dict[str, Any]:
        among = [policy.name for policy in self._all]
        return {"policy": "auto", "among": among, **self.setting.params(any(p.asks for p in self._all))}

    @property
    def _all(self) -> tuple[Policy, ...]:
        return tuple(dict.fromkeys([Policy("identity"), *self.policies]))

    def measure(self, judged: ObliqueJudgements, searched: Searchable) -> Measured:
        """Choose and measure; the choice stands in the diagnostics.

        Raises:
            ValueError: If there are no development queries, and as `Reranking.measure`.
        """
        marked = [i for i, query in enumerate(judged.queries) if query.development]
        if marked and len(marked) < len(judged.queries):
            ranked, _ = self.setting.first_stage.of(judged, searched)
            development, order, tied = judged.rows(marked), ranked.order[marked], ranked.tied[marked]
        elif (name := f"{judged.source} {judged.task}") in self.development:
            development = self.development[name]
            ranked, _ = self.setting.first_stage.of(development, searched)
            order, tied = ranked.order, ranked.tied
        else:
            raise ValueError(
                f"{judged.source} {judged.task}, {judged.split}: no development queries beside those that are "
                "measured; give the data a validation split, or name one policy"
            )
        values: dict[str, Float64] = {}
        by_name = {policy.of(judged.task).name: policy for policy in self._all}
        for name, policy in by_name.items():
            reranked, _ = rerank_order(development, order, policy, self.setting)
            values[name] = measure_ranking(development, reranked, tied)[MAIN]
        choice = choose(values, [q.group for q in development.queries])
        found = Reranking(by_name[choice.policy], self.setting).measure(judged, searched)
        said = choice.as_dict() | self.setting.params(by_name[choice.policy].asks)
        return replace(found, params=self.params, diagnostics={**found.diagnostics, "choice": said})
