"""Language-model replies that went wrong: good ones, spoilt in the ways that models and endpoints spoil them."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

from dataset_builders.generate import Reply

LARGE = 2**20
"""Characters of the replies of a model that has lost its way."""
_LARGE_SHARE = 0.001

_REASONS = ("stop", "stop", "stop", "stop", "length", "content_filter", "tool_calls", "")
_NUMBERS = ("NaN", "Infinity", "-Infinity", "1e999", "-0", "9" * 5000, "0x1F", "٣", "²", "-1", "null", "true")
_ODD = (
    "\u202e",
    "\u200d",
    "\u2028",
    "\x85",
    "\ufeff",
    "\u0301",
    "\ufdd0",
    "\U0001f469\u200d\U0001f467",
    "\x00",
    "\x1b[2J",
)
_ESCAPES = (r"\u0000", r"\ud800", r"\udc00\ud800", r"\x00", r"\u202e", r"\"", "\\")
_PROSE = ("Sure! Here you go:\n", "As of 2024, the 3 best are:\n", "Voilà : ", "הנה התשובה: ", "", "<answer>")
_RUNS = (
    "1",
    " ",
    "[",
    "]",
    "[1",
    "{",
    '{"a":',
    '"',
    "\\",
    "Document ",
    "Document 1,",
    "a\u0301\u0316",
    "Word ",
    "- ",
    "</think>",
)

Spoil = Callable[[random.Random, str], str]


def _at(rng: random.Random, text: str, piece: str) -> str:
    place = rng.randrange(len(text) + 1)
    return text[:place] + piece + text[place:]


def _cut(rng: random.Random, text: str) -> str:
    return text[: rng.randrange(len(text) + 1)]


def _lost_middle(rng: random.Random, text: str) -> str:
    start = rng.randrange(len(text) + 1)
    return text[:start] + text[start + rng.randrange(1, 20) :]


def _said_twice(rng: random.Random, text: str) -> str:
    start = rng.randrange(len(text) + 1)
    return text[:start] + text[start : start + 40] * 2 + text[start + 40 :]


def _nested(rng: random.Random, text: str) -> str:
    depth = rng.choice([1, 2, 2, 50, 50, 50, 50, 20_000])
    opening, closing = rng.choice([("[", "]"), ('{"query": ', "}"), ("[[", "]]")])
    return opening * depth + text + closing * rng.choice([depth, depth - 1, 0])


def _doubled_key(rng: random.Random, text: str) -> str:
    pieces = re.findall(r'"\w+": ?[^,{}]+', text) or ['"query": 1']
    return text.replace("{", "{" + rng.choice(pieces) + ", ", 1)


def _number(rng: random.Random, text: str) -> str:
    places = [m.span() for m in re.finditer(r'\d+|"[^"]*"', text)]
    if not places:
        return _at(rng, text, rng.choice(_NUMBERS))
    start, end = rng.choice(places)
    return text[:start] + rng.choice(_NUMBERS) + text[end:]


def _wrong_type(rng: random.Random, text: str) -> str:
    """The same JSON with one value of another type."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return rng.choice(["null", "3", '"text"', "[]", "true", "[{}]"])
    other: Any = rng.choice([None, True, 7, -1.5, [], {}, [[]], "", "   ", ["x", 1], {"text": "x"}])
    if not isinstance(value, dict) or not value:
        return json.dumps(other)
    key = rng.choice(list(value))
    if isinstance(value[key], list) and value[key] and rng.random() < 0.7:
        value[key][rng.randrange(len(value[key]))] = other
    else:
        value[key] = other
    return json.dumps(value, ensure_ascii=rng.random() < 0.5)


def _other_key(rng: random.Random, text: str) -> str:
    return re.sub(r'"(\w+)":', lambda m: f'"{rng.choice([m[1], m[1].upper(), "answer", "", m[1] + "s"])}":', text)


def _thoughts(rng: random.Random, text: str) -> str:
    tag = rng.choice(["think", "thinking", "THINK", "Thinking"])
    aloud = rng.choice([f"maybe {text[:80]}", "[1] > [2]", "<think>", '{"query": "no"}', ""])
    return rng.choice(
        [
            f"<{tag}>{aloud}</{tag}>{text}",
            f"<{tag}>{aloud}{text}",
            f"{aloud}</{tag}>\n\n{text}",
            f"{text}<{tag}>{aloud}",
            f"<{tag}>{aloud}</{tag}><{tag}>{aloud}</{tag}>{text}",
            f"{text[: len(text) // 2]}</{tag}>{text[len(text) // 2 :]}",
        ]
    )


def _fence(rng: random.Random, text: str) -> str:
    return rng.choice(
        [
            f"```json\n{text}\n```",
            f"```\n{text}\n```",
            f"```json\n{text}",
            f"```{text}```",
            f"~~~\n{text}\n~~~",
            f"`{text}`",
        ]
    )


def _right_to_left(rng: random.Random, text: str) -> str:
    return f"\u202e{text}\u202c" if rng.random() < 0.5 else text[::-1]


def _full_width(rng: random.Random, text: str) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


def _noise(rng: random.Random, text: str) -> str:
    characters = list(text)
    for _ in range(rng.randrange(1, 6)):
        if characters:
            characters[rng.randrange(len(characters))] = chr(
                rng.choice([rng.randrange(0xD800), rng.randrange(32, 127)])
            )
    return "".join(characters)


SPOILS: dict[str, Spoil] = {
    "as it was": lambda rng, text: text,
    "cut": _cut,
    "a piece lost": _lost_middle,
    "a piece said twice": _said_twice,
    "nested": _nested,
    "a key twice": _doubled_key,
    "a number that is none": _number,
    "another type": _wrong_type,
    "another key": _other_key,
    "odd character": lambda rng, text: _at(rng, text, rng.choice(_ODD)),
    "odd escape": lambda rng, text: _at(rng, text, rng.choice(_ESCAPES)),
    "thoughts": _thoughts,
    "fence": _fence,
    "prose": lambda rng, text: rng.choice(_PROSE) + text + rng.choice(["", "\n\nI hope these 3 help!", "</answer>"]),
    "right to left": _right_to_left,
    "full width": _full_width,
    "noise": _noise,
    "Windows line ends": lambda rng, text: text.replace("\n", "\r\n").replace(", ", ",\r\n"),
    "nothing": lambda rng, text: rng.choice(["", " ", "\n\r\t", "\u200b", "...", "I can't help with that."]),
}


def spoilt(good: str, rng: random.Random) -> Reply:
    """A reply made of a good one, spoilt in up to three ways, as the client hands it out."""
    text = good
    for name in rng.choices(list(SPOILS), k=rng.choice([1, 1, 2, 3])):
        text = SPOILS[name](rng, text)
    if rng.random() < _LARGE_SHARE:
        run = rng.choice(_RUNS)
        text = rng.choice(["", text]) + run * (LARGE // len(run)) + rng.choice(["", text, "x"])
    # The client has replaced what is no Unicode before anybody reads it.
    text = text.encode("utf-8", "replace").decode()
    return Reply(text, 1, 1, rng.choice(_REASONS), False, 0.0)


def replies(good: Callable[[random.Random], str], n: int, seed: int) -> Iterator[Reply]:
    """``n`` replies, each made of a good one of its own."""
    rng = random.Random(seed)
    for _ in range(n):
        yield spoilt(good(rng), rng)
