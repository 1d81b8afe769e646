"""Triplets with more negatives a row: the hard one, an argument of the same stance on a near claim, the inversion.

``python benchmarks/near_negatives.py OUT.parquet`` takes the homogeneous train triplets of the embedded sample. A near
claim's argument is drawn from the ten that BM25 puts first for the claim, among arguments of the same stance in other
groups of claims. ``train.py --set data.0.path=OUT.parquet negatives_per_anchor=2`` trains on the first two.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dataset_builders.atomic import write_with
from dataset_builders.instructions import STANCES, Stance
from dataset_builders.lexical import BM25
from dataset_builders.schema import TRIPLETS
from dataset_builders.sources import load
from dataset_builders.stance.curricula import build

NEAR = 10  # arguments that one is drawn from


def main(out: Path) -> None:
    data = load("sample").restrict({"train"})
    claims = {c.claim_id: c for c in data.claims}
    texts = {a.argument_id: a.text for a in data.arguments}
    inversions = {i.argument_id: i for i in data.inversions}
    indexes, groups = {}, {}
    for stance in STANCES:
        found = [r for r in data.relations if r.stance == stance]
        indexes[stance] = BM25([texts[r.argument_id] for r in found], [r.argument_id for r in found])
        groups[stance] = {r.argument_id: claims[r.claim_id].group_id for r in found}

    @functools.cache
    def near(claim_id: str, stance: Stance) -> list[str]:
        claim = claims[claim_id]
        ranked = indexes[stance].search(claim.claim, len(groups[stance]))
        return [a for a, _ in ranked if groups[stance][a] != claim.group_id][:NEAR]

    random = np.random.default_rng(0)
    rows = []
    for batch in build(data, seed=0)["homogeneous"].batches():
        for row in batch.to_pylist():
            drawn = str(random.choice(near(row["claim_id"], row["stance"])))
            inversion = inversions[row["positive_id"]]
            row["negatives"] += [
                {"id": drawn, "text": texts[drawn], "kind": "semi_hard"},
                {"id": inversion.inversion_id, "text": inversion.inverted, "kind": "inverted"},
            ]
            rows.append(row)
    table = pa.Table.from_pylist(rows, schema=TRIPLETS.arrow_schema)
    write_with(out, lambda file: pq.write_table(table, file))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
