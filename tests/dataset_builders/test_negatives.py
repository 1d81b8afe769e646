from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataset_builders.lexical import BM25
from dataset_builders.negatives import Miner
from dataset_builders.text import text_key

CASES = Path(__file__).parents[1] / "cases"


def test_ranks_are_counted_after_positives_and_excluded_ids_are_gone() -> None:
    # More of the query's words, higher up: d0 has all eight, d7 one.
    words = ["ash", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple"]
    corpus = {f"d{i}": " ".join(words[: 8 - i] + [f"other{i}x{j}" for j in range(i)]) for i in range(8)}
    query = " ".join(reversed(words))  # the text of no document
    assert [i for i, _ in BM25(list(corpus.values()), list(corpus)).search(query, 8)] == list(corpus)
    miner = Miner(corpus)
    assert miner.mine(query, ["d1"], ["d3"], number=2, from_rank=2) == ["d4", "d5"]
    assert miner.mine(query, ["d1"], ["d3"], number=2, from_rank=0) == ["d0", "d2"]
    # The window moves up to end with the last document that matches.
    assert miner.mine(query, ["d1"], ["d3"], number=2, from_rank=100) == ["d6", "d7"]


def test_a_positive_is_no_negative_in_other_letters() -> None:
    """Case 17: B's attack is A's but for a small letter and a space."""
    rows = [
        json.loads(line) for line in (CASES / "case17_mined_negatives.jsonl").read_text().split("\n") if line.strip()
    ]
    corpus = {
        f"{row['claim_id']}-{stance}": text for row in rows for stance in ("support", "attack") for text in row[stance]
    }
    assert text_key(corpus["A-attack"]) == text_key(corpus["B-attack"]) and corpus["A-attack"] != corpus["B-attack"]
    miner = Miner(corpus)
    found = miner.mine("Would it cost jobs?", ["A-attack"], number=2, from_rank=0)
    assert sorted(found) == ["A-support", "B-support"]
    # As in style rows, where the query is the positive: the query's own text is none either.
    assert "B-attack" not in miner.mine("IT WOULD COST  JOBS.", ["A-support"], number=1, from_rank=0)


def test_documents_without_a_match_fill_up_and_are_not_always_the_same() -> None:
    corpus = {"hit": "the one match", **{f"no{i:02d}": f"elsewhere{i}" for i in range(40)}}
    miner = Miner(corpus)
    drawn = {tuple(miner.mine("match", ["no00"], number=4, seed=(0, row))) for row in range(10)}
    assert all(found[0] == "hit" and len(set(found)) == 4 for found in drawn) and len(drawn) > 5
    assert miner.mine("match", ["no00"], seed=(0, 1)) == miner.mine("match", ["no00"], seed=(0, 1))


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(
        st.sampled_from(["a b", "A  b", "b c", "c d", "d e f", "a b c d", "e f", "f g"]), min_size=4, max_size=30
    ),
    query=st.sampled_from(["a b", "c", "e f g", "z"]),
    from_rank=st.integers(0, 30),
    data=st.data(),
)
def test_no_negative_is_barred_or_doubled(texts: list[str], query: str, from_rank: int, data: st.DataObject) -> None:
    corpus = {f"d{i}": text for i, text in enumerate(texts)}
    positive = data.draw(st.sampled_from(list(corpus)))
    excluded = data.draw(st.sets(st.sampled_from(list(corpus)), max_size=3))
    barred = {text_key(corpus[positive]), text_key(query)}
    left = {text_key(t) for i, t in corpus.items() if i not in {positive, *excluded}} - barred
    miner = Miner(corpus)
    if len(left) < 2:
        with pytest.raises(ValueError, match=r"documents that may be negatives, wanted 2; give more documents"):
            miner.mine(query, [positive], excluded, number=2, from_rank=from_rank)
        return
    found = miner.mine(query, [positive], excluded, number=2, from_rank=from_rank)
    keys = [text_key(corpus[i]) for i in found]
    assert len(set(keys)) == 2 and not barred & set(keys) and not {positive, *excluded} & set(found)
    # The whole ranking, by another way: the window is a piece of it.
    every = [i for i, _ in BM25(texts, list(corpus)).search(query, len(texts))]
    ranked: list[str] = []
    for i in every:
        if i not in {positive, *excluded} and text_key(corpus[i]) not in barred | {
            text_key(corpus[j]) for j in ranked
        }:
            ranked.append(i)
    if len(ranked) >= 2:
        start = min(from_rank, len(ranked) - 2)
        assert found == ranked[start : start + 2]


def test_bad_input_to_the_miner() -> None:
    miner = Miner({"a": "one", "b": "two"})
    with pytest.raises(ValueError, match="got 0 negatives from rank 0, wanted at least 1 from rank 0 or later"):
        miner.mine("one", ["a"], number=0, from_rank=0)
    with pytest.raises(ValueError, match=r"1 positives or excluded ids are of no document, such as \['x'\]"):
        miner.mine("one", ["x"])
    with pytest.raises(ValueError, match="got 1 of 2 documents that may be negatives, wanted 4; give more"):
        miner.mine("one", ["a"])
