"""YAML that somebody wrote by hand, or that came with a file: plain values, or one line that says why not."""

from __future__ import annotations

from typing import Any

import yaml

_LONGEST = 2**20
"""Characters: those of a recipe or of a card's head are a few thousand, and YAML is slow to read."""
_MOST = 100_000
"""Values, those counted again for which an alias stands: a few lines of aliases of aliases stand for more than memory
holds, and an alias of what it is in never ends."""


def read_yaml(text: str) -> Any:
    """The value of a text.

    Raises:
        ValueError: If it is longer than 2^20 characters, no YAML, holds a date or a number that is none, nests too
            deeply, or stands for more than 100,000 values.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"it has {len(text):,} characters, wanted at most {_LONGEST:,}")
    try:
        found = yaml.safe_load(text)
    except RecursionError:
        raise ValueError("it nests too deeply") from None
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None
    if not _is_bounded(found):
        raise ValueError(f"its aliases stand for more than {_MOST:,} values")
    return found


def _is_bounded(value: Any) -> bool:
    left, seen = [value], 0
    while left:
        seen += 1
        if seen + len(left) > _MOST:
            return False
        item = left.pop()
        if isinstance(item, dict):
            left.extend(item.values())
        elif isinstance(item, list):
            left.extend(item)
    return True
