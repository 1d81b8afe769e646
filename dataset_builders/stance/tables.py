"""The tables of the three stance repositories of a source: arguments, inversions, triplets."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from datasets import Features

from dataset_builders.folder import Table, batches_of
from dataset_builders.instructions import DEFAULT_QUERY_TEMPLATE, STANCES, UNSEEN, format_query
from dataset_builders.rows import Row
from dataset_builders.schema import (
    ARGUMENTS,
    CLAIMS,
    CORPUS,
    INVERSIONS,
    QRELS,
    QUERIES,
    RELATIONS,
    SPLITS,
    TRIPLETS,
    Curriculum,
    Split,
)
from dataset_builders.stance import curricula
from dataset_builders.stance.curricula import Triplets
from dataset_builders.stance.data import StanceData
from dataset_builders.stance.reversal import lemma_jaccard
from dataset_builders.text import jaccard

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tables:
    """What `folder.write` takes.

    Attributes:
        tables: All splits of all configs.
        default: The config that is loaded when none is named.
        one_sided: Ids of the claims without a negative or a positive of their own, by split.
    """

    tables: list[Table]
    default: str
    one_sided: dict[str, list[str]]


def triplet_tables(data: StanceData, *, triplets: int | None, seed: int) -> Tables:
    """The curricula of the train claims and, where there is enough for them, of the validation claims.

    Args:
        data: With splits.
        triplets: Rows of each train curriculum; the validation ones keep the default number for each cell.
        seed: See `curricula.build`.

    Raises:
        ValueError: If there is no train claim, or `curricula.build` refuses them.
    """
    built: dict[Split, dict[Curriculum, Triplets]] = {}
    train, validation = data.restrict({"train"}), data.restrict({"validation"})
    if not train.claims:
        raise ValueError(
            f"{data.source}: none of the {len(data.claims)} claims is in the split train; triplets need some"
        )
    built["train"] = curricula.build(train, triplets=triplets, seed=seed)
    if validation.claims:
        try:
            built["validation"] = curricula.build(validation, seed=seed)
        except ValueError as error:  # a handful of claims is often too few; training does not need them
            logger.warning("no validation triplets: %s", error)
    if "mixed_aug" not in built["train"]:
        logger.warning("%s has no inversions: mixed_aug is left out, the default config is mixed", data.source)
    default = list(built["train"])[-1]
    tables = [
        Table(name, split, TRIPLETS, len(found[name]), found[name].batches())
        for name in built["train"]
        for split, found in built.items()
        if name in found
    ]
    one_sided: dict[str, list[str]] = {}
    for split, found in built.items():
        kept = {c.claim_id for c in found["mixed"].texts.claims}
        one_sided[split] = [c.claim_id for c in data.restrict({split}).claims if c.claim_id not in kept]
    return Tables(tables, default, one_sided)


def argument_tables(data: StanceData) -> Tables:
    """The relational configs, and the view that MTEB reads, derived from them.

    In the view the corpus of ``test`` is the arguments of all test and validation claims, that of ``validation`` its
    own, and the queries are the unseen instructions in the default template; a (claim, stance) without an argument has
    none.
    """
    rows: dict[str, dict[Split, list[Row]]] = {name: {} for name in ("claims", "arguments", "relations")}
    one_sided: dict[str, list[str]] = {}
    for split in SPLITS:
        part = data.restrict({split})
        if not part.claims:
            continue
        origin = {c.claim_id: {"source": c.source, "licence": c.licence} for c in part.claims}
        rows["claims"][split] = [{c: getattr(claim, c) for c in CLAIMS} for claim in part.claims]
        rows["arguments"][split] = [{c: getattr(argument, c) for c in ARGUMENTS} for argument in part.arguments]
        rows["relations"][split] = [
            {"argument_id": r.argument_id, "claim_id": r.claim_id, "stance": r.stance, **origin[r.claim_id]}
            for r in part.relations
        ]
        sides = part.one_sided()
        one_sided[split] = [c.claim_id for c in part.claims if any(c.claim_id in sides[s] for s in STANCES)]
        if split != "train":
            for config, view in _mteb_view(data, split).items():
                rows.setdefault(config, {})[split] = view
    return Tables(_tables(rows), "claims", one_sided)


_FEATURES: dict[str, Features] = {
    "claims": CLAIMS,
    "arguments": ARGUMENTS,
    "relations": RELATIONS,
    "corpus": CORPUS,
    "queries": QUERIES,
    "qrels": QRELS,
    "inversions": INVERSIONS,
}


def _mteb_view(data: StanceData, split: Split) -> dict[str, list[Row]]:
    candidates = data.restrict({"validation", "test"} if split == "test" else {split})
    labels = candidates.labels()
    view: dict[str, list[Row]] = {
        "corpus": [
            {"_id": a.argument_id, "title": "", "text": a.text, "source": a.source, "licence": a.licence}
            for a in candidates.arguments
        ],
        "queries": [],
        "qrels": [],
    }
    for claim in data.restrict({split}).claims:
        origin = {"source": claim.source, "licence": claim.licence}
        for instruction in UNSEEN:
            relevant = [a for a, stances in labels[claim.claim_id].items() if instruction.stance in stances]
            if not relevant:
                continue
            query_id = f"{claim.claim_id}-{instruction.id}"
            view["queries"].append(
                {
                    "_id": query_id,
                    "text": format_query(DEFAULT_QUERY_TEMPLATE, instruction.text, claim.claim),
                    "claim_id": claim.claim_id,
                    "stance": instruction.stance,
                    "instruction_id": instruction.id,
                    **origin,
                }
            )
            view["qrels"] += [{"query-id": query_id, "corpus-id": a, "score": 1, **origin} for a in relevant]
    return view


def inversion_tables(data: StanceData) -> Tables:
    """The inversions with their word overlap.

    Raises:
        ValueError: If the data has none.
    """
    if not data.inversions:
        raise ValueError(f"{data.source}: there are no inversions to write")
    rows: dict[str, dict[Split, list[Row]]] = {"inversions": {}}
    for split in SPLITS:
        found = data.restrict({split}).inversions
        if found:
            rows["inversions"][split] = [
                {
                    **{c: getattr(i, c, None) for c in INVERSIONS},
                    "jaccard": jaccard(i.original, i.inverted),
                    "jaccard_lemma": lemma_jaccard(i.original, i.inverted),
                    "checks": list(i.checks),
                }
                for i in found
            ]
    return Tables(_tables(rows), "inversions", {})


def _tables(rows: dict[str, dict[Split, list[Row]]]) -> list[Table]:
    return [
        Table(config, split, _FEATURES[config], len(items), batches_of(items, _FEATURES[config]))
        for config, splits in rows.items()
        for split, items in splits.items()
    ]


def summary(name: str, tables: Tables, licences: Iterable[str]) -> str:
    """The generated part of a README: what there is, and how to load it."""
    lines = "\n".join(f"| `{t.config}` | `{t.split}` | {t.rows:,} |" for t in tables.tables)
    left_out = ", ".join(f"{len(ids)} in `{split}`" for split, ids in tables.one_sided.items()) or "none"
    of_claims = f"Claims without arguments on both sides: {left_out}. " if "-stance-" in name else ""
    return f"""# {name}

```python
from datasets import load_dataset

load_dataset("{name}", "{tables.default}")
```

| config | split | rows |
|---|---|---|
{lines}

{of_claims}Licence: {", ".join(sorted(set(licences)))}."""


def licences_of(data: StanceData) -> list[str]:
    """Every licence that a row carries."""
    return sorted({row.licence for rows in (data.claims, data.arguments, data.inversions) for row in rows})
