"""The exact graph of the ten nearest neighbours: `neighbours` against scikit-learn's brute force and bare faiss.

10,389 vectors of 512 dimensions (the writing task of OBLIQ-Bench), then 100,000; random and of unit length. Ours drops
each vector itself by its id, scores the hits anew in float64 and orders ties by id; faiss gives its own order, the
vector itself among the hits. The large graph takes minutes and is made once. Of it scikit-learn is asked for the
neighbours of 10,389, and its time goes by their share: a brute force costs the same for each.
"""

from __future__ import annotations

import numpy as np

from benchmarks.graph_others import by_faiss, by_scikit_learn
from benchmarks.measure import Row, arguments, in_turns, multiply_rate, report, row, scaled
from dataset_builders.knn import neighbours

K = 10


def rows(n: int, width: int, repeats: int, of_scikit_learn: int, rate: float) -> list[Row]:
    vectors = np.random.default_rng(0).standard_normal((n, width), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    ids = [f"d{i:06d}" for i in range(n)]
    asked = min(n, of_scikit_learn)
    whole = asked == n
    took = in_turns(
        {
            "ours": lambda: neighbours(vectors, K, ids),
            "faiss": lambda: by_faiss(vectors, K),
            "sklearn": lambda: by_scikit_learn(vectors, K, asked),
        },
        repeats if whole else 1,
        warm=whole,
    )
    what = f"exact kNN graph, {n:,} x {width}"
    found = [
        row(what, took["ours"], scaled(took["sklearn"], n / asked), ">= 2", against="scikit-learn, brute force"),
        row(what, took["ours"], took["faiss"], "<= 1.2", against="bare faiss"),
    ]
    if not whole:
        share = f"scikit-learn's time is that of {asked:,} of the queries, times {n / asked:.3g}."
        found[0]["note"], found[1]["note"] = f"measured once; {share}", "measured once."
    found[1]["share"] = round(2 * n * n * width / found[1]["ours"] / rate, 3)
    found[1]["share_of"] = "the rate of a float32 matrix product"
    return found


def main() -> None:
    asked = arguments(__doc__, small=10_389, large=100_000, width=512, of_scikit_learn=10_389)
    rate = multiply_rate()
    found = rows(asked.small, asked.width, asked.repeats, asked.of_scikit_learn, rate)
    report(found + rows(asked.large, asked.width, asked.repeats, asked.of_scikit_learn, rate), asked.out)


if __name__ == "__main__":
    main()
