"""What stance data looks like in numbers: sizes, overlap, cues that would give a stance away."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import mean

from dataset_builders.instructions import STANCES, Stance
from dataset_builders.schema import SPLITS, Inversion, Split, Style
from dataset_builders.stance.data import StanceData
from dataset_builders.stance.splits import near_duplicates
from dataset_builders.text import claim_key, is_function_word, jaccard, sentences, text_key, words

MIN_SKELETON = 3  # function words; shorter skeletons ("the _ of _") are shared by chance
FOLDS = 10
NEGATING = frozenset({"not", "no", "never", "do", "does", "did"})
_OPENING = re.compile(r"The claim is (?:true|false) because ", re.IGNORECASE)
_ALTHOUGH = frozenset({"although", "though"})
_PUNCTUATION = ",;:—–-()'\"?!…."


@dataclass(frozen=True, slots=True)
class SplitSizes:
    """One row of S table 1. ``per_claim[stance]`` is (average, minimum, maximum) of arguments a claim."""

    split: str
    claims: int
    total: dict[Stance, int]
    per_claim: dict[Stance, tuple[float, int, int]]


def sizes(data: StanceData) -> list[SplitSizes]:
    """S table 1: a row for every split that has claims, ``all`` for data without splits."""
    labels = data.labels()
    rows = []
    splits: tuple[Split | None, ...] = (*SPLITS, None)
    for split in splits:
        claims = [labels[c.claim_id] for c in data.claims if c.split == split]
        if claims:
            n = {s: [sum(s in stances for stances in claim.values()) for claim in claims] for s in STANCES}
            rows.append(
                SplitSizes(
                    split or "all",
                    len(claims),
                    {s: sum(n[s]) for s in STANCES},
                    {s: (mean(n[s]), min(n[s]), max(n[s])) for s in STANCES},
                )
            )
    return rows


def conflicts(data: StanceData) -> list[tuple[str, str]]:
    """(claim, argument) ids where one text both supports and attacks one claim."""
    return [(c, a) for c, arguments in data.labels().items() for a, stances in arguments.items() if len(stances) > 1]


def own_arguments(data: StanceData) -> list[tuple[str, str]]:
    """(claim, argument) ids where the argument is the claim itself, word for word."""
    claim = {c.claim_id: claim_key(c.claim) for c in data.claims}
    text = {a.argument_id: claim_key(a.text) for a in data.arguments}
    return [(r.claim_id, r.argument_id) for r in data.relations if claim[r.claim_id] == text[r.argument_id]]


def natural_overlap(
    data: StanceData, style: Style | None = None, overlap: Callable[[str, str], float] = jaccard
) -> float | None:
    """Mean word Jaccard of all pairs of a supporting and an attacking argument of one claim (S 5.2: .094)."""
    text = {a.argument_id: a.text for a in data.arguments if style in (None, a.style)}
    found = []
    for arguments in data.labels().values():
        sides = [[text[a] for a, stances in arguments.items() if s in stances and a in text] for s in STANCES]
        found += [overlap(x, y) for x, y in product(*sides)]
    return mean(found) if found else None


def inversion_overlap(
    data: StanceData, style: Style | None = None, overlap: Callable[[str, str], float] = jaccard
) -> float | None:
    """Mean word Jaccard of an argument and its inversion (S 5.2: .587)."""
    found = [overlap(i.original, i.inverted) for i in data.inversions if style in (None, i.style)]
    return mean(found) if found else None


def bodies(data: StanceData, style: Style | None = None) -> dict[str, str]:
    """The arguments' texts without the explicit opening, by id."""
    return {a.argument_id: _OPENING.sub("", a.text, count=1) for a in data.arguments if style in (None, a.style)}


def duplicate_arguments(data: StanceData) -> list[tuple[str, str]]:
    """Pairs of arguments that are equal or nearly so once the explicit opening is taken away."""
    texts = bodies(data)
    ids = list(texts)
    return [(ids[i], ids[j]) for i, j in near_duplicates(list(texts.values()))]


def duplicate_claims(data: StanceData) -> list[tuple[str, str]]:
    """Pairs of claims that are equal or nearly so (short ones are compared by characters)."""
    return [
        (data.claims[i].claim_id, data.claims[j].claim_id) for i, j in near_duplicates([c.claim for c in data.claims])
    ]


def shared_between_splits(
    data: StanceData, near_claims: Sequence[tuple[str, str]], near_arguments: Sequence[tuple[str, str]]
) -> dict[str, list[str]]:
    """What two splits have in common: claims and arguments by normalised text and as near duplicates, and groups.

    Args:
        data: The source.
        near_claims: From `duplicate_claims`.
        near_arguments: From `duplicate_arguments`.

    Returns:
        The ids, by what it is that is shared.
    """
    split = {c.claim_id: c.split for c in data.claims}
    splits_of: dict[str, set[Split | None]] = defaultdict(set)
    for r in data.relations:
        splits_of[r.argument_id].add(split[r.claim_id])
    by_claim, by_argument, by_group = (defaultdict[str, set[Split | None]](set) for _ in range(3))
    for c in data.claims:
        by_claim[claim_key(c.claim)].add(c.split)
        by_group[c.group_id].add(c.split)
    for a in data.arguments:
        by_argument[text_key(a.text)] |= splits_of[a.argument_id]

    def apart(pairs: Sequence[tuple[str, str]], of: Mapping[str, set[Split | None]]) -> list[str]:
        return [f"{x} and {y}" for x, y in pairs if len(of[x] | of[y]) > 1]

    return {
        "claims": [c.claim_id for c in data.claims if len(by_claim[claim_key(c.claim)]) > 1],
        "near-duplicate claims": apart(near_claims, {c: {s} for c, s in split.items()}),
        "arguments": [a.argument_id for a in data.arguments if len(by_argument[text_key(a.text)]) > 1],
        "near-duplicate arguments": apart(near_arguments, splits_of),
        "groups": [k for k, found in by_group.items() if len(found) > 1],
    }


def skeleton(sentence: str) -> tuple[str, ...]:
    """The function words of a sentence in order, each run of content words one blank ``_``."""
    found: list[str] = []
    for word in words(sentence):
        if is_function_word(word):
            found.append(word)
        elif not found or found[-1] != "_":
            found.append("_")
    return tuple(found)


def sharing_a_skeleton(texts: Mapping[str, str]) -> list[str]:
    """Ids of the texts with a sentence whose skeleton, of `MIN_SKELETON` function words or more, another text has too.

    Punctuation does not count and a blank stands for any number of words, so this finds more than a template would.
    """
    owners: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for i, text in texts.items():
        for sentence in sentences(text):
            key = skeleton(sentence)
            if sum(word != "_" for word in key) >= MIN_SKELETON:
                owners[key].add(i)
    return sorted({i for ids in owners.values() if len(ids) > 1 for i in ids})


def merely_negated(inversions: Sequence[Inversion]) -> list[str]:
    """Inversions that only put in or take out a "not": without negations the words are those of the original."""

    def rest(text: str) -> list[str]:
        return [w for w in words(_OPENING.sub("", text, count=1)) if w not in NEGATING and not w.endswith("n't")]

    return [i.inversion_id for i in inversions if rest(i.original) == rest(i.inverted)]


def by_although(inversions: Sequence[Inversion]) -> list[str]:
    """Inversions that say "although" or "though" where the original does not."""
    return [i.inversion_id for i in inversions if _ALTHOUGH & set(words(i.inverted)) - set(words(i.original))]


def cue_accuracy(data: StanceData, style: Style) -> dict[str, float]:
    """How well surface features alone tell support from attack among the arguments of one style.

    ``words`` are binary unigrams; ``length`` is the number of words and of characters; ``punctuation`` is the count of
    each mark; ``sentences`` is their number. The explicit opening is left out.

    Returns:
        Accuracy in [0, 1] by the name of the features, see `_accuracy`. Empty if fewer than ten claims have arguments
        of the style.
    """
    text = bodies(data, style)
    rows = [r for r in data.relations if r.argument_id in text]
    claims, stances = [r.claim_id for r in rows], [r.stance for r in rows]
    if len(set(claims)) < FOLDS:
        return {}
    texts = [text[r.argument_id] for r in rows]
    features: dict[str, list[str] | list[list[int]]] = {
        "words": texts,
        "length": [[len(words(t)), len(t)] for t in texts],
        "punctuation": [[t.count(mark) for mark in _PUNCTUATION] for t in texts],
        "sentences": [[len(sentences(t))] for t in texts],
    }
    return {name: _accuracy(x, stances, claims) for name, x in features.items()}


def inversion_cue_accuracy(data: StanceData, style: Style) -> float | None:
    """How well unigrams tell an inversion from its original: a word that only inversions use gives them away."""
    found = [i for i in data.inversions if i.style == style]
    if len({i.claim_id for i in found}) < FOLDS:
        return None
    texts = [_OPENING.sub("", t, count=1) for i in found for t in (i.original, i.inverted)]
    return _accuracy(texts, ["original", "inverted"] * len(found), [i.claim_id for i in found for _ in range(2)])


def _accuracy(x: list[str] | list[list[int]], y: Sequence[str], claims: Sequence[str]) -> float:
    """Mean accuracy of logistic regression (C = 1) over ten folds by claim, of texts (binary unigrams) or numbers."""
    # scikit-learn is heavy to import, and nothing but this needs it.
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    first = CountVectorizer(analyzer=words, binary=True) if isinstance(x[0], str) else StandardScaler()
    model = make_pipeline(first, LogisticRegression(C=1, max_iter=1000))
    folds = GroupKFold(FOLDS, shuffle=True, random_state=0)
    return float(cross_val_score(model, x, y, groups=claims, cv=folds).mean())
