"""What was asked of the loopback Hub: one entry a request, never with a token."""

from __future__ import annotations

import re
import threading
from collections import Counter
from dataclasses import dataclass


@dataclass
class Entry:
    """One request, filled in while it is served. ``kind`` is the endpoint's template; bytes are those of bodies."""

    method: str
    path: str
    kind: str
    fault: str | None
    status: int | None = None  # None: no answer was given
    user: str | None = None
    bytes_up: int = 0
    bytes_down: int = 0


class RequestLog:
    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._lock = threading.Lock()

    def add(self, entry: Entry) -> None:
        with self._lock:
            self._entries.append(entry)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()

    @property
    def entries(self) -> list[Entry]:
        with self._lock:
            return list(self._entries)

    def matching(self, method: str, path: str) -> list[Entry]:
        """The requests whose method is ``method`` (``*``: any) and in whose path the pattern is found."""
        return [e for e in self.entries if method in ("*", e.method) and re.search(path, e.path)]

    @property
    def bytes_up(self) -> int:
        return sum(entry.bytes_up for entry in self.entries)

    @property
    def bytes_down(self) -> int:
        return sum(entry.bytes_down for entry in self.entries)

    def summary(self) -> dict[str, dict[str, int]]:
        """Requests, bytes up and bytes down by "METHOD template", the most frequent first."""
        entries = self.entries
        counts = Counter(f"{entry.method} {entry.kind}" for entry in entries)
        rows = {kind: {"requests": count, "bytes_up": 0, "bytes_down": 0} for kind, count in counts.most_common()}
        for entry in entries:
            rows[f"{entry.method} {entry.kind}"]["bytes_up"] += entry.bytes_up
            rows[f"{entry.method} {entry.kind}"]["bytes_down"] += entry.bytes_down
        return rows
