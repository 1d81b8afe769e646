"""Where several rows speak of one claim or one argument: make them one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from dataset_builders.schema import Argument, Claim, Inversion, Relation, Split
from dataset_builders.stance.data import StanceData
from dataset_builders.stance.splits import group_claims
from dataset_builders.text import claim_key, text_key

Item = TypeVar("Item", Claim, Argument)


def merge(
    source: str,
    claims: Sequence[Claim],
    arguments: Sequence[Argument],
    relations: Sequence[Relation],
    inversions: Sequence[Inversion] = (),
) -> StanceData:
    """Stance data in which equal claims and equal arguments are one, and every claim knows its group.

    Claims are equal if their `claim_key` and split are: upstream splits are kept even where they share a claim.
    Arguments are equal if their `text_key` is. The first one stays, with its id and its wording; what it leaves open
    (domain, veracity, style) the later ones fill in. Relations and inversions follow.

    Args:
        source: Short name of the source.
        claims: ``group_id`` as the source gives it, or the claim's own id; it may be widened (see `group_claims`).
        arguments: May repeat.
        relations: By the ids of ``claims`` and ``arguments``; may repeat.
        inversions: The same.

    Raises:
        ValueError: If two equal claims or arguments contradict each other in a field, if one claim id stands for two
            claims or two splits, or for what `StanceData` refuses.
    """
    groups = group_claims(claims, arguments, relations)
    first_claim: dict[tuple[str, Split | None], Claim] = {}
    claim_ids: dict[str, str] = {}
    for claim, group in zip(claims, groups, strict=True):
        claim = replace(claim, group_id=group)
        key = (claim_key(claim.claim), claim.split)
        first = first_claim.get(key, claim)
        first_claim[key] = _fill(first, claim, ("domain", "veracity"), f"{source}: claim {first.claim_id!r}")
        if claim_ids.setdefault(claim.claim_id, first.claim_id) != first.claim_id:
            raise ValueError(
                f"{source}: claim_id {claim.claim_id!r} stands for two claims or for two splits, the second time for "
                f"{claim.claim!r} in split {claim.split}; give each claim one id and one split"
            )

    first_argument: dict[str, Argument] = {}
    argument_ids: dict[str, str] = {}
    for argument in arguments:
        key_ = text_key(argument.text)
        kept = first_argument.get(key_, argument)
        first_argument[key_] = _fill(kept, argument, ("style",), f"{source}: argument {kept.argument_id!r}")
        if argument_ids.setdefault(argument.argument_id, kept.argument_id) != kept.argument_id:
            raise ValueError(
                f"{source}: argument_id {argument.argument_id!r} stands for two texts, the second time for "
                f"{argument.text!r}; give each argument its own id"
            )

    def ids(argument_id: str, claim_id: str) -> tuple[str, str]:
        return argument_ids.get(argument_id, argument_id), claim_ids.get(claim_id, claim_id)

    return StanceData(
        source=source,
        claims=list(first_claim.values()),
        arguments=list(first_argument.values()),
        relations=list(dict.fromkeys(Relation(*ids(r.argument_id, r.claim_id), r.stance) for r in relations)),
        inversions=[
            replace(i, argument_id=argument_id, claim_id=claim_id)
            for i in inversions
            for argument_id, claim_id in [ids(i.argument_id, i.claim_id)]
        ],
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
