"""The paired bootstrap against scipy's: 10,000 resamples of 512 queries, each a unit of its own.

Ours gives the p-value of the sign-flip test too, scipy the interval alone. The differences are normal, with the spread
that NDCG@10 has between two encoders.
"""

from __future__ import annotations

import numpy as np

from benchmarks.bootstrap_scipy import interval
from benchmarks.measure import arguments, in_turns, report, row
from hub_models.evaluation.significance import paired_difference

LEVEL = 0.95


def main() -> None:
    asked = arguments(__doc__, resamples=10_000, units=512)
    rng = np.random.default_rng(0)
    one, other = rng.normal(0.52, 0.14, asked.units), rng.normal(0.5, 0.14, asked.units)
    units = [f"c{i}" for i in range(asked.units)]

    def ours() -> tuple[float, float]:
        found = paired_difference(one - other, units, level=LEVEL, resamples=asked.resamples)
        return found.low or 0.0, found.high or 0.0

    def theirs() -> tuple[float, float]:
        return interval(one, other, asked.resamples, LEVEL, 0)

    gap = float(np.abs(np.subtract(ours(), theirs())).max())
    took = in_turns({"ours": ours, "theirs": theirs}, 5 * asked.repeats)  # a turn takes a moment
    what = f"{asked.resamples:,} x {asked.units}"
    scipy = "scipy.stats.bootstrap"
    report(
        [
            row(f"paired bootstrap, {what}", took["ours"], took["theirs"], ">= 5", against=scipy),
            row(f"ends of its interval, {what}", gap, 1e-3, "<= 1", against=f"{scipy}: at most 1e-3 apart", unit=""),
        ],
        asked.out,
    )


if __name__ == "__main__":
    main()
