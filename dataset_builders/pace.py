"""How fast a client may ask."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Pace:
    """When the next request may go out: evenly spaced, and later for all where the endpoint asks to wait."""

    def __init__(self, per_minute: float | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._gap = 60.0 / per_minute if per_minute else 0.0
        self._clock = clock
        self._next = clock()
        self._lock = threading.Lock()

    def wait(self, sleep: Callable[[float], None]) -> None:
        """Sleep until the next free moment, and take it."""
        with self._lock:
            now = self._clock()
            mine = max(now, self._next)
            self._next = mine + self._gap
        if mine > now:
            sleep(mine - now)

    def hold(self, seconds: float) -> None:
        """Let no request out for ``seconds``."""
        with self._lock:
            self._next = max(self._next, self._clock() + seconds)
