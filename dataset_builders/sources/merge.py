"""Where several rows speak of one claim or one argument: make them one."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from dataset_builders.schema import Argument, Claim, Inversion, Relation, Split
from dataset_builders.stance.data import StanceData
from dataset_builders.stance.splits import group_claims
from dataset_builders.text import claim_key, text_key

logger = logging.getLogger(__name__)

Item = TypeVar("Item", Claim, Argument)


def merge(
    source: str,
    claims: Sequence[Claim],
    arguments: Sequence[Argument],
    relations: Sequence[Relation],
    inversions: Sequence[Inversion] = (),
    *,
    counts: Mapping[str, int] | None = None,
    keep_own: bool = False,
) -> StanceData:
    """Stance data in which equal claims and equal arguments are one, and every claim knows its group.

    Claims are equal if their `claim_key` and split are: upstream splits are kept even where they share a claim.
    Arguments are equal if their `text_key` is. The first one stays, with its id and its wording; what it leaves open
    (domain, veracity, style) the later ones fill in. Relations and inversions follow. A claim that is its own argument
    says nothing: such relations are left out, and so is an argument that has no other.

    Args:
        source: Short name of the source.
        claims: ``group_id`` as the source gives it, or the claim's own id; it may be widened (see `group_claims`).
        arguments: May repeat.
        relations: By the ids of ``claims`` and ``arguments``; may repeat.
        inversions: The same.
        counts: What the reader merged or left out itself.
        keep_own: Keep relations of a claim to itself: upstream's data stands as it is, and `check` counts them.

    Raises:
        ValueError: If two equal claims or arguments contradict each other in a field, if an id stands for two texts or
            two splits, if an inversion names an absent claim or argument, or for what `StanceData` refuses.
    """
    groups = group_claims(claims, arguments, relations)
    first_claim: dict[tuple[str, Split | None], Claim] = {}
    key_of_claim: dict[str, tuple[str, Split | None]] = {}
    for claim, group in zip(claims, groups, strict=True):
        key = (claim_key(claim.claim), claim.split)
        if key_of_claim.setdefault(claim.claim_id, key) != key:
            raise ValueError(
                f"{source}: claim_id {claim.claim_id!r} stands for two claims or for two splits, the second time for "
                f"{claim.claim!r} in split {claim.split}; give each claim one id and one split"
            )
        first = first_claim.setdefault(key, replace(claim, group_id=group))
        first_claim[key] = _fill(first, claim, ("domain", "veracity"), f"{source}: claim {first.claim_id!r}")

    first_argument: dict[str, Argument] = {}
    key_of_argument: dict[str, str] = {}
    for argument in arguments:
        text = text_key(argument.text)
        if key_of_argument.setdefault(argument.argument_id, text) != text:
            raise ValueError(
                f"{source}: argument_id {argument.argument_id!r} stands for two texts, the second time for "
                f"{argument.text!r}; give each text its own id"
            )
        kept = first_argument.setdefault(text, argument)
        first_argument[text] = _fill(kept, argument, ("style",), f"{source}: argument {kept.argument_id!r}")

    claim_ids = {i: first_claim[key].claim_id for i, key in key_of_claim.items()}
    argument_ids = {i: first_argument[text].argument_id for i, text in key_of_argument.items()}
    dangling = [(i.claim_id, i.argument_id) for i in inversions]
    dangling = [pair for pair in dangling if pair[0] not in claim_ids or pair[1] not in argument_ids]
    if dangling:
        raise ValueError(
            f"{source}: {len(dangling)} inversions name a claim or argument that is not there, such as {dangling[:5]}"
            "; add the rows or remove the inversions"
        )

    def ids(argument_id: str, claim_id: str) -> tuple[str, str]:
        return argument_ids.get(argument_id, argument_id), claim_ids.get(claim_id, claim_id)

    claim_of = {claim.claim_id: claim_key(claim.claim) for claim in first_claim.values()}
    text_of = {argument.argument_id: claim_key(argument.text) for argument in first_argument.values()}

    def is_itself(argument_id: str, claim_id: str) -> bool:
        return not keep_own and argument_id in text_of and text_of[argument_id] == claim_of.get(claim_id)

    merged = dict.fromkeys(Relation(*ids(r.argument_id, r.claim_id), r.stance) for r in relations)
    proper = [r for r in merged if not is_itself(r.argument_id, r.claim_id)]
    idle = {r.argument_id for r in merged} - {r.argument_id for r in proper}
    if len(proper) < len(merged):
        own = next(r for r in merged if is_itself(r.argument_id, r.claim_id))
        logger.warning(
            "%s: relations of a claim to itself left out: %d, such as %s", source, len(merged) - len(proper), own
        )
    found = {
        "claims that repeat another, merged": len(key_of_claim) - len(first_claim),
        "arguments that repeat another, merged": len(key_of_argument) - len(first_argument),
        "relations of a claim to itself, left out": len(merged) - len(proper),
        **(counts or {}),
    }
    return StanceData(
        source=source,
        claims=list(first_claim.values()),
        arguments=[a for a in first_argument.values() if a.argument_id not in idle],
        relations=proper,
        inversions=[
            replace(i, argument_id=argument_id, claim_id=claim_id)
            for i in inversions
            for argument_id, claim_id in [ids(i.argument_id, i.claim_id)]
            if not is_itself(argument_id, claim_id)
        ],
        counts={what: n for what, n in found.items() if n},
    )


def _fill(first: Item, later: Item, fields: tuple[str, ...], where: str) -> Item:
    """``first``, its empty ``fields`` filled in from ``later``."""
    changes = {}
    for name in fields:
        old, new = getattr(first, name), getattr(later, name)
        if old is None:
            changes[name] = new
        elif new is not None and new != old:
            raise ValueError(
                f"{where}: {name} is {old!r} in one row and {new!r} in another for the same text; keep one"
            )
    return replace(first, **changes)
