"""The JSON object in a language model's reply."""

from __future__ import annotations

import json
from typing import Any, Final

from dataset_builders.generate import Reply
from dataset_builders.thoughts import answer_of

LONGEST: Final = 200_000
"""Characters of an answer that are read: no text that is asked for is near, and the checks take each word in hand."""
_FENCE: Final = "```"


def parse(reply: Reply, keys: str) -> dict[str, Any] | str:
    """The object of a reply, or what is wrong with it. Thoughts before it and a fence around it are taken away.

    Args:
        reply: Of a request for JSON.
        keys: The keys that were asked for, in words, for the message.
    """
    if reply.finish_reason == "length":
        return "the answer was cut off: answer with the JSON alone"
    answer = _unfenced(answer_of(reply.text)).strip()
    if len(answer) > LONGEST:
        return f"the answer was too long ({len(answer):,} characters): answer with the JSON alone"
    try:
        parsed = json.loads(answer)
    except (ValueError, RecursionError) as error:
        return f"the answer was no JSON ({type(error).__name__}): answer with the JSON alone"
    if not isinstance(parsed, dict):
        return f"the answer was no JSON object with {keys}"
    return parsed


def _unfenced(text: str) -> str:
    """What stands between the lines of a Markdown fence, or the text itself; in linear time."""
    text = text.strip()
    opening, _, inside = text.partition("\n")
    if opening.strip() not in (_FENCE, f"{_FENCE}json") or not inside.endswith(_FENCE):
        return text
    return inside.removesuffix(_FENCE)
