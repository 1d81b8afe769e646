"""Faults by order: the Nth request that matches a method and a path goes wrong, in one of six ways."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

MESSAGES = {
    401: "Invalid credentials in Authorization header",
    403: "Forbidden: pass a token with write access to this resource",
    409: "Another conflicting operation is in progress",
    412: "A commit has happened since. Please refresh and try again.",
    429: "We had to rate limit you",
    500: "Internal Error",
    503: "Service Unavailable",
}


@dataclass(frozen=True)
class Status:
    """Answer with this status instead of doing anything."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CutUpload:
    """Read only so many bytes of the request's body, then close the connection."""

    after: int


@dataclass(frozen=True)
class CutDownload:
    """Send only so many bytes of the answer's body, then close the connection."""

    after: int


@dataclass(frozen=True)
class LoseAnswer:
    """Do what was asked, then close the connection without a word."""


@dataclass(frozen=True)
class Damage:
    """Turn one bit of the answer's body, at this place."""

    at: int


@dataclass(frozen=True)
class Hold:
    """Let the client wait: for ``release``, before the request is looked at or (``done``) after it was carried out.

    ``reached`` tells a test that the client stands there, for instance to kill it at that point: nothing is done for a
    client that has gone when the hold ends.
    """

    done: bool = False
    reached: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def held(self, timeout: float = 120.0) -> Iterator[None]:
        """Run the body while the client is held, and let it go afterwards.

        Raises:
            TimeoutError: if no request came.
        """
        try:
            if not self.reached.wait(timeout):
                raise TimeoutError(f"no request reached the hold within {timeout:g} s")
            yield
        finally:
            self.release.set()


Fault = Status | CutUpload | CutDownload | LoseAnswer | Damage | Hold
F = TypeVar("F", bound=Fault)


@dataclass
class _Order:
    method: str
    path: re.Pattern[str]
    fault: Fault
    first: int
    times: int
    seen: int = 0
    done: int = 0


class Faults:
    """The faults that are still to come. Thread-safe."""

    def __init__(self) -> None:
        self._orders: list[_Order] = []
        self._lock = threading.Lock()

    def add(self, method: str, path: str, fault: F, *, nth: int = 1, times: int = 1) -> F:
        """Order a fault for the ``nth`` request from now whose path matches, and for ``times`` in all from there.

        Args:
            method: GET, POST, ...; ``*`` for any.
            path: a regular expression, searched in the request's path (without its query, percent-decoded).
            fault: what happens; returned, so that a test can wait for a `Hold`.
        """
        with self._lock:
            self._orders.append(_Order(method, re.compile(path), fault, nth, times))
        return fault

    def clear(self) -> None:
        with self._lock:
            self._orders.clear()

    @property
    def unused(self) -> list[str]:
        """The orders that no request has met, so that a test notices a fault that never happened."""
        with self._lock:
            return [f"{order.method} {order.path.pattern}" for order in self._orders if order.done < order.times]

    def take(self, method: str, path: str) -> Fault | None:
        """Count a request, and give the fault it is to meet."""
        with self._lock:
            hit: Fault | None = None
            for order in self._orders:
                if order.method not in ("*", method) or not order.path.search(path):
                    continue
                order.seen += 1
                if hit is None and order.first <= order.seen < order.first + order.times:
                    order.done += 1
                    hit = order.fault
            return hit
