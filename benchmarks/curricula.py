"""The three curricula with their parquet files: 31,800 triplets each, and ten million each.

31,800 come of 265 made-up claims with three arguments a side, as in the stance paper (5.1), in this process; ten
million of 10,000 such claims in a process of its own, whose memory is that of everything: Python, libraries, claims,
rows. There is no opponent: theirs is the limit.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import arguments, child, in_turns, peak_memory, report, row, seconds
from benchmarks.synthetic import texts
from dataset_builders import folder
from dataset_builders.instructions import STANCES
from dataset_builders.schema import Argument, Claim, Inversion, Relation
from dataset_builders.stance import tables
from dataset_builders.stance.data import StanceData

A_SIDE = 3
LICENCE = "cc0-1.0"


def claims_of(number: int) -> StanceData:
    """Claims of about 10 words, arguments and inversions of about 20, of which every argument has one."""
    made = iter(texts(number * (1 + 4 * A_SIDE), 10, 30, seed=0))
    data = StanceData("made-up", [], [], [], [])
    for c in range(number):
        claim = Claim(f"c{c:05d}", next(made), None, None, f"g{c:05d}", "train", "made-up", LICENCE)
        data.claims.append(claim)
        for stance in STANCES:
            for a in range(A_SIDE):
                argument = Argument(f"{claim.claim_id}-{stance}-{a}", next(made), "explicit", "made-up", LICENCE)
                data.arguments.append(argument)
                data.relations.append(Relation(argument.argument_id, claim.claim_id, stance))
                data.inversions.append(
                    Inversion(
                        f"{argument.argument_id}-inv", claim.claim_id, claim.claim, argument.argument_id,
                        argument.text, stance, "explicit", next(made), "made-up", None, "made-up", LICENCE,
                    )
                )  # fmt: skip
    return data


def write(data: StanceData, triplets: int, out: Path) -> None:
    """What ``python -m dataset_builders build`` does with claims that are read."""
    made = tables.triplet_tables(data, triplets=triplets, seed=0)
    folder.write(out, made.tables, default=made.default, licences=[LICENCE], summary="# Triplets", facts={})


def large(claims: int, triplets: int) -> dict[str, float]:
    """Seconds and bytes of memory of this process."""
    data = claims_of(claims)
    with tempfile.TemporaryDirectory() as scratch:
        took = seconds(lambda: write(data, triplets, Path(scratch) / "out"))
    return {"seconds": took, "peak": peak_memory()}


def main() -> None:
    asked = arguments(__doc__, triplets=31_800, many=10_000_000, claims=10_000)
    data = claims_of(265)
    with tempfile.TemporaryDirectory() as scratch:
        numbers = iter(range(asked.repeats + 1))
        took = in_turns(
            {"ours": lambda: write(data, asked.triplets, Path(scratch) / str(next(numbers)))}, asked.repeats
        )
    found = child("benchmarks.curricula", "--large", asked.claims, asked.many)
    many = f"three curricula of {asked.many:,} triplets, with parquet"
    report(
        [
            row(
                f"three curricula of {asked.triplets:,} triplets, with parquet", took["ours"], 1, "<= 1", against="1 s"
            ),
            row(many, found["seconds"], 300, "<= 1", against="5 min", note="measured once."),
            row(f"{many}: memory", found["peak"] / 1e9, 1, "<= 1", against="1 GB", unit="GB", note="measured once."),
        ],
        asked.out,
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--large"]:
        print(json.dumps(large(*map(int, sys.argv[2:4])), allow_nan=False))
    else:
        main()
