"""The named endpoints, for gradio_client and for MCP."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar

import gradio as gr

from slant_space.engine import Engine, as_oblique_rows, as_rows
from slant_space.questions import OWN, PAIRS, RESULTS, ObliqueQuestion, StanceQuestion

P = ParamSpec("P")
R = TypeVar("R")


def build(engine: Engine) -> None:
    """Add the endpoints to the page that is being built."""

    @_refusing
    def stance_search(
        claim: str,
        stance: Literal["support", "attack"] = "attack",
        k: int = 10,
        weight: float = 0.1,
        auto: bool = False,
        model: Literal["tuned", "base"] = "tuned",
        instruction: str = "",
    ) -> list[dict[str, Any]]:
        """Find arguments that support or attack a claim.

        Args:
            claim: The claim, such as "Schools should require uniforms."
            stance: Which side the arguments should take: support or attack.
            k: How many arguments, from 3 to 20.
            weight: Weight of shared words (BM25) beside the meaning, from 0 to 1.
            auto: Let the model choose that weight, where it can.
            model: The tuned encoder, or its base.
            instruction: Your own words for the stance, such as "Find statements rejecting"; empty for the usual ones.

        Returns:
            Arguments by rank, with their scores, rank in the other model and label where there is one.
        """
        _known(stance, "support", "attack")
        found = engine.stance(
            engine.dial, _question(claim, k=k, weight=weight, auto=auto, model=model, instruction=instruction)
        )
        return [row for row in as_rows(found) if row["stance"] == stance]

    @_refusing
    def oblique_search(
        query: str,
        task: Literal["twitter", "math", "writing", "congress", "wildchat"] = "twitter",
        k: int = 10,
        system: Literal["tuned", "base", "bm25"] = "tuned",
    ) -> list[dict[str, Any]]:
        """Find documents by a property that none of them states.

        Args:
            query: A description, an example or a hazy recollection of what to find.
            task: twitter, math, writing, congress or wildchat.
            k: How many documents, from 3 to 20.
            system: tuned, base, or bm25 for keywords alone.

        Returns:
            Documents by rank, with the share of the query's words that each has.
        """
        _known(task, "twitter", "math", "writing", "congress", "wildchat")
        _known(system, "tuned", "base", "bm25")
        _a(str, query, "query", "a text")
        found = engine.oblique(ObliqueQuestion.of({"query": query, "task": task, "k": _count(k)}))
        wanted = "model" if "model" in found.columns and system == "tuned" else system
        if wanted not in found.columns:
            raise ValueError(f"got the system {system!r}, but this model has no adapter, so no base; ask for 'tuned'")
        return [row for row in as_oblique_rows(found) if row["system"] == wanted]

    @_refusing
    def explain(
        claim: str,
        document: str,
        stance: Literal["support", "attack"] = "attack",
        model: Literal["tuned", "base"] = "tuned",
        instruction: str = "",
    ) -> dict[str, Any]:
        """Say which words of a query draw a document near, and which push it away.

        Args:
            claim: The claim.
            document: Any argument.
            stance: support or attack.
            model: The tuned encoder, or its base.
            instruction: Your own words for the stance; empty for the usual ones.

        Returns:
            The cosine, each word with what its deletion adds to it, and RIS, RCS and DI.
        """
        _known(stance, "support", "attack")
        found = engine.explain(engine.dial, _question(claim, model=model, instruction=instruction), stance, document)
        return {
            "cosine": found.cosine,
            "words": [{"part": part, "word": word, "delta": delta} for part, word, delta in found.words],
            "ris": found.reliance.ris,
            "rcs": found.reliance.rcs,
            "di": found.reliance.di,
        }

    for endpoint in (stance_search, oblique_search, explain):
        gr.api(endpoint, api_name=endpoint.__name__, concurrency_id="search", concurrency_limit=2)


def _question(
    claim: str, *, model: str, instruction: str, k: int = 10, weight: float = 0.1, auto: bool = False
) -> StanceQuestion:
    _a(str, claim, "claim", "a text")
    _a(str, instruction, "instruction", "a text")
    _a(bool, auto, "auto", "true or false")
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 <= weight <= 1:
        raise ValueError(f"got the weight {weight!r}, wanted a number from 0 to 1")
    _known(model, "tuned", "base")
    words = {"instruction": OWN, "own_support": instruction, "own_attack": instruction} if instruction else {}
    return StanceQuestion.of(
        {"claim": claim, "k": _count(k), "weight": weight, "auto": auto, "model": model,
         "instruction": next(iter(PAIRS)), **words}
    )  # fmt: skip


def _count(k: int) -> int:
    low, high = RESULTS
    if type(k) is not int or not low <= k <= high:
        raise ValueError(f"got k = {k!r}, wanted a whole number from {low} to {high}")
    return k


def _a(kind: type, value: object, name: str, wanted: str) -> None:
    """Refuse another type: a client may send any, and a list would be searched for as its brackets."""
    if not isinstance(value, kind):
        raise ValueError(f"{name}: got {type(value).__name__}, wanted {wanted}")


def _known(value: str, *known: str) -> str:
    if value not in known:
        raise ValueError(f"got {value!r}, wanted one of {list(known)}")
    return value


def _refusing(endpoint: Callable[P, R]) -> Callable[P, R]:
    """What is asked wrongly is said to the caller in words; anything else is no business of theirs."""

    @wraps(endpoint)
    def answer(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return endpoint(*args, **kwargs)
        except ValueError as error:
            raise gr.Error(str(error), print_exception=False) from None

    return answer
