"""Hard negatives by BM25, 72,122 documents x 10,000 queries: `Miner` against rank_bm25 and against bare bm25s.

As many documents as OBLIQ-Bench's largest task has; texts are made up. The indexes are built beforehand. Each turn
takes another fifth of the queries. rank_bm25 is asked few of them, and its time goes by their share: it scores every
document anew for each query. Both opponents only fetch as deep as `Miner` looks (rank 20, four negatives); what they
find is not yet cleared of positives and of equal texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks.measure import arguments, in_turns, report, row, scaled
from benchmarks.negatives_others import bm25s_index, by_bm25s, by_rank_bm25, rank_bm25_index
from benchmarks.synthetic import texts
from dataset_builders.negatives import FROM_RANK, NEGATIVES, Miner


def main() -> None:
    asked = arguments(__doc__, documents=72_122, queries=10_000, of_rank_bm25=3)
    documents = texts(asked.documents, 10, 50, seed=0)
    corpus = {f"d{i}": text for i, text in enumerate(documents)}
    queries = texts(asked.queries, 8, 16, seed=1)
    a_turn = len(queries) // asked.repeats
    miner, bare, slow = Miner(corpus), bm25s_index(documents), rank_bm25_index(documents)
    depth = FROM_RANK + NEGATIVES

    def turns(call: Callable[[Sequence[str]], Any], size: int) -> Callable[[], Any]:
        """Another part of the queries at each call; the first call, which warms up, and the last have the same."""
        parts: Iterator[int] = iter([*range(asked.repeats), 0])
        return lambda: call(queries[(start := next(parts) * a_turn) : start + size])

    took = in_turns(
        {
            "ours": turns(lambda part: [miner.mine(query, ["d0"]) for query in part], a_turn),
            "bm25s": turns(lambda part: by_bm25s(bare, part, depth), a_turn),
            "rank_bm25": turns(lambda part: by_rank_bm25(slow, documents, part, depth), asked.of_rank_bm25),
        },
        asked.repeats,
    )
    times = len(queries) / a_turn
    whole = {name: scaled(took[name], times) for name in ("ours", "bm25s")}
    of_all = len(queries) / asked.of_rank_bm25
    what = f"hard negatives, {len(documents):,} documents x {len(queries):,} queries"
    part = f"{times:.3g} times the median of {asked.repeats} parts"
    note = f"ours is {part}; rank_bm25's time is that of {asked.of_rank_bm25} queries, times {of_all:,.0f}."
    report(
        [
            row(what, whole["ours"], scaled(took["rank_bm25"], of_all), ">= 100", against="rank_bm25", note=note),
            row(what, whole["ours"], whole["bm25s"], "<= 1.1", against="bare bm25s", note=f"both are {part}."),
        ],
        asked.out,
    )


if __name__ == "__main__":
    main()
