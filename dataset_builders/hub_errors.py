"""When the Hub says no: what is tried again and for how long, and one sentence for each of the rest."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import TypeVar

import httpx2
from huggingface_hub import constants
from huggingface_hub.errors import (
    BadRequestError,
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    stop_after_delay,
    wait_random_exponential,
)

from dataset_builders.retry_after import retry_after

logger = logging.getLogger(__name__)

ATTEMPTS = 6
LONGEST = 300.0  # seconds for all attempts of one call
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
_BACKOFF = wait_random_exponential(multiplier=0.5, max=30)

T = TypeVar("T")


class HubError(RuntimeError):
    """The Hub refused, or cannot be reached. One sentence, and nothing was changed unless it says so."""


class ConflictError(HubError):
    """Something else was committed in between."""


def retry(call: Callable[[], T]) -> T:
    """Call until it succeeds, waiting as long as ``Retry-After`` says or else ever longer, with jitter.

    Tried again are 408, 425, 429 and 5xx answers and connections that broke; the clients do that for some of their
    calls only.

    Raises:
        Exception: What ``call`` raised in the end.
    """
    for attempt in Retrying(
        retry=retry_if_exception(is_transient),
        stop=stop_after_attempt(ATTEMPTS) | stop_after_delay(LONGEST),
        wait=_wait,
        before_sleep=_tell,
        reraise=True,
    ):
        with attempt:
            return call()
    raise AssertionError("unreachable: the last attempt returns or raises")


def ask(repo_id: str, call: Callable[[], T], doing: str = "publish") -> T:
    """Call with retries; what the clients raise in the end becomes one sentence.

    Raises:
        HubError: See `explain`.
    """
    try:
        return retry(call)
    except HubError:
        raise
    except (httpx2.HTTPError, OSError, ValueError, RuntimeError) as error:
        raise explain(error, repo_id, doing) from None


def is_transient(error: BaseException) -> bool:
    """Whether the same call may succeed a moment later."""
    if isinstance(error, OfflineModeIsEnabled):
        return False
    if isinstance(error, HfHubHTTPError):
        return status_of(error) in _TRANSIENT
    # An answer that is no JSON comes from something on the way, such as the error page of a proxy.
    return isinstance(error, (httpx2.TransportError, ConnectionError, json.JSONDecodeError))


def status_of(error: BaseException) -> int | None:
    """The HTTP status that an error stands for, where it stands for one."""
    response = getattr(error, "response", None)
    return None if response is None else int(response.status_code)


def explain(error: Exception, repo_id: str, doing: str) -> HubError:
    """The sentence for an error of the Hub's clients; it holds no header, and so no token.

    Args:
        error: What was raised.
        repo_id: ``org/name``.
        doing: What was tried, such as ``"publish"``.
    """
    status, org = status_of(error), repo_id.split("/")[0]
    if isinstance(error, OfflineModeIsEnabled):
        return offline(doing)
    if isinstance(error, GatedRepoError):
        return HubError(
            f"{repo_id} is gated, and this token was not given access; ask for it on the repository's page"
        )
    if status == 401 and not isinstance(error, RepositoryNotFoundError):
        return HubError(
            f"the Hub does not know the token, cannot {doing} {repo_id}: set another one in HF_TOKEN, or run "
            "`hf auth login`"
        )
    if status == 403:
        return HubError(
            f"the token may not {doing} {repo_id} ({_said(error)}); use one with write access to {org!r}: nothing was "
            "pushed"
        )
    if isinstance(error, RepositoryNotFoundError):
        return HubError(f"{repo_id} does not exist, or this token may not see it; check the name and the token")
    if status in (409, 412):
        return conflict(repo_id)
    if isinstance(error, BadRequestError) or status in (400, 413, 422):
        return HubError(f"the Hub refuses to {doing} {repo_id}: {_said(error)}")
    if is_transient(error):
        return HubError(
            f"{constants.ENDPOINT} did not answer as it should, {ATTEMPTS} times ({status or type(error).__name__}): "
            f"{repo_id} was left as it was; run this again later"
        )
    return HubError(f"cannot {doing} {repo_id}: {type(error).__name__}: {_said(error)}")


def conflict(repo_id: str) -> ConflictError:
    """The sentence where another commit was faster."""
    return ConflictError(
        f"{repo_id} was changed by someone else in the meantime, such as another publish, and theirs stands: look at "
        "it and run this again"
    )


def offline(doing: str) -> HubError:
    """The sentence where ``HF_HUB_OFFLINE`` is set."""
    return HubError(f"HF_HUB_OFFLINE is set, and to {doing} needs the Hub: unset it and run this again")


def _said(error: Exception) -> str:
    """What the server said, on one line; else the error's own first line, without addresses' queries."""
    said = getattr(error, "server_message", None) or str(error).strip().partition("\n")[0]
    return " ".join(str(said).split())[:300].rstrip(".")


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    response = getattr(error, "response", None)
    said = None if response is None else retry_after(response.headers)
    return _BACKOFF(state) if said is None else min(said, LONGEST)


def _tell(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome is not None else None
    if error is not None and state.next_action is not None:
        what = status_of(error) or type(error).__name__
        logger.warning("the Hub answered %s; trying again in %.1f s", what, state.next_action.sleep)
