"""Stance data in memory: claims, arguments, and who supports or attacks whom."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field

from dataset_builders.instructions import STANCES, Stance
from dataset_builders.schema import Argument, Claim, Inversion, Relation, Split
from dataset_builders.text import check_text, text_key


@dataclass(frozen=True)
class StanceData:
    """One source's claims, arguments, relations and inversions, checked on construction.

    Attributes:
        source: Short name of the source, the ``{source}`` of repository and task names.
        claims: In source order, ids unique.
        arguments: In source order, ids unique; an argument may relate to several claims.
        relations: Each names a claim and an argument that are there.
        inversions: Empty where a source has none.
        revision: ``ORG/NAME@COMMIT`` of the Hub data set that was read; None for any other data.
        counts: What reading merged or left out, by what it was.

    Raises:
        ValueError: If an id is doubled, a relation names an absent claim or argument, or a text is empty or no valid
            Unicode. The message lists what was found.
    """

    source: str
    claims: list[Claim]
    arguments: list[Argument]
    relations: list[Relation]
    inversions: list[Inversion] = field(default_factory=list)
    revision: str | None = None
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _unique("claim_id", [c.claim_id for c in self.claims], self.source)
        _unique("argument_id", [a.argument_id for a in self.arguments], self.source)
        _unique("inversion_id", [i.inversion_id for i in self.inversions], self.source)
        for claim in self.claims:
            check_text(claim.claim, f"{self.source}: claim {claim.claim_id!r}")
        for argument in self.arguments:
            check_text(argument.text, f"{self.source}: argument {argument.argument_id!r}")
        claim_ids = {c.claim_id for c in self.claims}
        argument_ids = {a.argument_id for a in self.arguments}
        dangling = [
            (r.claim_id, r.argument_id)
            for r in self.relations
            if r.claim_id not in claim_ids or r.argument_id not in argument_ids
        ]
        if dangling:
            raise ValueError(
                f"{self.source}: {len(dangling)} relations name a claim or argument that is not there, "
                f"such as {dangling[:5]}; add the rows or remove the relations"
            )

    def restrict(self, splits: Collection[Split | None]) -> StanceData:
        """The claims of ``splits`` with their relations, arguments and inversions, order kept."""
        claims = [c for c in self.claims if c.split in splits]
        ids = {c.claim_id for c in claims}
        relations = [r for r in self.relations if r.claim_id in ids]
        used = {r.argument_id for r in relations}
        return StanceData(
            source=self.source,
            claims=claims,
            arguments=[a for a in self.arguments if a.argument_id in used],
            relations=relations,
            inversions=[i for i in self.inversions if i.claim_id in ids],
            revision=self.revision,
        )

    def labels(self) -> dict[str, dict[str, set[Stance]]]:
        """``labels()[claim_id][argument_id]``: the stances of every argument that relates to the claim.

        Arguments whose texts have one `text_key` are one text, so each carries the relations of all of them.
        """
        twins: dict[str, list[str]] = defaultdict(list)
        keys = {a.argument_id: text_key(a.text) for a in self.arguments}
        for argument_id, key in keys.items():
            twins[key].append(argument_id)
        labels: dict[str, dict[str, set[Stance]]] = {c.claim_id: {} for c in self.claims}
        for relation in self.relations:
            for argument_id in twins[keys[relation.argument_id]]:
                labels[relation.claim_id].setdefault(argument_id, set()).add(relation.stance)
        return labels

    def one_sided(self) -> dict[Stance, list[str]]:
        """The ids of the claims that have no argument of a stance, by that stance."""
        labels = self.labels()
        return {
            stance: [c.claim_id for c in self.claims if not any(stance in s for s in labels[c.claim_id].values())]
            for stance in STANCES
        }


def _unique(column: str, ids: list[str], source: str) -> None:
    repeated = [i for i, n in Counter(ids).items() if n > 1]
    if repeated:
        raise ValueError(f"{source}: {column} must be unique; repeated: {repeated[:10]} ({len(repeated)} in all)")
