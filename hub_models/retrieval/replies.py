"""Reading a language model's ranking, which is text and may be anything.

Whatever comes, a permutation goes out: numbers out of range and repeats are dropped, what is missing follows in the
order it was shown in, nothing is invented. Every reply is counted: ``parsed`` as it stands, ``repaired``, or
``fallback`` where it holds no usable number.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal, get_args

from dataset_builders.thoughts import answer_of

Outcome = Literal["parsed", "repaired", "fallback"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

_NUMBER = r"(?<!\d)\d{1,9}(?!\d)"  # int() refuses thousands of digits
# Every pattern takes linear time, whatever a model that has lost its way repeats until it is cut off.
_AGAIN = rf"(?:(?:\s*[,;>&]\s*|\s+and\s+)(?:and\s+)?{_NUMBER})*"
_BRACKETED = re.compile(rf"\[\s*{_NUMBER}(?:[\s,;>]+{_NUMBER})*\s*\]")
_LABELLED = re.compile(rf"\b(?:documents?|docs?|passages?)\s*(?:\#\s*)?{_NUMBER}{_AGAIN}", re.IGNORECASE)
_BARE = re.compile(rf"(?<![A-Za-z_]){_NUMBER}(?:[\s,;>→|\"'.-]+{_NUMBER})*(?![A-Za-z_])")
_NEGATIVE = re.compile(r"(?<![\w\])}-])[-−]\d+")  # not the hyphens of 3-1-2 and [3]-[1]
_NUMBERS = re.compile(_NUMBER)
_LAST_NUMBER = re.compile(r"(?<!\d)\d+$")

_RANKING_FORM = re.compile(r"\[\d+\](?: ?> ?\[\d+\])*")
_PICKS_FORM = re.compile(r"Document \d+(?:, ?Document \d+)*\.?")


@dataclass(frozen=True, slots=True)
class Ranking:
    """Places from 0 of what was shown, best first, and how the reply was read."""

    places: list[int]
    outcome: Outcome


def read_ranking(reply: str, shown: int, *, truncated: bool = False) -> Ranking:
    """Read a ranking of all that was shown, asked for as ``[2] > [1]``.

    Args:
        reply: The text, unchanged.
        shown: How many documents were shown, numbered from 1.
        truncated: Whether the endpoint cut the reply off: a number at its end may lack digits.

    Returns:
        A permutation of ``range(shown)``.
    """
    text = _readable(reply, truncated)
    found, clean = _places(text, shown, (_BRACKETED, _LABELLED))
    whole = clean and not truncated and len(found) == shown and _is_all(_RANKING_FORM, text, shown)
    given = set(found)
    return Ranking([*found, *(i for i in range(shown) if i not in given)], _outcome(found, whole))


def read_picks(reply: str, shown: int, wanted: int, *, truncated: bool = False) -> Ranking:
    """Read a choice of the best ``wanted``, asked for as ``Document 2, Document 1``.

    Returns:
        At most ``wanted`` places of ``range(shown)``, none twice.
    """
    text = _readable(reply, truncated)
    found, clean = _places(text, shown, (_LABELLED, _BRACKETED))
    whole = clean and not truncated and len(found) == wanted and _is_all(_PICKS_FORM, text, wanted)
    return Ranking(found[:wanted], _outcome(found, whole))


def _readable(reply: str, truncated: bool) -> str:
    text = answer_of(reply)
    if not text.isascii():
        # Full-width, circled and raised digits become plain ones. Each character alone: a row of accents over one
        # letter would be sorted, in quadratic time.
        text = "".join(unicodedata.normalize("NFKC", c) for c in text)
    text = _LAST_NUMBER.sub("", text) if truncated else text
    return _NEGATIVE.sub("0", text)  # which is out of range too


def _is_all(form: re.Pattern[str], text: str, numbers: int) -> bool:
    """Whether the text has the form that was asked for, with so many numbers, overlong ones included."""
    return bool(form.fullmatch(text)) and len(re.findall(r"\d+", text)) == numbers


def _places(text: str, shown: int, forms: tuple[re.Pattern[str], ...]) -> tuple[list[int], bool]:
    """The places named, and whether none was named twice or is out of range."""
    numbers: list[int] = []
    for form in forms:
        numbers = [int(n) for part in form.findall(text) for n in _NUMBERS.findall(part)]
        if numbers:
            break
    else:
        numbers = _bare(text)
    found = list(dict.fromkeys(n - 1 for n in numbers if 1 <= n <= shown))
    return found, len(found) == len(numbers)


def _bare(text: str) -> list[int]:
    """The longest row of numbers without words between them. A single one counts only where there is no prose: in
    ``I cannot rank these 3`` it ranks nothing."""
    rows = [_NUMBERS.findall(row) for row in _BARE.findall(text)]
    longest = max(rows, key=len, default=[])
    if len(longest) == 1 and any(c.isalpha() for c in text):
        return []
    return [int(n) for n in longest]


def _outcome(found: list[int], whole: bool) -> Outcome:
    if not found:
        return "fallback"
    return "parsed" if whole else "repaired"
