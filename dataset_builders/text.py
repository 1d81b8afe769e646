"""Small text tools that every part shares: keys for equal texts, ids from texts, near names."""

from __future__ import annotations

import difflib
import hashlib
import re
import unicodedata
from collections.abc import Iterable

LONGEST_TEXT = 2**24
"""Characters of a text: no model reads a longer one, and its words alone would fill the memory."""

_SPACE = re.compile(r"\s+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SHOWN = 200  # characters
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_SENTENCE = re.compile(r"""(?<=[.!?…])["'”’)\]]*\s+|\n+""")

# The closed word classes of English: what remains of a sentence when its content words are blanked.
_FUNCTION_WORDS = """
a an the this that these those each every either neither both all any some none such same other another much many
more most few fewer less least several enough i me my mine myself we us our ours ourselves you your yours yourself
yourselves he him his himself she her hers herself it its itself they them their theirs themselves one ones oneself
who whom whose which what whoever whatever whichever somebody someone something anybody anyone anything everybody
everyone everything nobody nothing about above across after against along among around as at before behind below
beneath beside besides between beyond by despite down during except for from in inside into like near of off on
onto out outside over past per since than through throughout till to toward towards under until up upon via with
within without and but or nor so yet if because although though unless whereas while whether when whenever where
wherever once lest am is are was were be been being have has had having do does did doing done can could may might
must shall should will would ought cannot no not never also too very just only even still already again ever here
there then thus hence therefore however instead rather quite almost how why now
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())


def text_key(text: str) -> str:
    """Fold case, Unicode form and white space: texts with one key count as one text."""
    return _SPACE.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


def claim_key(claim: str) -> str:
    """Like `text_key`, and without the closing full stop, with which or without a claim is the same."""
    return text_key(claim).rstrip(".").rstrip()


def text_id(prefix: str, text: str) -> str:
    """An id made from a text: ``prefix-`` and 16 hexadecimal digits of the SHA-256 of its key."""
    return f"{prefix}-{hashlib.sha256(text_key(text).encode()).hexdigest()[:16]}"


def words(text: str) -> list[str]:
    """Lower-cased words without punctuation; an apostrophe inside a word stays, so "can't" is one word."""
    return [w.replace("’", "'") for w in _WORD.findall(text.lower())]


def jaccard(a: str, b: str) -> float:
    """Word-level Jaccard similarity in [0, 1] (S 5.2); two texts without a word have similarity 0."""
    x, y = set(words(a)), set(words(b))
    return len(x & y) / len(x | y) if x or y else 0.0


def is_function_word(word: str) -> bool:
    """Whether a word of `words` is in `FUNCTION_WORDS`; so are their contractions (isn't, they've, it's)."""
    return word in FUNCTION_WORDS or word.endswith("n't") or ("'" in word and word.split("'")[0] in FUNCTION_WORDS)


def sentences(text: str) -> list[str]:
    """A text cut after full stops, question and exclamation marks that white space follows, and at line ends."""
    return [s for s in _SENTENCE.split(text) if s.strip()]


def check_text(text: object, where: str) -> str:
    """Return ``text`` if it is a text that every later step can hold.

    Raises:
        ValueError: If it is no string, blank, longer than `LONGEST_TEXT`, or holds a NUL or a lone surrogate.
    """
    if not isinstance(text, str):
        raise ValueError(f"{where}: got {type(text).__name__} {shown(text)}, wanted a text")
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"{where}: the text has {len(text):,} characters, wanted at most {LONGEST_TEXT:,}; split it")
    if not text.strip():
        raise ValueError(f"{where}: the text is empty; remove the row or fill it in")
    if "\x00" in text:
        raise ValueError(f"{where}: the text holds a NUL character; remove it")
    if _SURROGATE.search(text):
        raise ValueError(f"{where}: the text holds a lone surrogate and is no valid Unicode; decode the source anew")
    return text


def decoded(content: bytes, where: str, unit: str = "file") -> str:
    """UTF-8 as text.

    Raises:
        ValueError: If it is none.
    """
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{where}: the {unit} is no UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8"
        ) from None


def shown(value: object) -> str:
    """A value as an error shows it: it may be as large as a file."""
    said = repr(value)
    return said if len(said) <= _SHOWN else f"{said[:_SHOWN]}…"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence naming the nearest known name, or nothing."""
    near = difflib.get_close_matches(name[:_SHOWN], list(known), n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else ""
