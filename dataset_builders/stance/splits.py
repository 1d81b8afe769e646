"""Groups of claims that belong together, and splits that never cut a group."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from dataset_builders.schema import SPLITS, Argument, Claim, Relation, Split
from dataset_builders.stance.data import StanceData
from dataset_builders.text import claim_key, text_key

SHARES: dict[Split, float] = {"train": 0.7, "validation": 0.1, "test": 0.2}

NEAR_DUPLICATE = 0.75  # Jaccard similarity of character shingles from which two claims are one group
_SHINGLE = 5  # characters; word n-grams would leave a short claim without any (all such claims would be "equal")
# Left out of the shingles, so that a claim and its negation are one group: what supports the one attacks the other.
_NEGATION = re.compile(r"\b(?:not|no|never|does|do|did)\b ?|n['’]t\b")


def group_claims(claims: Sequence[Claim], arguments: Iterable[Argument], relations: Iterable[Relation]) -> list[str]:
    """The group of every claim: what a split must not cut and an interval resamples together.

    Claims are tied if their given ``group_id`` is the same, if they are near duplicates, or if they share an argument
    (by `text_key`); ties chain. A group is named after the ``group_id`` of its first claim.

    Returns:
        One group id a claim, in the order of ``claims``.
    """
    leader = list(range(len(claims)))

    def find(i: int) -> int:
        while leader[i] != i:
            leader[i] = leader[leader[i]]
            i = leader[i]
        return i

    def tie(members: Iterable[int]) -> None:
        roots = sorted({find(i) for i in members})
        for root in roots[1:]:
            leader[root] = roots[0]  # the smallest index leads, so the first claim names the group

    keys = {a.argument_id: text_key(a.text) for a in arguments}
    same: dict[tuple[str, str], list[int]] = defaultdict(list)
    by_id: dict[str, list[int]] = defaultdict(list)
    for i, claim in enumerate(claims):
        same["group", claim.group_id].append(i)
        by_id[claim.claim_id].append(i)
    for relation in relations:
        key = keys.get(relation.argument_id, relation.argument_id)
        same["argument", key].extend(by_id[relation.claim_id])
    for members in same.values():
        tie(members)
    for pair in near_duplicates([c.claim for c in claims]):
        tie(pair)
    return [claims[find(i)].group_id for i in range(len(claims))]


def near_duplicates(texts: Sequence[str]) -> list[tuple[int, int]]:
    """Index pairs of texts that say nearly the same in nearly the same words.

    MinHash finds the candidates, their exact similarity decides. Equal texts come as a chain of neighbours.

    Returns:
        Pairs ``(i, j)``, ``i < j``, sorted.
    """
    from datasketch import MinHash, MinHashLSH  # half a second of import, for this alone

    first: dict[str, int] = {}
    pairs: set[tuple[int, int]] = set()
    for i, text in enumerate(texts):
        j = first.setdefault(claim_key(text), i)
        if j != i:
            pairs.add((j, i))
    shingles = {i: _shingles(key) for key, i in first.items()}
    index = MinHashLSH(threshold=NEAR_DUPLICATE - 0.1, num_perm=64)  # a little lower, so that few are missed
    encoded = [[s.encode() for s in sorted(shingles[i])] for i in shingles]
    for i, sketch in zip(shingles, MinHash.generator(encoded, num_perm=64, seed=1), strict=True):
        for j in index.query(sketch):
            if _similarity(shingles[i], shingles[j]) >= NEAR_DUPLICATE:
                pairs.add((min(i, j), max(i, j)))
        index.insert(i, sketch)
    return sorted(pairs)


def _shingles(key: str) -> frozenset[str]:
    """Character n-grams of a text without its negations; one shorter than that is its own only shingle."""
    key = _NEGATION.sub("", key) or key
    return frozenset(key[i : i + _SHINGLE] for i in range(max(1, len(key) - _SHINGLE + 1)))


def _similarity(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / len(a | b)


def assign(data: StanceData, seed: int = 0) -> StanceData:
    """Give every claim a split: the source's own if it has them, else 70/10/20 by group, seeded.

    Groups are dealt in a shuffled order, each to the split that is furthest below its share of claims, so the shares
    come out to within one group; the split depends on the claims and the seed, not on the order of the rows.

    Raises:
        ValueError: If some claims have a split and others none.
    """
    without = [c.claim_id for c in data.claims if c.split is None]
    if not without:
        return data
    if len(without) < len(data.claims):
        raise ValueError(
            f"{data.source}: {len(without)} of {len(data.claims)} claims have no split, such as {without[:5]}, but "
            f"the others do; give every claim a split (one of {list(SPLITS)}) or none"
        )
    members: dict[str, list[str]] = defaultdict(list)
    for claim in data.claims:
        members[claim.group_id].append(claim.claim_id)
    groups = sorted(sorted(ids) for ids in members.values())
    np.random.default_rng(seed).shuffle(groups)
    split: dict[str, Split] = {}
    count = dict.fromkeys(SPLITS, 0)
    for ids in groups:
        goal: Split = max(SPLITS, key=lambda s: SHARES[s] * (len(split) + len(ids)) - count[s])
        count[goal] += len(ids)
        split.update(dict.fromkeys(ids, goal))
    return replace(data, claims=[replace(c, split=split[c.claim_id]) for c in data.claims])
