"""One chat completion over HTTP, and one error type for all that can go wrong with it."""

from __future__ import annotations

import ipaddress
import json
import logging
import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from huggingface_hub import InferenceClient, constants, get_token
from huggingface_hub.errors import HfHubHTTPError, InferenceTimeoutError

from dataset_builders.endpoint_client import EndpointClient, TooLargeError, TooLongError
from dataset_builders.retry_after import retry_after
from dataset_builders.tokens import SECRET

log = logging.getLogger(__name__)

Message = dict[str, str]

LONGEST_ANSWER: Final = 5.0
"""Times the timeout that one attempt may take in all: an endpoint that sends a byte now and then is given up too."""
MAX_TOKENS: Final = 2**53
"""A count of tokens lies below: JSON's numbers are exact up to here."""

_AGAIN: Final = {408, 409, 425, 429}
_ADVICE: Final = {
    401: "set HF_TOKEN (a provider of the Hub) or OPENAI_API_KEY (any other endpoint) to a valid key",
    402: "the account behind the key has no credit left",
    403: "the key may not use this model: ask for access, or choose another model",
    404: "check the address and the model's name",
    413: "the request is too long: send fewer texts at once",
    422: "the endpoint does not take one of the parameters",
    429: "lower requests_per_minute or concurrency",
}
_SECRET = re.compile(SECRET)
_NO_KEY: Final = "none"


class GenerationError(RuntimeError):
    """A language model gave no answer. The message says which address, what came back and what to do; never a token.

    Attributes:
        status: HTTP status, or None where nothing came back.
        again: Whether asking again may help.
        retry_after: Seconds that the endpoint asked to wait, or None.
        everywhere: Whether every other request must fail in the same way (no key, no credit, nobody there).
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        again: bool = False,
        retry_after: float | None = None,
        everywhere: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.again = again
        self.retry_after = retry_after
        self.everywhere = everywhere


@dataclass(frozen=True)
class Completion:
    """What came back: text, tokens as the endpoint counts them (0 where it does not), and why the text ends."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    finish_reason: str


class Chat:
    """A model behind an OpenAI-compatible ``base_url``, or behind a provider of the Hub. Thread-safe; asks once.

    The key is read from the environment: for the Hub and its endpoints HF_TOKEN (or the stored login), for any other
    address OPENAI_API_KEY. A Hub token is never sent elsewhere.

    Raises:
        ValueError: If ``base_url`` is no http address, or holds a key.
    """

    def __init__(self, model: str, *, base_url: str | None, provider: str | None, timeout: float) -> None:
        self.model = model
        self.address = base_url or f"{provider or 'auto'} (provider of the Hub)"
        self.host = self.address
        self._longest = LONGEST_ANSWER * timeout
        self._direct = base_url is not None
        self._private = False
        self._answered = False
        self._client: InferenceClient
        if base_url is None:
            key = os.environ.get("OPENAI_API_KEY") if provider == "openai" else None
            self._client = InferenceClient(provider=provider, api_key=key, timeout=timeout)  # type: ignore[arg-type]
        else:
            host = _host(base_url)
            self.host = urlsplit(base_url).netloc
            key = get_token() if _of_the_hub(host) else os.environ.get("OPENAI_API_KEY")
            self._private = _private(host)
            self._client = EndpointClient(
                base_url, key=key or _NO_KEY, timeout=timeout, longest=self._longest, proxies=not self._private
            )
        self._secrets = [s for s in (key, get_token(), os.environ.get("OPENAI_API_KEY")) if s and s != _NO_KEY]

    def complete(self, messages: list[Message], **parameters: Any) -> Completion:
        """Ask once.

        Raises:
            GenerationError: If no answer came back, or something that is none; or the address lies outside this
                machine and its private network while HF_HUB_OFFLINE is set.
        """
        if constants.is_offline_mode() and not self._private:
            raise GenerationError(
                f"{self.address}, model {self.model!r}: not asked, for HF_HUB_OFFLINE is set; unset it, or ask a "
                "local endpoint",
                everywhere=True,
            )
        try:
            completion = _within(
                self._longest,
                lambda: _read(self._client.chat_completion(list(messages), model=self.model, **parameters)),
            )
        except Exception as error:
            # Without its cause: that one may quote a key, and nobody has looked through it.
            raise self._error(error) from None
        self._answered = True
        return completion

    def _error(self, error: Exception) -> GenerationError:
        if isinstance(error, (HfHubHTTPError, httpx2.HTTPStatusError)):
            return self._refused(error.response)
        what = self._clean(str(error)) or type(error).__name__
        where = f"{self.address}, model {self.model!r}"
        if isinstance(error, TooLongError):
            advice = "the endpoint sends too slowly: look at its log, or raise the timeout"
            return GenerationError(f"{where}: no whole answer within {self._longest:g} s; {advice}", again=True)
        if isinstance(error, TooLargeError):
            advice = "does the address speak OpenAI's protocol?"
            return GenerationError(f"{where}: {what}; {advice}")
        if isinstance(error, (InferenceTimeoutError, httpx2.TimeoutException)):
            advice = "the endpoint is overloaded or the timeout too short: raise it or lower the concurrency"
            return GenerationError(f"{where}: no answer in time; {advice}", again=True)
        if isinstance(error, httpx2.ConnectError):
            # Before the first answer it is a wrong address; later it is a server that may come back.
            advice = "start the server, or correct the address"
            return GenerationError(
                f"{where}: cannot connect ({what}); {advice}", again=self._answered, everywhere=not self._answered
            )
        if isinstance(error, httpx2.TransportError):
            return GenerationError(f"{where}: the connection broke ({what}); look at the server's log", again=True)
        # A provider is looked up first, which fails in its own ways; with an endpoint only the answer can be misread.
        if self._direct or isinstance(error, (_NoCompletionError, json.JSONDecodeError, UnicodeDecodeError)):
            return GenerationError(
                f"{where}: the answer is no chat completion ({what}); does the address speak OpenAI's protocol?",
                again=True,
            )
        return GenerationError(f"{where}: {type(error).__name__}: {what}", everywhere=True)

    def _refused(self, response: httpx2.Response) -> GenerationError:
        status = response.status_code
        try:
            body = self._clean(response.text)
        except httpx2.ResponseNotRead:
            body = ""
        wait = retry_after(response.headers)
        advice = _ADVICE.get(status, "the endpoint's log says more")
        if 300 <= status < 400:
            target = self._clean(response.headers.get("location", "").partition("?")[0])
            advice = f"it redirects to {target or 'nowhere'}: give the address that answers itself"
        if wait:
            advice = f"it asks to wait {wait:.0f} s; {advice}"
        return GenerationError(
            f"{self.address}, model {self.model!r}: status {status}{': ' + body if body else ''}; {advice}",
            status=status,
            again=status in _AGAIN or status >= 500,
            retry_after=wait,
            everywhere=status in (401, 402, 404) or 300 <= status < 400,
        )

    def _clean(self, text: str) -> str:
        """A short line that is safe to log: no keys, no control characters."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        text = _SECRET.sub("***", text)
        text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        return text if len(text) <= 300 else f"{text[:300]}…"


def _within(seconds: float, ask: Callable[[], Completion]) -> Completion:
    """What ``ask`` returns or raises, unless it takes longer: the client bounds each read, not their sum.

    Raises:
        TooLongError: If it does. Its thread then ends with the connection, or with the program.
    """
    outcome: list[Completion | Exception] = []

    def run() -> None:
        try:
            outcome.append(ask())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run, name="chat completion", daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise TooLongError
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]


class _NoCompletionError(Exception):
    pass


def _read(output: Any) -> Completion:
    choices = getattr(output, "choices", None)
    if not isinstance(choices, list) or not choices:
        raise _NoCompletionError("it has no choices")
    message = getattr(choices[0], "message", None)
    text = getattr(message, "content", None)
    if not isinstance(message, dict) or not (text is None or isinstance(text, str)):
        raise _NoCompletionError("its message has no text")
    usage = getattr(output, "usage", None)
    return Completion(
        # A half of a surrogate pair is no character: nothing after this could store it.
        text=(text or "").encode("utf-8", "replace").decode(),
        prompt_tokens=_count(usage, "prompt_tokens"),
        completion_tokens=_count(usage, "completion_tokens"),
        finish_reason=str(choices[0].finish_reason or "stop").encode("utf-8", "replace").decode(),
    )


def _count(usage: Any, name: str) -> int:
    """A count of tokens, 0 where there is none or it is no count."""
    value = getattr(usage, name, None)
    if type(value) is int and 0 <= value < MAX_TOKENS:
        return value
    if value is not None:
        log.debug("%s: got %.80r, wanted a whole number in [0, 2^53); counted as 0", name, value)
    return 0


def _host(base_url: str) -> str:
    try:
        parts = urlsplit(base_url)
        _ = parts.port, httpx2.URL(base_url)
        fits = base_url.isprintable() and " " not in base_url
    except (ValueError, httpx2.InvalidURL):
        fits = False
    if not fits:
        shown = "an address" if set("@?") & set(base_url) else f"the address {base_url!r}"  # it may hold a key
        raise ValueError(f"got {shown} that cannot be read, wanted one such as http://localhost:8000/v1")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"got the address {base_url!r}, wanted one such as http://localhost:8000/v1")
    if parts.username or parts.password or parts.query:
        raise ValueError(
            f"the address of {parts.hostname} holds a user name, a password or a query: put the key into "
            "OPENAI_API_KEY (HF_TOKEN for endpoints of the Hub), and give the address without it"
        )
    return parts.hostname


def _private(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".local", ".internal"))


def _of_the_hub(host: str) -> bool:
    return any(host == h or host.endswith(f".{h}") for h in ("huggingface.co", "endpoints.huggingface.cloud"))
