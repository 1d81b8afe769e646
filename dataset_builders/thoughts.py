"""What a language model says once it has thought aloud."""

from __future__ import annotations

import re

_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_START = re.compile(r"<think(?:ing)?>", re.IGNORECASE)


def answer_of(reply: str) -> str:
    """What a reply says after its thoughts; nothing where it is cut off within them.

    The opening tag may be missing: some chat templates put it into the prompt.
    """
    text = _END.split(reply)[-1]
    return _START.split(text)[0].strip()
