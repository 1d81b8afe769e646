"""The paired bootstrap against scipy's: 10,000 resamples of 512 queries, each a unit of its own.

Ours gives the p-value of the sign-flip test too, scipy the interval alone. The differences are normal, with the spread
that NDCG@10 has between two encoders. scipy has a form for pairs, which is the one with a bound; that it is quicker
with the differences as one sample stands beside it.
"""

from __future__ import annotations

import numpy as np

from benchmarks.bootstrap_scipy import interval, interval_of_one_sample
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

    def of_differences() -> tuple[float, float]:
        return interval_of_one_sample(one - other, asked.resamples, LEVEL, 0)

    gap = float(np.abs(np.subtract(ours(), theirs())).max())
    calls = {"ours": ours, "theirs": theirs, "differences": of_differences}
    took = in_turns(calls, 5 * asked.repeats)  # a turn takes a moment
    what = f"{asked.resamples:,} x {asked.units}"
    scipy = "scipy.stats.bootstrap"
    report(
        [
            row(f"paired bootstrap, {what}", took["ours"], took["theirs"], ">= 5", against=f"{scipy}, paired=True"),
            row(
                f"paired bootstrap, {what}",
                took["ours"],
                took["differences"],
                None,
                against=f"{scipy}, differences as one sample",
                note="the bound is on the form that scipy has for pairs. Whoever subtracts first, as callers of ours "
                "do, leaves scipy one sample to draw, which is faster. Ours gives a p-value besides.",
            ),
            row(f"ends of its interval, {what}", gap, 1e-3, "<= 1", against=f"{scipy}: at most 1e-3 apart", unit=""),
        ],
        asked.out,
    )


if __name__ == "__main__":
    main()
