"""Recall and time of the approximate neighbour search on clustered vectors: ``python -m benchmarks.neighbours``.

A vector is its cluster's centre plus noise: with a spread of 1 noise and centres have the same variance, with 2 the
clusters overlap, and with 4 there is little of them left.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.synthetic import clustered
from dataset_builders.atomic import write_text
from dataset_builders.knn import approximate_neighbours

K = 10
ASKED = 1_000
PER_CLUSTER = 1_000


def measure(n: int, width: int, spread: float) -> dict[str, float]:
    """Recall at 10 over `ASKED` of the vectors against a full scan of all, and the seconds that all n took."""
    vectors = clustered(n, width, spread, seed=0, per_cluster=PER_CLUSTER)
    start = time.monotonic()
    found = approximate_neighbours(vectors, K, [str(i) for i in range(n)])
    seconds = time.monotonic() - start
    asked = np.sort(np.random.default_rng(1).permutation(n)[:ASKED])
    hits = 0
    for i in asked:
        scores = vectors @ vectors[i]
        scores[i] = -2
        exact = {str(j) for j in np.argpartition(-scores, K)[:K]}
        hits += len(exact & {neighbour for neighbour, _ in found[i]})
    return {
        "vectors": n,
        "dimensions": width,
        "spread": spread,
        "recall_at_10": hits / (K * len(asked)),
        "seconds": round(seconds, 1),
    }


def main(
    out: Annotated[Path, typer.Option(dir_okay=False, help="JSON file for the figures.")],
    n: Annotated[list[int], typer.Option(min=1_000, help="Vectors; may be repeated.")] = [100_000, 1_000_000],  # noqa: B006
    width: Annotated[int, typer.Option(min=2, help="Dimensions.")] = 64,
    spread: Annotated[list[float], typer.Option(min=0, help="Noise over centres; may be repeated.")] = [1.0, 2.0],  # noqa: B006
) -> None:
    """Measure and print."""
    rows = []
    for number in n:
        for noise in spread:
            rows.append(measure(number, width, noise))
            typer.echo(json.dumps(rows[-1], allow_nan=False))
            write_text(out, json.dumps(rows, indent=2, allow_nan=False) + "\n")


if __name__ == "__main__":
    typer.run(main)
