"""The tables and bounds of stance data: those of every source, and those that the sample was written to."""

from __future__ import annotations

from collections import Counter

from dataset_builders.checks import Check, Part, none_of, show
from dataset_builders.instructions import STANCES
from dataset_builders.schema import STYLES, Split
from dataset_builders.stance import statistics as st
from dataset_builders.stance.data import StanceData
from dataset_builders.text import text_key

# Public reference points: S 5.2 for the overlaps; the cue was measured on Perspectrum's and KPA's arguments.
_REFERENCE = {"natural": "S: .094", "inversions": "S: .587", "words": "Perspectrum .641, KPA .553"}
_CLAIMS: dict[Split, int] = {"train": 120, "validation": 20, "test": 40}
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
    for s in st.sizes(data):
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
    part.tables["Stance data (S table 1)"] = rows

    overlap = {
        name: {"all": of(data, None)} | {str(style): of(data, style) for style in STYLES}
        for name, of in (("natural pairs", st.natural_overlap), ("inversions", st.inversion_overlap))
    }
    part.tables["Word Jaccard"] = [
        ["", "all", *STYLES, ""],
        *([name, *(show(v) for v in found.values()), _REFERENCE[name.split()[0]]] for name, found in overlap.items()),
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
        "jaccard": overlap,
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
    part.checks = [none_of("texts of both stances to one claim", conflicts)]
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
