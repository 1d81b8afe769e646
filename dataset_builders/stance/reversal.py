"""Did a rewriting turn the stance around? Words alone answer, so this is a sieve and no judge: see `reverses`."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from itertools import product

from dataset_builders.text import words

# Words that turn a clause around or cut its conclusion off. Hedges (may, some, often, perhaps) do neither.
_NEGATING_WORDS = """
no not never none nothing nobody nowhere neither nor without hardly scarcely barely seldom rarely little few
fail lack deny refuse absent cease powerless unlike vain
"""
_SEVERING_WORDS = """
although though despite regardless whatever yet but however whereas nevertheless nonetheless still instead
otherwise merely mere even too anyway except unless coincidence unrelated irrelevant mistake wrong wrongly rightly
disappoint outweigh outlast beyond poor
"""
_PHRASES = (
    *("all the same", "anything but", "apart from", "as many", "as much", "as well", "at last", "beside the point"),
    *("either way", "far from", "held back", "hold back", "in spite", "just as", "long before", "no longer"),
    *("other than", "out of", "rather than", "short of", "still less", "the same"),
)
_OPPOSITES = """
able/unable accept/reject add/remove add/subtract advance/retreat affirm/deny after/before agree/disagree alive/dead
allow/forbid allow/prevent always/never anybody/nobody arrive/depart ask/answer attack/defend begin/end benefit/harm
best/worst better/worse bless/curse boon/burden both/neither bring/take build/destroy careful/careless catch/miss
cause/prevent certain/doubtful cheap/costly cheap/dear clean/dirty clear/convict close/open cold/hot common/rare
common/uncommon confirm/refute connect/sever convict/absolve cool/hot corroborate/contradict cost/save
create/destroy cure/cause damage/repair danger/safety dangerous/safe decrease/increase deepen/ease defeat/win
deserve/forfeit difference/likeness different/same difficult/easy disprove/prove doubt/prove doubt/trust drop/rise
early/late earn/lose ease/hamper easy/hard empty/full encourage/discourage endanger/protect enemy/friend
enough/insufficient enrich/impoverish enrich/spoil ever/never every/no everybody/nobody everyone/nobody
everything/nothing expand/shrink fail/succeed fall/rise far/near fast/slow fear/hope few/many fewer/more find/lose
flourish/wither forbid/permit forget/remember free/bind gain/lose gain/loss generous/mean give/take good/bad
good/evil grow/shrink guilty/innocent happy/sad harm/help harmful/harmless heal/hurt health/disease heavy/light
help/hinder hide/reveal hide/show high/low higher/lower honest/dishonest hurt/help idle/busy improve/worsen
include/exclude inside/outside invite/deter join/leave just/unjust keep/lose known/unknown large/small last/first
lasting/brief laugh/cry lazy/diligent lead/follow least/most less/more lift/lower like/unlike long/brief long/short
loosen/tighten lose/win loss/profit loud/quiet love/hate luck/skill lucky/unlucky maximum/minimum much/little
narrow/wide natural/artificial negligible/considerable new/old obey/resist offer/deny often/seldom old/young
one/none open/shut oppose/support pass/fail past/future peace/war permit/prevent poison/cure poor/rich
popular/unpopular positive/negative possible/impossible praise/blame preserve/ruin prevent/promote private/public
profit/suffer proof/doubt prosper/suffer protect/expose prove/refute provide/withhold push/pull raise/lower
rare/frequent reach/miss real/imaginary relief/burden rely/distrust remain/vanish repair/break reveal/conceal
reward/punish right/wrong rise/sink rob/give ruin/save safe/risky safer/riskier satisfy/disappoint save/kill
save/waste secure/insecure sharpen/blunt sick/healthy simple/complex slow/quick smooth/rough soften/harden
solve/worsen somebody/nobody something/nothing soothe/irritate spread/contain start/stop stay/leave stay/move
steady/erratic strength/weakness strengthen/weaken strong/weak stronger/weaker success/failure suffice/fail
support/undermine sure/unsure surplus/shortage survive/perish sweet/bitter swell/shrink teach/mislead tense/relaxed
thin/thick thrive/struggle tight/loose together/apart top/bottom trap/free true/false trust/suspect under/over
understand/misunderstand unite/divide up/down uphold/overturn useful/useless vice/virtue victim/culprit warm/cold
waste/thrift welcome/shun well/badly whole/half wise/foolish with/without work/fail worth/worthless worthy/unworthy
"""
_NEGATING = frozenset(_NEGATING_WORDS.split())
_SEVERING = frozenset(_SEVERING_WORDS.split())
_CLAUSE = re.compile(r"[,;:.?!()—–]+(?=\s|$)|\s[—–-]\s|—")
_VERDICT = re.compile(
    r"^\W*(?:the|this) (?:claim|statement|assertion)\b[^.;:]{0,120}?\b(?:is|remains|seems|are)\s+(?P<no>not\s+|no\s+)?"
    r"(?:\w+ly\s+|quite\s+|very\s+)?(?P<word>true|correct|right|accurate|valid|false|untrue|incorrect|wrong|inaccurate|"
    r"invalid|unfounded)\b",
    re.IGNORECASE,
)
_TRUE = frozenset({"true", "correct", "right", "accurate", "valid"})
_PREFIXES = ("un", "in", "im", "ir", "il", "dis", "non", "mis")


@cache
def lemma(word: str) -> str:
    """The dictionary form of an English word of `dataset_builders.text.words`."""
    import simplemma  # reads its dictionary, a quarter of a second

    return str(simplemma.lemmatize(word, lang="en")).lower()


def lemmas(text: str) -> list[str]:
    """The dictionary forms of a text's words; "not" stands for the end of "isn't" and its like."""
    found: list[str] = []
    for word in words(text):
        if word.endswith("n't") or word == "cannot":
            stem = {"can't": "can", "cannot": "can", "won't": "will"}.get(word, word.removesuffix("n't"))
            found += [lemma(stem), "not"]
        else:
            found.append(lemma(word))
    return found


def verdict(text: str) -> bool | None:
    """What an explicit opening says of the claim ("The claim is false because …"), or None where there is none."""
    match = _VERDICT.match(text)
    if match is None:
        return None
    return (match["word"].lower() in _TRUE) != bool(match["no"])


def reverses(original: str, inverted: str) -> bool:
    """Whether a rewriting looks as if it turned the stance around.

    With an explicit opening: whether the opening gives the other verdict. Without: whether words that negate, sever or
    swap opposites came or went, and do not cancel each other within a clause. What it cannot see: a reversal in words
    that it does not know, and a word of reversal that turns something else around than the link to the claim.
    """
    before, after = verdict(original), verdict(inverted)
    if before is not None or after is not None:
        return before is not None and after is not None and before != after
    old, new = _clauses(original), _clauses(inverted)
    if len(old) != len(new):
        return _turns(original, inverted)
    return any(_turns(x, y) for x, y in zip(old, new, strict=True))


def _turns(original: str, inverted: str) -> bool:
    """Whether a rewriting turns a text of one clause around, once or three times, or cuts its conclusion off."""
    old, new = lemmas(original), lemmas(inverted)
    gone, come = Counter(old) - Counter(new), Counter(new) - Counter(old)
    negations = abs(sum(gone[w] for w in _NEGATING) - sum(come[w] for w in _NEGATING))
    opposites = _opposites()
    swaps = sum((x, y) in opposites or _prefixed(x, y) for x, y in product(gone, come) if not {x, y} & _NEGATING)
    if negations + swaps:
        return (negations + swaps) % 2 == 1
    if not _SEVERING.isdisjoint(come) and _SEVERING.isdisjoint(gone):
        return True
    return any(_has(inverted, phrase) and not _has(original, phrase) for phrase in _PHRASES)


def _has(text: str, phrase: str) -> bool:
    return f" {phrase} " in f" {' '.join(words(text))} "


@cache
def _opposites() -> frozenset[tuple[str, str]]:
    pairs = [tuple(lemma(word) for word in pair.split("/")) for pair in _OPPOSITES.split()]
    raw = [tuple(pair.split("/")) for pair in _OPPOSITES.split()]
    return frozenset((x, y) for a, b in [*pairs, *raw] for x, y in ((a, b), (b, a)) if a != b)


def _prefixed(x: str, y: str) -> bool:
    short, long = sorted((x, y), key=len)
    return len(short) > 3 and (
        any(long == prefix + short for prefix in _PREFIXES)
        or (long.endswith("less") and short.endswith("ful") and long[:-4] == short[:-3])
    )


def _clauses(text: str) -> list[str]:
    return [part for part in _CLAUSE.split(text) if words(part)]


def only_negated(original: str, inverted: str) -> bool:
    """Whether the words are those of the original but for negations: "not", "no", "never" and the "do" they need."""
    return _rest(original) == _rest(inverted)


def _rest(text: str) -> list[str]:
    return [w for w in lemmas(body(text)) if w not in {"not", "no", "never", "do"}]


def body(text: str) -> str:
    """A text without its explicit opening."""
    return text[match.end() :] if (match := _VERDICT.match(text)) else text


def lemma_jaccard(a: str, b: str) -> float:
    """Jaccard similarity of the sets of dictionary forms, in [0, 1] (S 5.2, there with NLTK's lemmatiser)."""
    x, y = (set(map(lemma, words(text))) for text in (a, b))
    return len(x & y) / len(x | y) if x or y else 0.0
