"""What a language model was asked, and what it cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass


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
