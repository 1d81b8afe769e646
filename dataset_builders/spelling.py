"""Spelling, American: words that neither a dictionary nor a list of accepted words knows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from unicodedata import normalize

ACCEPTED = Path(__file__).parent / "sample" / "accepted_words.txt"
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")


def unknown_words(texts: Iterable[str]) -> Counter[str]:
    """Words of three letters and more that the dictionary does not know, with how often they occur.

    Left out are words with a capital (names, and also the first word of a sentence), those with an apostrophe, but for
    the possessive 's, and symbols with an index. British forms count as unknown.
    """
    from spellchecker import SpellChecker  # reads its dictionary, a quarter of a second

    found: Counter[str] = Counter()
    for text in texts:
        for match in _WORD.finditer(text):
            word = match[0].replace("’", "'").removesuffix("'s")
            if len(word) > 2 and word.islower() and word.isalpha() and word == normalize("NFKC", word):
                found[word] += 1
    unknown = SpellChecker(language="en").unknown(found)
    return Counter({word: n for word, n in found.items() if word in unknown})


def accepted_words(path: Path = ACCEPTED) -> frozenset[str]:
    """The words, one a line, that a reader has looked at and found right; ``#`` begins a comment."""
    lines = (line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").split("\n"))
    return frozenset(line for line in lines if line)


def misspelt(texts: Collection[str], accepted: Collection[str]) -> tuple[list[str], list[str]]:
    """Unknown words that are not accepted, and accepted ones that are not needed; both sorted."""
    unknown = unknown_words(texts)
    return sorted(set(unknown) - set(accepted)), sorted(set(accepted) - set(unknown))
