"""A hybrid query over 500,000 documents x 384: `StanceSearch` against bare faiss and bare bm25s, one after the other.

Vectors and texts are made up; the query's vector is given on both sides, so nothing is encoded. Both sides look at the
1,000 best of vectors and of words (`CANDIDATES`); ours also fuses them, orders ties and returns ten hits. Memory is
that of a process of its own: what it has after its queries more than before the search was made, without the texts,
which are the caller's; theirs is the bytes of the vectors and of the word index's arrays.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import numpy as np

from hub_models.hub_cache import SAMPLE_BASE, use_project_cache

use_project_cache()

from benchmarks.hybrid_bare import Bare, Float32  # noqa: E402
from benchmarks.measure import arguments, child, memory, peak_memory, read_rate, report, row  # noqa: E402
from benchmarks.synthetic import texts, vectors  # noqa: E402
from hub_models import encoder  # noqa: E402
from hub_models.retrieval.ranking import CANDIDATES  # noqa: E402
from hub_models.retrieval.search import StanceSearch  # noqa: E402

HYBRID = 0.1
K = 10


class GivenVectors(StanceSearch):
    """A search whose vectors are there already, of the documents and of the next query."""

    query: Float32

    def __init__(self, documents: list[str], width: int) -> None:
        self._width = width
        super().__init__(encoder.load(SAMPLE_BASE), documents)

    def _vectors(self, state: Callable[[], AbstractContextManager[None]]) -> Float32:
        return vectors(len(self.documents), self._width, seed=0)

    def encode(self, texts: Sequence[str]) -> Float32:
        return self.query[None]


def queries(n: int, width: int) -> list[tuple[str, Float32]]:
    return list(zip(texts(n, 8, 16, seed=1), vectors(n, width, seed=1), strict=True))


def one(search: GivenVectors, claim: str, vector: Float32) -> None:
    search.query = vector
    if len(search.search(claim, "attack", K, HYBRID)) != K:
        raise RuntimeError(f"fewer than {K} hits")


def both(bare: Bare, claim: str, vector: Float32) -> None:
    bare.search(vector, claim, min(CANDIDATES, bare.dense.ntotal))


def memory_of_ours(documents: int, width: int, asked: int) -> dict[str, int]:
    """Bytes, in this process: what the search holds after its queries, at most, and what it must hold."""
    encoder.load(SAMPLE_BASE)
    corpus = texts(documents, 10, 40, seed=0)
    before = memory()
    search = GivenVectors(corpus, width)
    for claim, vector in queries(asked, width):
        one(search, claim, vector)
    arrays = search.documents.bm25._index.scores
    needed = documents * width * 4 + sum(arrays[name].nbytes for name in ("data", "indices", "indptr"))
    return {"held": memory() - before, "peak": peak_memory() - before, "needed": needed}


def main() -> None:
    asked = arguments(__doc__, documents=500_000, width=384, queries=200)
    found = child("benchmarks.hybrid", "--memory", asked.documents, asked.width, 20)
    corpus, given = texts(asked.documents, 10, 40, seed=0), queries(asked.queries, asked.width)
    search, bare = GivenVectors(corpus, asked.width), Bare(corpus, vectors(asked.documents, asked.width, seed=0))
    took: dict[str, list[float]] = {"ours": [], "theirs": []}
    for turn, asked_for in enumerate([*given[:5], *given]):
        calls = {"ours": lambda q=asked_for: one(search, *q), "theirs": lambda q=asked_for: both(bare, *q)}
        for name in list(calls)[:: 1 if turn % 2 else -1]:
            start = time.perf_counter()
            calls[name]()
            if turn >= 5:  # the first ones warm up
                took[name].append(1000 * (time.perf_counter() - start))
    what = f"hybrid query, {asked.documents:,} x {asked.width}"
    rows = []
    for name, percentile in (("median", 50), ("p99", 99)):
        ours, theirs = (float(np.percentile(took[side], percentile)) for side in ("ours", "theirs"))
        rows.append(
            row(f"{what}, {name}", ours, theirs, "<= 1.2", against="bare faiss flat, then bare bm25s", unit="ms")
        )
    share = asked.documents * asked.width * 4 / read_rate() * 1000 / rows[0]["ours"]
    rows[0] |= {"share": round(share, 3), "share_of": "the rate at which a matrix is read, words and all counted in"}
    gib = 2.0**30
    rows.append(
        row(
            f"{what}, memory",
            found["held"] / gib,
            found["needed"] / gib,
            "<= 1.3",
            against="vectors + index",
            unit="GiB",
        )
    )
    rows[-1]["note"] = f"measured once; at most {found['peak'] / gib:.3g} GiB while the word index is built."
    report(rows, asked.out)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        print(json.dumps(memory_of_ours(*map(int, sys.argv[2:5])), allow_nan=False))
    else:
        main()
