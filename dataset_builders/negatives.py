"""Hard negatives by BM25 over a task's corpus (O 3.1)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dataset_builders.choices import FROM_RANK as FROM_RANK
from dataset_builders.lexical import BM25
from dataset_builders.text import text_key

NEGATIVES: Final = 4
"""A query, as in O 4."""


class Miner:
    """BM25 over a corpus, for mining.

    Args:
        corpus: Text by document id.

    Raises:
        ValueError: If no document has a word.

    Example:
        >>> miner = Miner({"a": "Ban guns.", "b": "Ban cars.", "c": "Ban  GUNS.", "d": "Plant trees."})
        >>> miner.mine("ban guns", ["a"], number=1, from_rank=0)
        ['b']
    """

    def __init__(self, corpus: Mapping[str, str]) -> None:
        self.corpus = dict(corpus)
        self.ids = list(corpus)
        self._row = {document: row for row, document in enumerate(self.ids)}
        self._keys = [text_key(text) for text in corpus.values()]
        self._texts = set(self._keys)
        self._by_id = np.argsort(np.argsort(np.array(self.ids)))
        self._index = BM25(list(corpus.values()), self.ids)

    def check(self, positives: Collection[str], excluded: Collection[str] = (), number: int = NEGATIVES) -> None:
        """Refuse what `mine` cannot serve, before a query for it is written.

        Raises:
            ValueError: If an id is of no document, or fewer than ``number`` texts are left.
        """
        out = self._rows({*positives, *excluded})
        left = len(self._texts) - len({self._keys[row] for row in out})
        if left < number:
            raise ValueError(self._too_few(left, number))

    def mine(
        self,
        query: str,
        positives: Collection[str],
        excluded: Collection[str] = (),
        *,
        number: int = NEGATIVES,
        from_rank: int = FROM_RANK,
        seed: Sequence[int] = (0,),
    ) -> list[str]:
        """The documents at the ranks ``from_rank`` to ``from_rank + number - 1``.

        Out of the ranking, before ranks are counted, are the positives, the excluded documents, and every document
        whose text is that of a positive or of the query but for case, Unicode form and white space (`text_key`); of
        equal texts the first one stays. Where the matching documents end before the last of these ranks, the window
        moves up to end with them; where fewer than ``number`` match, documents without a match fill it, drawn.

        Args:
            query: What BM25 is asked: the query, or for style rows the positive (O equation 6).
            positives: Ids of all documents that count as relevant.
            excluded: Ids that may not be returned.
            number: At least 1.
            from_rank: At least 0.
            seed: Of the draw among documents without a match; score decides, then the id.

        Returns:
            ``number`` ids, by rank.

        Raises:
            ValueError: If a number is out of range, an id is of no document, or fewer than ``number`` are left.
        """
        if number < 1 or from_rank < 0:
            raise ValueError(f"got {number} negatives from rank {from_rank}, wanted at least 1 from rank 0 or later")
        out = self._rows({*positives, *excluded})
        barred = {self._keys[self._row[i]] for i in positives} | {text_key(query)}
        scores = self._index.scores(query)
        depth = from_rank + number + len(out)
        while True:
            ranking, whole = self._ranking(scores, depth, seed)
            left: dict[str, int] = {}
            for row in ranking:
                if row not in out and self._keys[row] not in barred:
                    left.setdefault(self._keys[row], row)
            rows = list(left.values())
            matching = sum(bool(scores[row] > 0) for row in rows)
            if whole or matching >= from_rank + number:
                break
            depth *= 4
        if len(rows) < number:
            raise ValueError(self._too_few(len(rows), number))
        start = min(from_rank, max(0, matching - number))
        return [self.ids[row] for row in rows[start : start + number]]

    def _rows(self, ids: set[str]) -> set[int]:
        unknown = sorted(ids.difference(self._row))
        if unknown:
            raise ValueError(f"{len(unknown)} positives or excluded ids are of no document, such as {unknown[:5]}")
        return {self._row[i] for i in ids}

    def _too_few(self, left: int, number: int) -> str:
        return (
            f"got {left} of {len(self.ids)} documents that may be negatives, wanted {number}; give more documents, or "
            "fewer of one attribute"
        )

    def _ranking(self, scores: NDArray[np.float32], depth: int, seed: Sequence[int]) -> tuple[list[int], bool]:
        """The best documents, at least ``depth`` of them, and whether these are all."""
        least = np.partition(scores, -depth)[-depth] if depth < len(scores) else 0.0
        found = np.flatnonzero(scores >= least) if least > 0 else np.arange(len(scores))
        ties = self._by_id[found]
        if len(found) == len(scores):
            # Documents that match nothing are all last: were they in the order of their ids, every query had the same.
            drawn = np.random.default_rng(list(seed)).permutation(len(scores))
            ties = np.where(scores[found] > 0, ties, drawn)
        return [int(i) for i in found[np.lexsort((ties, -scores[found]))]], len(found) == len(scores)
