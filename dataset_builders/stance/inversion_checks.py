"""What a rewritten argument must be to stand as the inversion of its original (S 5.2, appendix H)."""

from __future__ import annotations

import re
from typing import Final

from dataset_builders.stance.reversal import body, only_negated, reverses
from dataset_builders.text import check_text, is_function_word, jaccard, sentences, words

CHECKS: Final = ("text", "changed", "flipped", "negation", "overlap", "length", "facts")
"""The checks of one candidate; `inversions` adds those of the whole reply: ``json`` and ``items``."""

MIN_OVERLAP: Final = 0.4
"""Lowest word Jaccard. S measured .587 on average, natural pairs .094; the sample's own go down to .5."""
MAX_GROWTH: Final = 1.5
MIN_GROWTH: Final = 0.6
"""Words of the inversion over words of the original; the sample's own lie between .88 and 1.5."""

_DIGITS = re.compile(r"\d+(?:[.,:]\d+)*")
# "one" and "two" are left out: they are pronouns as often as numbers.
_NUMBER_WORDS = """
three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion
"""
_NUMBERS = frozenset(_NUMBER_WORDS.split())
_CAPITALISED = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")


def failures(claim: str, original: str, inverted: str) -> dict[str, str]:
    """The checks that a candidate fails, each with what is wrong in words that its writer understands.

    Args:
        claim: What both texts are about.
        original: The argument.
        inverted: The candidate.

    Returns:
        Empty if it passes all of `CHECKS`.
    """
    try:
        check_text(inverted, "the text")
    except ValueError as error:
        return {"text": str(error)}
    found: dict[str, str] = {}
    if words(body(original)) == words(body(inverted)):
        found["changed"] = "it says what the original says: the words behind the opening must change too"
    if not reverses(original, inverted):
        found["flipped"] = "the stance is not reversed, or not clearly: it must now argue for the other side"
    if "changed" not in found and only_negated(original, inverted):
        found["negation"] = 'it only puts in or takes out a "not": sever the conclusion in other words'
    if (overlap := jaccard(original, inverted)) < MIN_OVERLAP:
        found["overlap"] = f"too few words are kept ({overlap:.0%} overlap): stay as close to the original as you can"
    growth = len(words(inverted)) / max(1, len(words(original)))
    if not MIN_GROWTH <= growth <= MAX_GROWTH:
        too = "long: no new reasons or explanations" if growth > 1 else "short: keep all that the original says"
        found["length"] = f"it is too {too}"
    if facts := _facts(claim, original, inverted):
        found["facts"] = facts
    return found


def _facts(claim: str, original: str, inverted: str) -> str:
    """What numbers and names a candidate lost or made up, or nothing."""
    lost = _numbers(original) - _numbers(inverted)
    made_up = _numbers(inverted) - _numbers(original) - _numbers(claim)
    # A name of the original may begin a sentence of the inversion, where its capital says nothing.
    lost |= {n for n in _names(original) if n.lower() not in _lower(inverted)}
    made_up |= {n for n in _names(inverted) if n.lower() not in _lower(original) | _lower(claim)}
    said = []
    if lost:
        said.append(f"the original's {', '.join(sorted(lost))} must stay")
    if made_up:
        said.append(f"{', '.join(sorted(made_up))} is not in the original")
    return "; ".join(said)


def _numbers(text: str) -> set[str]:
    digits = {number.replace(",", "") for number in _DIGITS.findall(text)}
    return digits | _NUMBERS.intersection(re.findall(r"\w+", text.lower()))


def _names(text: str) -> set[str]:
    """Words with a capital that do not begin a sentence or a quotation."""
    found: set[str] = set()
    for sentence in sentences(body(text)):
        end = 0  # of the word before
        for match in _CAPITALISED.finditer(sentence):
            word, between = match[0], sentence[end : match.start()].rstrip()
            begins = not end or between.endswith(('"', "“", "‘", ":"))
            end = match.end()
            stem = re.sub(r"['’]s$", "", word)
            if word[0].isupper() and not begins and len(stem) > 1 and not is_function_word(stem.lower()):
                found.add(stem)
    return found


def _lower(text: str) -> set[str]:
    return {re.sub(r"['’]s$", "", word.lower()) for word in _CAPITALISED.findall(text)}
