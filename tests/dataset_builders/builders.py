"""Small stance data for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from dataset_builders.instructions import Stance
from dataset_builders.schema import Argument, Claim, Inversion, Relation, Split
from dataset_builders.stance.data import StanceData

Sides = dict[str, dict[Stance, list[str]]]


def stance_data(
    sides: Sides,
    groups: dict[str, str] | None = None,
    inverted: dict[tuple[str, str], str] | None = None,
    split: Split | None = "train",
) -> StanceData:
    """Stance data from ``{claim: {stance: [text, …]}}``; the claim is its own id, a text too."""
    groups = groups or {}
    texts = dict.fromkeys(t for side in sides.values() for s in side.values() for t in s)
    return StanceData(
        source="made-up",
        claims=[Claim(c, c, None, None, groups.get(c, c), split, "made-up", "cc0-1.0") for c in sides],
        arguments=[Argument(t, t, None, "made-up", "cc0-1.0") for t in texts],
        relations=[Relation(t, c, s) for c, side in sides.items() for s, ts in side.items() for t in ts],
        inversions=[
            Inversion(f"{t}/{c}-inv", c, c, t, t, s, None, new, "authored", None, "made-up", "cc0-1.0")
            for (c, t), new in (inverted or {}).items()
            for s, ts in sides[c].items()
            if t in ts
        ],
    )


def plain(n_claims: int, per_side: int = 3, inversions: bool = True) -> StanceData:
    """``n_claims`` claims with ``per_side`` arguments each way, all different, every argument with its inversion."""
    sides: Sides = {
        f"c{i:02d}": {
            "support": [f"c{i:02d} s{k}" for k in range(per_side)],
            "attack": [f"c{i:02d} a{k}" for k in range(per_side)],
        }
        for i in range(n_claims)
    }
    inverted = {(c, t): f"{t} inverted" for c, side in sides.items() for ts in side.values() for t in ts}
    return stance_data(sides, inverted=inverted if inversions else None)


@st.composite
def tangled(draw: st.DrawFn) -> StanceData:
    """Claims that share arguments and groups, with one-sided ones and texts that differ in case and space only."""
    pool = [f"text {i}" for i in range(12)] + ["TEXT 0", " text 1 ", "Text 2"]
    claims = [f"claim {i}" for i in range(draw(st.integers(2, 5)))]
    texts = st.lists(st.sampled_from(pool), max_size=4, unique=True)
    sides: Sides = {c: {"support": draw(texts), "attack": draw(texts)} for c in claims}
    groups = {c: draw(st.sampled_from(["g1", "g2", "g3"])) for c in claims}
    return stance_data(sides, groups)


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    """JSONL with raw Unicode and LF."""
    path.write_bytes("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())
    return path
