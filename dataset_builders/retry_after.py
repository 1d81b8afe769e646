"""How long a server asks to wait."""

from __future__ import annotations

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds by a ``Retry-After``, which is a number or a date; None where it is neither.

    A date is held against the server's own clock, which its answer tells: ours may be wrong.
    """
    value = headers.get("retry-after", "").strip()
    try:
        return max(0.0, float(value))
    except ValueError:
        until = _seconds(value)
    now = _seconds(headers.get("date", ""))
    return None if until is None else max(0.0, until - (time.time() if now is None else now))


def _seconds(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None
