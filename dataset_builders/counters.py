"""What a language model was asked, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class Counters:
    """What was asked since the model was made. Tokens, seconds and cost are of ``calls`` alone: cached ones are free.

    The sum of both costs is what a whole set of answers cost, in however many runs they were asked for.

    Attributes:
        calls: Answers that the endpoint gave, empty ones too.
        cached: Answers from the cache.
        retries: Attempts after the first one of a request.
        failed: Requests given up.
        seconds: Summed over requests, which overlap.
        cost: In the currency of the price; None without a price.
        cached_prompt_tokens: Of the answers from the cache that an earlier run, or another process, had asked for;
            each answer once.
        cached_completion_tokens: The same.
        cached_cost: Of these tokens, at the price of now; None without a price.
    """

    calls: int = 0
    cached: int = 0
    retries: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    cost: float | None = None
    cached_prompt_tokens: int = 0
    cached_completion_tokens: int = 0
    cached_cost: float | None = None

    def as_dict(self) -> dict[str, int | float | None]:
        """The counters by name, ready for JSON."""
        return asdict(self)


def paid(counters: Mapping[str, Any]) -> str:
    """A line for people: what a run asked and paid for, and, where it found answers of earlier ones, what all cost."""
    c = counters
    prompt, answer = c["cached_prompt_tokens"], c["cached_completion_tokens"]
    line = (
        f"{c['calls']:,} calls ({c['cached']:,} from the cache, {c['retries']:,} retries, {c['failed']:,} "
        f"failed), {_spent(c['prompt_tokens'], c['completion_tokens'], c['cost'])}"
    )
    if not prompt + answer:
        return line
    cost = None if c["cost"] is None else c["cost"] + c["cached_cost"]
    whole = _spent(prompt + c["prompt_tokens"], answer + c["completion_tokens"], cost)
    return f"{line}; with the answers of earlier runs {whole}"


def _spent(prompt: int, answer: int, cost: float | None) -> str:
    return f"{prompt:,} + {answer:,} tokens" + ("" if cost is None else f", ${cost:.4f}")
