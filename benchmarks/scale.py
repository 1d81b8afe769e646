"""How time and memory grow from a thousand to a million documents, or triplets: ``python -m benchmarks.scale``.

Each point is measured in a process of its own, whose memory is its own then: the most that it had at a time, less what
it had once everything was imported. Points stand in ``benchmarks/results/scale.json`` as soon as they are measured and
are not measured twice, unless the machine or a library is another one now; delete the file to begin anew. Figure and
table go into ``benchmarks/README.md``. Some ten minutes on one idle core, and 4 GB of memory.

Texts are made of the sample's words, as often as they are there. Up to 10,000 documents their vectors are those of
all-MiniLM-L6-v2; above, and for all queries beside them, they are drawn: clusters of a thousand, 384 dimensions.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import __main__ as table
from benchmarks.growth import ENCODED, FITTED_FROM, fitted, series
from benchmarks.measure import ROOT, child, memory, peak_memory, report
from benchmarks.synthetic import clustered
from dataset_builders.atomic import write_text

POINTS = ROOT / "benchmarks" / "results" / "scale.json"
FIGURES = ROOT / "benchmarks" / "figures"
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
WIDTH, WORDS, QUERIES = 384, 20, 20
BLOCK = 10_000

Times = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="also write the rows to this JSON file")
    parser.add_argument("--points", type=Path, default=POINTS, help="where measured points are kept")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="folder of scale.png and scale.svg")
    parser.add_argument("--most", type=int, default=SIZES[-1], help="no point with more documents than this")
    parser.add_argument("--point", nargs=2, metavar=("STAGE", "N"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.point:
        print(json.dumps(measured(asked.point[0], int(asked.point[1])), allow_nan=False))
        return
    os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")})
    kept = {"machine": table.machine(), "versions": table.versions(), "points": found_before(asked.points)}
    points = kept["points"]
    there = {(p["stage"], p["n"]) for p in points}
    for n in SIZES:  # vectors that are gone are made anew where they are still wanted
        if not encoded_file(n).exists() and not {("dense", n), ("hybrid", n)} <= there:
            points[:] = [p for p in points if (p["stage"], p["n"]) != ("encoding", n)]
            there.discard(("encoding", n))
    for n in (n for n in SIZES if n <= asked.most):
        for stage in (s for s in STAGES if (s, n) not in there and (s != "encoding" or n <= ENCODED)):
            points.append({"stage": stage, "n": n, **in_a_child(stage, n)})
            print(json.dumps(points[-1], allow_nan=False), file=sys.stderr, flush=True)
            asked.points.parent.mkdir(parents=True, exist_ok=True)
            write_text(asked.points, json.dumps(kept, indent=1, allow_nan=False) + "\n")
    rows = fitted(points)
    report(rows, asked.out)
    draw(points, rows, asked.figures)
    if asked.points == POINTS:
        write_text(ROOT / "benchmarks" / "README.md", table.page(table.RESULTS))


def found_before(file: Path) -> list[dict[str, Any]]:
    """The points of ``file``, if this machine measured them with these libraries."""
    if not file.exists():
        return []
    kept = json.loads(file.read_text())
    now = table.machine() | {"date": kept["machine"]["date"]}
    return list(kept["points"]) if (kept["machine"], kept["versions"]) == (now, table.versions()) else []


def in_a_child(stage: str, n: int) -> dict[str, Any]:
    """A point, measured in a process of its own."""
    point: dict[str, Any] = child("benchmarks.scale", "--point", stage, n)
    return point


def measured(stage: str, n: int) -> dict[str, Any]:
    """What a child says: processor seconds of each of the stage's operations, and MiB beyond the imports."""
    operation = STAGES[stage]()
    words()
    before, times = memory(), Times()
    operation(n, times)
    mib = (peak_memory() - before) / 2**20
    return {"seconds": {k: round(v, 6) for k, v in times.items()}, "mib": round(mib, 2)}


@contextmanager
def timed(times: Times, name: str, calls: int = 1) -> Iterator[None]:
    """Processor seconds of what is inside, by the call: other processes of the machine do not count."""
    start = time.process_time()
    yield
    times[name] = (time.process_time() - start) / calls


# -- inputs: the same for the same n --------------------------------------------------------------------------------


@functools.cache
def words() -> tuple[list[str], Any]:
    """The distinct words of the sample's arguments, and the share of each."""
    from dataset_builders.lexical import tokenize
    from dataset_builders.sources import load

    found, counts = np.unique([w for a in load("sample").arguments for w in tokenize(a.text)], return_counts=True)
    return [str(w) for w in found], counts / counts.sum()


def texts(n: int, seed: int = 0) -> list[str]:
    vocabulary, shares = words()
    rng = np.random.default_rng(seed)
    found: list[str] = []
    while len(found) < n:  # a block at a time: what inputs take on the way is no memory of the stage
        block = rng.choice(len(vocabulary), (min(BLOCK, n - len(found)), WORDS), p=shares).tolist()
        found += [" ".join(vocabulary[w] for w in row) for row in block]
    return found


def drawn(n: int, seed: int = 0, spread: float = 1.0) -> Any:
    """float32[n, 384] of unit length, in clusters of about a thousand; noise ``spread`` times as wide as centres."""
    return clustered(n, WIDTH, spread, seed, block=BLOCK)


def vectors(n: int) -> Any:
    return np.load(encoded_file(n)) if n <= ENCODED else drawn(n)


def encoded_file(n: int) -> Path:
    """What the stage ``encoding`` leaves for those that search."""
    return Path(tempfile.gettempdir()) / f"slant-scale-{n}.npy"


# -- stages: imports first, then what is measured -------------------------------------------------------------------


def curricula() -> Callable[[int, Times], None]:
    from dataset_builders.instructions import SEEN, STANCES
    from dataset_builders.schema import Argument, Claim, Relation
    from dataset_builders.stance.curricula import TRIPLETS_PER_CELL, build
    from dataset_builders.stance.data import StanceData

    def run(n: int, times: Times) -> None:
        k = max(3, n // (len(SEEN) * TRIPLETS_PER_CELL))  # eight arguments a claim, as in the sample
        lines = texts(9 * k)
        common = {"source": "scale", "licence": "cc0-1.0"}
        claims = [Claim(f"c{i}", lines[i], None, None, f"g{i}", "train", **common) for i in range(k)]
        arguments = [Argument(f"a{i}", f"{lines[k + i]} {i}", None, **common) for i in range(8 * k)]
        relations = [Relation(f"a{i}", f"c{i // 8}", STANCES[i % 2]) for i in range(8 * k)]
        data = StanceData("scale", claims, arguments, relations)
        with timed(times, "curricula"):
            for triplets in build(data, triplets=n).values():
                for _ in triplets.batches():
                    pass

    return run


def bm25() -> Callable[[int, Times], None]:
    from dataset_builders.lexical import BM25

    def run(n: int, times: Times) -> None:
        documents = texts(n)
        with timed(times, "BM25 index"):
            BM25(documents, [str(i) for i in range(n)])

    return run


def negatives() -> Callable[[int, Times], None]:
    from dataset_builders.negatives import Miner

    def run(n: int, times: Times) -> None:
        corpus = {str(i): text for i, text in enumerate(texts(n))}
        miner = Miner(corpus)
        queries = texts(QUERIES, seed=1)
        with timed(times, "hard negatives, a query", QUERIES):
            for i, query in enumerate(queries):
                miner.mine(query, [str(i)])

    return run


def dense() -> Callable[[int, Times], None]:
    from hub_models.retrieval.dense import DenseIndex
    from hub_models.retrieval.ranking import Documents

    def run(n: int, times: Times) -> None:
        documents = Documents(texts(n))
        found = vectors(n)
        with timed(times, "dense index"):
            index = DenseIndex(documents.texts, found)
        with timed(times, "dense search, a query", QUERIES):
            for query in drawn(QUERIES, seed=1):
                documents.best(index.scores(query[None])[0].astype(np.float64), 10)

    return run


def hybrid() -> Callable[[int, Times], None]:
    from hub_models.retrieval.dense import DenseIndex
    from hub_models.retrieval.ranking import Documents, Ranking

    def run(n: int, times: Times) -> None:
        documents = Documents(texts(n))
        index, lexical = DenseIndex(documents.texts, vectors(n)), documents.bm25
        asked = list(zip(texts(QUERIES, seed=1), drawn(QUERIES, seed=1), strict=True))
        with timed(times, "hybrid search, a query", QUERIES):  # as `TextSearch` does it, the encoder left out
            for text, query in asked:
                scores = index.scores(query[None])[0].astype(np.float64)
                matched = lexical.scores(text).astype(np.float64)
                fused = documents.fused(scores, matched, 0.1, documents.depth)
                Ranking(documents, scores, matched, fused, 0.1).hits(10)

    return run


def sampler() -> Callable[[int, Times], None]:
    from hub_models.batching import DistinctClaimBatchSampler, RowKeys

    def run(n: int, times: Times) -> None:
        claims = [f"c{i % (n // 100)}" for i in range(n)]  # 100 rows a claim, each with a positive of 40
        positives = [f"{claim} {i % 40}" for i, claim in enumerate(claims)]
        other = [[f"other {i}"] for i in range(n)]
        with timed(times, "sampler plan"):
            keys = RowKeys.from_columns(claims, claims, ["support"] * n, positives, other)
            DistinctClaimBatchSampler(range(n), 8, keys=keys)

    return run


def encoding() -> Callable[[int, Times], None]:
    from hub_models.corpus import encode_corpus
    from hub_models.encoder import load
    from hub_models.hub_cache import SAMPLE_BASE, use_project_cache

    use_project_cache()
    model = load(SAMPLE_BASE)

    def run(n: int, times: Times) -> None:
        documents = texts(n)
        with timed(times, "encoding"):
            found = encode_corpus(documents, model, show_progress=False)
        np.save(encoded_file(n), found)

    return run


STAGES: dict[str, Callable[[], Callable[[int, Times], None]]] = {
    "encoding": encoding,  # first: dense and hybrid take its vectors
    "curricula": curricula,
    "bm25": bm25,
    "negatives": negatives,
    "dense": dense,
    "hybrid": hybrid,
    "sampler": sampler,
}


# -- what comes of it -----------------------------------------------------------------------------------------------


def draw(points: list[dict[str, Any]], rows: list[dict[str, Any]], folder: Path) -> None:
    """``scale.png`` and ``scale.svg``: time and memory over n, both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from hub_models.evaluation.figures import STYLE, save

    slopes = [row["ours"] for row in rows]
    with plt.rc_context(STYLE | {"text.parse_math": True}):  # powers of ten on the axes
        figure, panels = plt.subplots(1, 2, figsize=(10.5, 6.0), layout="constrained")
        for panel, unit, title in zip(panels, ("s", "MiB"), ("processor seconds", "MiB at most"), strict=True):
            lines = [(i, what, v) for i, ((what, u), v) in enumerate(series(points).items()) if u == unit]
            for i, what, (sizes, values) in lines:
                fit = "" if slopes[i] is None else f", slope {slopes[i]:.2f}"
                panel.plot(sizes, values, marker="o", markersize=3, linewidth=1, label=what + fit)
            panel.axvline(ENCODED, color="#9a9a9a", linewidth=0.8, linestyle="--")
            panel.set(xscale="log", yscale="log", xlabel="documents, or triplets", title=title)
            panel.legend(fontsize=7, frameon=False, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.13))
            panel.grid(alpha=0.2)
        figure.suptitle(
            f"Left of the dashed line ({ENCODED:,}) vectors are MiniLM's, right of it they are SYNTHETIC (clustered); "
            "texts are drawn words throughout.\n"
            f"Slopes from {FITTED_FROM:,} on (encoding: up to it); 1 is linear growth.",
            fontsize=8,
        )
        save(figure, folder, "scale")
        plt.close(figure)


if __name__ == "__main__":
    main()
