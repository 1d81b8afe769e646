"""The row types and their explicit ``datasets.Features``: the only place where a column is named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from datasets import Features, List, Value

from dataset_builders.choices import Lens as Lens
from dataset_builders.instructions import Stance
from dataset_builders.text import did_you_mean

Style = Literal["explicit", "natural"]
Split = Literal["train", "validation", "test"]
NegativeKind = Literal["hard", "semi_hard", "easy", "inverted"]
Curriculum = Literal["homogeneous", "mixed", "mixed_aug"]

STYLES: tuple[Style, ...] = get_args(Style)
SPLITS: tuple[Split, ...] = get_args(Split)
CURRICULA: tuple[Curriculum, ...] = get_args(Curriculum)
LENSES: tuple[Lens, ...] = get_args(Lens)
"""How an oblique query was made: by one of the three lenses, from the style graph, or by the one generic prompt that
stands in for the lenses where they are measured against it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim. ``group_id`` ties near-duplicate claims and claims that share an argument; splits never cut a group."""

    claim_id: str
    claim: str
    domain: str | None
    veracity: str | None
    group_id: str
    split: Split | None
    source: str
    licence: str


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument; ``style`` says whether it names its verdict (``explicit``) or not (``natural``)."""

    argument_id: str
    text: str
    style: Style | None
    source: str
    licence: str


@dataclass(frozen=True, slots=True)
class Relation:
    """One argument's stance towards one claim."""

    argument_id: str
    claim_id: str
    stance: Stance


@dataclass(frozen=True, slots=True)
class Inversion:
    """An argument rewritten so that its facts stand and its stance towards the claim flips (S 5.2, appendix H)."""

    inversion_id: str
    claim_id: str
    claim: str
    argument_id: str
    original: str
    original_stance: Stance
    style: Style | None
    inverted: str
    generator: str
    prompt_sha256: str | None
    source: str
    licence: str
    checks: tuple[str, ...] = ()


_TEXT = Value("string")
_ORIGIN = {"source": _TEXT, "licence": _TEXT}

CLAIMS = Features(
    {"claim_id": _TEXT, "claim": _TEXT, "domain": _TEXT, "veracity": _TEXT, "group_id": _TEXT, **_ORIGIN}
)
ARGUMENTS = Features({"argument_id": _TEXT, "text": _TEXT, "style": _TEXT, **_ORIGIN})
RELATIONS = Features({"argument_id": _TEXT, "claim_id": _TEXT, "stance": _TEXT, **_ORIGIN})
CORPUS = Features({"_id": _TEXT, "title": _TEXT, "text": _TEXT, **_ORIGIN})
QUERIES = Features(
    {"_id": _TEXT, "text": _TEXT, "claim_id": _TEXT, "stance": _TEXT, "instruction_id": _TEXT, **_ORIGIN}
)
QRELS = Features({"query-id": _TEXT, "corpus-id": _TEXT, "score": Value("int32"), **_ORIGIN})
OBLIQUE_QUERIES = Features({"_id": _TEXT, "text": _TEXT, "group_id": _TEXT, **_ORIGIN})
EXCLUDED = Features({"query-id": _TEXT, "corpus-id": _TEXT, **_ORIGIN})
TRIPLETS = Features(
    {
        "claim_id": _TEXT,
        "instruction": _TEXT,
        "claim": _TEXT,
        "stance": _TEXT,
        "positive_id": _TEXT,
        "positive": _TEXT,
        "negatives": List({"id": _TEXT, "text": _TEXT, "kind": _TEXT}),
        **_ORIGIN,
    }
)
INVERSIONS = Features(
    {
        "inversion_id": _TEXT,
        "claim_id": _TEXT,
        "claim": _TEXT,
        "argument_id": _TEXT,
        "original": _TEXT,
        "original_stance": _TEXT,
        "style": _TEXT,
        "inverted": _TEXT,
        "jaccard": Value("float64"),
        "jaccard_lemma": Value("float64"),
        "checks": List(_TEXT),
        "generator": _TEXT,
        "prompt_sha256": _TEXT,
        **_ORIGIN,
    }
)

_OBLIQUE_HEAD = {"task": _TEXT, "lens": _TEXT, "instruction": _TEXT, "query": _TEXT}
_OBLIQUE_TAIL = {
    "positive_id": _TEXT,
    "positive": _TEXT,
    "negatives": List({"id": _TEXT, "text": _TEXT, "kind": _TEXT}),
    "attribute": _TEXT,
    "generator": _TEXT,
    **_ORIGIN,
}
OBLIQUE_ROWS = Features({**_OBLIQUE_HEAD, **_OBLIQUE_TAIL})
STYLE_PAIRS = Features({**_OBLIQUE_HEAD, "anchor_id": _TEXT, **_OBLIQUE_TAIL})


def same_columns(got: list[str], wanted: Features, where: str) -> None:
    """Refuse a table whose columns are not those of the contract.

    Raises:
        ValueError: Naming each column that is missing or unknown, with the nearest known name.
    """
    missing = [c for c in wanted if c not in got]
    unknown = [c for c in got if c not in wanted]
    if missing or unknown:
        hints = "".join(did_you_mean(c, list(wanted)) for c in unknown)
        raise ValueError(
            f"{where}: got columns {got}, wanted {list(wanted)}; missing {missing}, unknown {unknown}.{hints}"
        )
