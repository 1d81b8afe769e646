"""The tables and bounds of stance data: those of every source, and those that the sample was written to."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import yaml

from dataset_builders.checks import Check, Part, none_of, show
from dataset_builders.instructions import STANCES
from dataset_builders.schema import STYLES, Split
from dataset_builders.stance import statistics as st
from dataset_builders.stance.data import StanceData
from dataset_builders.stance.overlap import shared_arguments, shared_claims
from dataset_builders.text import text_key

# Public reference points: S 5.2 for the overlaps; the cue was measured on Perspectrum's and KPA's arguments.
_REFERENCE = {"natural": "S: .094", "inversions": "S: .587", "words": "Perspectrum .641, KPA .553"}
_CLAIMS: dict[Split, int] = {"train": 120, "validation": 20, "test": 40}
# The stance paper's own table 1, where the project's results lie beside the package.
_PUBLISHED = Path(__file__).parents[2] / "results" / "published" / "stance.yaml"
_PUBLISHED_NAME = {"tfu": "tfu-training"}
_CUES = ("words", "length", "punctuation", "sentences")


def measure(data: StanceData, *, sample: bool = False) -> Part:
    """Statistics of any stance source. Nothing may be shared by two splits, and no text be of both stances.

    Args:
        data: The source.
        sample: Hold it against the bounds that the sample was written to as well.
    """
    part = Part()
    rows = [["split", "claims", "total sup.", "avg sup. (min-max)", "total att.", "avg att. (min-max)"]]
    splits = {}
    sizes = st.sizes(data)
    for s in sizes:
        per_claim = {k: f"{avg:.2f} ({low}-{high})" for k, (avg, low, high) in s.per_claim.items()}
        rows.append(
            [
                s.split,
                show(s.claims),
                show(s.total["support"]),
                per_claim["support"],
                show(s.total["attack"]),
                per_claim["attack"],
            ]
        )
        splits[s.split] = {"claims": s.claims} | {str(k): n for k, n in s.total.items()}
    part.tables["Stance data (S table 1)"] = rows + _beside(data.source, sizes)
    if data.counts:
        part.tables["Merged or left out in reading"] = [
            ["", "number"],
            *([w, show(n)] for w, n in data.counts.items()),
        ]

    jaccard = {
        name: {"all": of(data, None)} | {str(style): of(data, style) for style in STYLES}
        for name, of in (("natural pairs", st.natural_overlap), ("inversions", st.inversion_overlap))
    }
    part.tables["Word Jaccard"] = [
        ["", "all", *STYLES, ""],
        *([name, *(show(v) for v in found.values()), _REFERENCE[name.split()[0]]] for name, found in jaccard.items()),
    ]
    told = {style: st.inversion_cue_accuracy(data, style) for style in STYLES}
    cues = {style: st.cue_accuracy(data, style) for style in STYLES}
    part.tables["Stance from surface features: accuracy, 10 folds by claim"] = [
        ["", *STYLES, ""],
        *([name, *(show(cues[s].get(name)) for s in STYLES), _REFERENCE.get(name, "")] for name in _CUES),
        ["inversion against original, words", *(show(told[s]) for s in STYLES), ""],
    ]
    near_claims, near_arguments = st.duplicate_claims(data), st.duplicate_arguments(data)
    conflicts, shared = st.conflicts(data), st.shared_between_splits(data, near_claims, near_arguments)
    skeletons = st.sharing_a_skeleton(st.bodies(data))
    part.statistics = {
        "splits": splits,
        "domains": len({c.domain for c in data.claims if c.domain}),
        "groups": len({c.group_id for c in data.claims}),
        "styles": {s: sum(a.style == s for a in data.arguments) for s in STYLES},
        "inversions": len(data.inversions),
        "near_duplicates": {"claims": len(near_claims), "arguments": len(near_arguments)},
        "one_sided": {s: len(ids) for s, ids in data.one_sided().items()},
        "jaccard": jaccard,
        "cue_accuracy": cues,
        "inversion_cue_accuracy": told,
        "skeleton_share": len(skeletons) / len(data.arguments) if data.arguments else None,
    }
    part.tables["Counts"] = [
        ["domains", "groups", "near-duplicate claims", "near-duplicate arguments", "one-sided claims", "inversions"],
        [
            show(part.statistics["domains"]),
            show(part.statistics["groups"]),
            show(len(near_claims)),
            show(len(near_arguments)),
            show(sum(part.statistics["one_sided"].values())),
            show(len(data.inversions)),
        ],
    ]
    part.checks = [
        none_of("texts of both stances to one claim", conflicts),
        none_of("claims among their own arguments", st.own_arguments(data)),
    ]
    part.checks += [none_of(f"{what} in two splits", found) for what, found in shared.items()]
    if sample:
        part.checks += _counts(data)
        part.checks += [
            none_of("near-duplicate claims", near_claims),
            none_of("near-duplicate arguments", near_arguments),
            Check(
                "share of arguments with another's skeleton",
                len(skeletons) / len(data.arguments),
                0.01,
                faults=tuple(skeletons),
            ),
        ]
        part.checks += _inversions(data)
        natural = cues["natural"]
        part.checks += [Check(f"natural: stance from {name}, accuracy", natural[name], 0.65) for name in _CUES]
    return part


def _beside(source: str, sizes: list[st.SplitSizes]) -> list[list[str]]:
    """The paper's row for a source that it has, and how far ours is from it."""
    if not _PUBLISHED.is_file():
        return []
    page = yaml.safe_load(_PUBLISHED.read_text(encoding="utf-8"))
    table = page["tables"]["1"]
    name = _PUBLISHED_NAME.get(source, source)
    if name not in table["rows"]:
        return []
    row = dict(zip(table["columns"], table["rows"][name], strict=True))
    cells, gap = (
        [f"S: {name}", show(row["claims"])],
        ["ours - S", f"{sum(s.claims for s in sizes) - row['claims']:+,}"],
    )
    for stance in STANCES:
        span = f"{row[f'{stance}_min']}-{row[f'{stance}_max']}"
        cells += [show(row[stance]), f"{row[f'{stance}_per_claim']:.2f} ({span})"]
        gap += [f"{sum(s.total[stance] for s in sizes) - row[stance]:+,}", ""]
    return [cells, gap]


def overlap(data: StanceData, other: StanceData) -> Part:
    """How many texts of a source another one has too, and which claims."""
    part = Part()
    found = {"claims": shared_claims(data, other), "arguments": shared_arguments(data, other)}
    part.tables[f"Shared with {other.source}"] = [
        ["", "of", "equal", "near-duplicate"],
        *([what, show(f.total), show(len(f.equal)), show(len(f.near))] for what, f in found.items()),
    ]
    pairs = [*((text, text) for text in found["claims"].equal), *found["claims"].near]
    if pairs:
        part.tables[f"Claims shared with {other.source}"] = [["ours", "theirs"], *map(list, pairs)]
    part.statistics = {
        what: {"total": f.total, "equal": len(f.equal), "near": len(f.near)} for what, f in found.items()
    }
    return part


def _counts(data: StanceData) -> list[Check]:
    claims = Counter(c.split for c in data.claims)
    style_of = {a.argument_id: a.style for a in data.arguments}
    cells = Counter((r.claim_id, r.stance, style_of[r.argument_id]) for r in data.relations)
    sides = [(c.claim_id, s, [cells[c.claim_id, s, style] for style in STYLES]) for c in data.claims for s in STANCES]
    texts = {a.argument_id: a.text for a in data.arguments} | {i.inversion_id: i.inverted for i in data.inversions}
    keys = Counter(text_key(t) for t in texts.values())
    return [
        Check("claims", len(data.claims), 180, at_least=True),
        *(Check(f"claims of {split}", claims[split], n, at_least=True) for split, n in _CLAIMS.items()),
        Check("domains", len({c.domain for c in data.claims}), 15, at_least=True),
        Check("kinds of veracity", len({c.veracity for c in data.claims}), 3, at_least=True),
        Check("arguments", len(data.arguments), 1400, at_least=True),
        none_of("claims' sides without 3 to 5 arguments", [(c, s) for c, s, n in sides if not 3 <= sum(n) <= 5]),
        none_of("claims' sides not half explicit, half natural", [(c, s) for c, s, n in sides if len(set(n)) > 1]),
        none_of("texts that occur twice, inversions included", [i for i, t in texts.items() if keys[text_key(t)] > 1]),
    ]


def _inversions(data: StanceData) -> list[Check]:
    split_of = {c.claim_id: c.split for c in data.claims}
    inverted = {i.argument_id for i in data.inversions}
    wanted = {r.argument_id for r in data.relations if split_of[r.claim_id] in ("train", "test")}
    although = st.by_although(data.inversions)
    return [
        none_of("train and test arguments without an inversion", sorted(wanted - inverted)),
        none_of("inversions that merely negate", st.merely_negated(data.inversions)),
        Check("share of inversions by 'although'", len(although) / len(data.inversions), 0.1, faults=tuple(although)),
        Check("word Jaccard of inversions", st.inversion_overlap(data) or 0.0, 0.5, at_least=True),
    ]
