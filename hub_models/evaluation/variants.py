"""Further ways of searching a task: what fusion, levers and rerankers have in common."""

from __future__ import annotations

from typing import Any, Protocol

from hub_models.evaluation.measured import Measured
from hub_models.evaluation.oblique import ObliqueJudgements
from hub_models.evaluation.results import Strategy
from hub_models.evaluation.stance import Judgements
from hub_models.evaluation.systems import Encoder, Reference


class Variant(Protocol):
    """One run that is added to those which a stance task has in any case.

    Attributes:
        strategy: What kind of search it is.
        params: How it is set. No two variants of an evaluation share strategy and params.
    """

    @property
    def strategy(self) -> Strategy: ...

    @property
    def params(self) -> dict[str, Any]: ...

    @property
    def needs(self) -> str:
        """What an encoder must have for it, and what to do about it."""
        ...

    def takes(self, encoder: Encoder) -> bool:
        """Whether it can be measured with this encoder, which may be the baseline."""
        ...

    def measure(self, judged: Judgements, encoder: Encoder) -> Measured:
        """Search. The queries are those of `stance.queries_of` with the encoder's template, as in its dense run, or
        some of them; the table is one of `stance_ranking.per_query`, to which the ceilings are added by the caller.
        """
        ...


class ObliqueVariant(Protocol):
    """One run that is added to those which an oblique task has in any case. The baseline is measured without it."""

    @property
    def strategy(self) -> Strategy: ...

    @property
    def params(self) -> dict[str, Any]: ...

    def measure(self, judged: ObliqueJudgements, searched: Encoder | Reference) -> Measured:
        """Search. The queries are those of the task's first run, with which it is compared."""
        ...
