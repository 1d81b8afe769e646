"""The one language-model client: schema, retries, rate limit, cache, counters.

Any OpenAI-compatible endpoint (vLLM, TGI, llama.cpp, ``transformers serve``, a company's own) by its address, or a
model at a provider of the Hub. Answers are kept in a cache file, so that a killed run asks only what is missing.
"""

from __future__ import annotations

import hashlib
import json
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, stop_before_delay
from tenacity.nap import sleep_using_event
from tenacity.wait import wait_random_exponential
from tqdm import tqdm

from dataset_builders.chat import Chat, Completion, GenerationError, Message
from dataset_builders.counters import Counters
from dataset_builders.endpoint_client import response_format
from dataset_builders.pace import Pace
from dataset_builders.reply_cache import FORMAT, ReplyCache, is_empty
from dataset_builders.text import check_text

__all__ = ["Counters", "GenerationError", "LanguageModel", "Message", "Reply", "Request"]

log = logging.getLogger(__name__)

FIRST_WAIT: Final = 1.0
"""Seconds; the wait before attempt n + 1 is drawn from [0, FIRST_WAIT · 2^(n - 1)], at most `LONGEST_WAIT`."""
LONGEST_WAIT: Final = 60.0
LONGEST_RETRY: Final = 900.0
"""Seconds after which a request is given up, whatever the endpoint asks to wait."""


@dataclass(frozen=True)
class Request:
    """What is asked: chat messages of ``role`` and ``content``, and a JSON schema that the answer must follow.

    Raises:
        ValueError: If there is no message, or one is no pair of texts.
    """

    messages: tuple[Message, ...]
    schema: dict[str, Any] | None = None
    seed: int | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        if not self.messages:
            raise ValueError("a request needs at least one message")
        for i, message in enumerate(self.messages):
            if set(message) != {"role", "content"}:
                raise ValueError(f"message {i}: got the keys {sorted(message)}, wanted role and content")
            check_text(message["content"], f"message {i}")


@dataclass(frozen=True)
class Reply:
    """An answer. Tokens as the endpoint counts them; ``seconds`` is what it took when it was asked."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    finish_reason: str
    cached: bool
    seconds: float


class LanguageModel:
    """A language model behind an endpoint. Thread-safe.

    A model is known to the cache by its name alone: two models that are served under one name need two cache files.

    Args:
        model: Name that the endpoint knows, or Hub id.
        base_url: Address of an OpenAI-compatible endpoint, such as ``http://localhost:8000/v1``. The key, if one is
            needed, is read from OPENAI_API_KEY (HF_TOKEN for addresses of the Hub).
        provider: A provider of the Hub in place of an address; without both the Hub chooses one. Key: HF_TOKEN.
        cache: SQLite file of the answers, made if absent; None keeps them for the life of the object.
        temperature: At least 0.
        max_tokens: Longest answer in tokens, where a request does not say its own.
        concurrency: Requests under way at once.
        requests_per_minute: Upper limit, evenly spaced, retries included.
        timeout: Seconds without a sign of the endpoint before an attempt counts as failed; a whole answer may take
            `chat.LONGEST_ANSWER` times as long.
        attempts: Tries a request, the first one included.
        price: Dollars per million prompt tokens and per million completion tokens.

    Attributes:
        host: Host and port of the address, or the provider: whom the answers are from.

    Raises:
        ValueError: If an argument is out of range, or the cache is of another format or no cache.
        OSError: If the cache cannot be opened.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        provider: str | None = None,
        cache: Path | None = None,
        temperature: float = 0.0,
        max_tokens: int = 1024,
        concurrency: int = 8,
        requests_per_minute: float | None = None,
        timeout: float = 120.0,
        attempts: int = 6,
        price: tuple[float, float] | None = None,
    ) -> None:
        if not model.strip() or not model.isprintable() or model.startswith(("http://", "https://")):
            raise ValueError(f"got the model {model!r}, wanted its name; an address goes into base_url")
        if base_url is not None and provider is not None:
            raise ValueError(f"got the address {base_url} and the provider {provider!r}; give one of them")
        if not 0 <= temperature < float("inf"):
            raise ValueError(f"temperature: got {temperature}, wanted 0 or more")
        for name, value in {"max_tokens": max_tokens, "concurrency": concurrency, "attempts": attempts}.items():
            if value < 1:
                raise ValueError(f"{name}: got {value}, wanted at least 1")
        for name, seconds in {"timeout": timeout, "requests_per_minute": requests_per_minute}.items():
            if seconds is not None and not 0 < seconds < float("inf"):
                raise ValueError(f"{name}: got {seconds}, wanted more than 0")
        if price is not None and not all(0 <= p < float("inf") for p in price):
            raise ValueError(f"price: got {price}, wanted two amounts of 0 or more")
        self.model = model
        self.temperature = temperature
        self.max_tokens = max_tokens
        self.concurrency = concurrency
        self.attempts = attempts
        self.price = price
        self.counters = Counters(cost=0.0 if price else None, cached_cost=0.0 if price else None)
        self._counted: set[str] = set()
        self._chat = Chat(model, base_url=base_url, provider=provider, timeout=timeout)
        self._cache = ReplyCache(cache)
        self.host = self._chat.host
        self._pace = Pace(requests_per_minute)
        self._slots = threading.Semaphore(concurrency)
        self._lock = threading.Lock()
        self._hopeless: GenerationError | None = None

    def ask(self, request: Request) -> Reply:
        """The answer to a request: from the cache, else from the endpoint, stored before it is returned.

        Equal requests, in any thread or process with the same cache, are asked once.

        Raises:
            GenerationError: If the endpoint refuses, does not answer in ``attempts`` tries, or answers without a
                text; an empty answer that was cut off for its length is one.
            OSError: If the cache cannot be read or written.
        """
        return self._ask(request, threading.Event())

    def _ask(self, request: Request, stop: threading.Event) -> Reply:
        asked = self._canonical(request)
        key = hashlib.sha256(asked.encode()).hexdigest()
        found = self._cache.get(key)
        if found is None:
            with self._cache.turn(key):
                found = self._cache.get(key)
                if found is None:
                    return self._ask_endpoint(request, key, asked, stop)
        completion, seconds = found
        with self._lock:
            c = self.counters
            c.cached += 1
            if key not in self._counted:
                self._counted.add(key)
                c.cached_prompt_tokens += completion.prompt_tokens
                c.cached_completion_tokens += completion.completion_tokens
                if self.price is not None:
                    c.cached_cost = (c.cached_cost or 0.0) + self._dollars(completion)
        return _reply(completion, cached=True, seconds=seconds)

    def ask_all(
        self, requests: Sequence[Request], *, description: str
    ) -> Iterator[tuple[int, Reply | GenerationError]]:
        """Ask many, at most ``concurrency`` at once, under a bar.

        Yields:
            Index of the request and its answer, or why there is none; as they finish, in no fixed order. Whoever
            stops early waits for what is under way: it is stored.

        Raises:
            OSError: If the cache cannot be read or written.
        """
        stop = threading.Event()
        with (
            ThreadPoolExecutor(self.concurrency) as pool,
            tqdm(total=len(requests), desc=description, unit="request", delay=2) as bar,
        ):
            futures = {pool.submit(self._try, request, stop): i for i, request in enumerate(requests)}
            try:
                for future in as_completed(futures):
                    bar.set_postfix(cached=self.counters.cached, failed=self.counters.failed, refresh=False)
                    bar.update()
                    yield futures[future], future.result()
            finally:
                stop.set()
                pool.shutdown(wait=True, cancel_futures=True)

    def close(self) -> None:
        """Close the cache file. The counters can still be read."""
        self._cache.close()

    def _try(self, request: Request, stop: threading.Event) -> Reply | GenerationError:
        try:
            return self._ask(request, stop)
        except GenerationError as error:
            return error

    def _parameters(self, request: Request) -> dict[str, Any]:
        parameters: dict[str, Any] = {
            "temperature": self.temperature,
            "max_tokens": self.max_tokens if request.max_tokens is None else request.max_tokens,
            "seed": request.seed,
        }
        if request.schema is not None:
            parameters["response_format"] = response_format(request.schema)
        return parameters

    def _canonical(self, request: Request) -> str:
        """Everything that the answer hangs on, as JSON that is equal for equal requests."""
        asked = {"format": FORMAT, "model": self.model, "messages": request.messages, **self._parameters(request)}
        return json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)

    def _ask_endpoint(self, request: Request, key: str, asked: str, stop: threading.Event) -> Reply:
        retrying = Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, GenerationError) and error.again),
            stop=stop_after_attempt(self.attempts) | stop_before_delay(LONGEST_RETRY),
            wait=_wait,
            sleep=_sleep_until(stop),
            before_sleep=self._before_sleep,
            reraise=True,
        )
        try:
            completion, seconds = retrying(self._once, request, stop)
        except GenerationError as error:
            with self._lock:
                self.counters.failed += 1
                if error.everywhere:
                    self._hopeless = error
            tries = retrying.statistics.get("attempt_number", 1)
            if error.again:
                raise GenerationError(
                    f"{error}; gave up after {tries} of {self.attempts} tries",
                    status=error.status,
                    retry_after=error.retry_after,
                ) from None
            raise
        empty = is_empty(completion)
        if not empty:
            self._cache.put(key, asked, completion, seconds)
        with self._lock:
            c = self.counters
            self._counted.add(key)
            c.calls += 1
            c.failed += empty
            c.prompt_tokens += completion.prompt_tokens
            c.completion_tokens += completion.completion_tokens
            c.seconds += seconds
            if self.price is not None:
                c.cost = (c.cost or 0.0) + self._dollars(completion)
        if empty:
            raise GenerationError(
                f"{self._chat.address}, model {self.model!r}: the answer holds no text (it ends for "
                f"{completion.finish_reason!r}); not kept: run this again to ask for it once more, and if it stays "
                "so, choose another model or switch its tools off"
            )
        return _reply(completion, cached=False, seconds=seconds)

    def _dollars(self, completion: Completion) -> float:
        prompt, answer = self.price or (0.0, 0.0)
        return (completion.prompt_tokens * prompt + completion.completion_tokens * answer) / 1e6

    def _once(self, request: Request, stop: threading.Event) -> tuple[Completion, float]:
        # No key, no credit, nobody there: thousands of requests would all be refused for the same reason.
        if self._hopeless is not None:
            raise self._hopeless
        with self._slots:
            self._pace.wait(_sleep_until(stop))
            if stop.is_set():
                raise GenerationError("not asked: the run was stopped")
            start = time.monotonic()
            completion = self._chat.complete(list(request.messages), **self._parameters(request))
            return completion, time.monotonic() - start

    def _before_sleep(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        with self._lock:
            self.counters.retries += 1
        if isinstance(error, GenerationError) and error.retry_after:
            self._pace.hold(error.retry_after)
        log.debug("attempt %d: %s", state.attempt_number, error)


_backoff = wait_random_exponential(multiplier=FIRST_WAIT, max=LONGEST_WAIT)


def _sleep_until(stop: threading.Event) -> Callable[[float], None]:
    """A sleep that ends early when the run is stopped."""
    return sleep_using_event(stop)


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, GenerationError) and error.retry_after is not None:
        # What was asked for, and a little more: many threads were told the same.
        return error.retry_after * random.uniform(1.0, 1.1)
    return float(_backoff(state))


def _reply(completion: Completion, *, cached: bool, seconds: float) -> Reply:
    return Reply(
        text=completion.text,
        prompt_tokens=completion.prompt_tokens,
        completion_tokens=completion.completion_tokens,
        finish_reason=completion.finish_reason,
        cached=cached,
        seconds=seconds,
    )
