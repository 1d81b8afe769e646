"""Hard negatives of oblique training rows: what they are taken from, and what is never among them."""

from __future__ import annotations

from typing import Any

from dataset_builders.negatives import Miner
from dataset_builders.oblique.documents import load, siblings
from dataset_builders.oblique.training import Options, pair_rows, query_rows
from dataset_builders.schema import STYLE_PAIRS
from dataset_builders.sources.obliq_bench import TASKS
from dataset_builders.text import text_key

SAMPLE = load("sample")


def neighbours(rows: list[dict[str, Any]]) -> dict[str, set[str]]:
    """The positives of each anchor."""
    near: dict[str, set[str]] = {}
    for row in rows:
        near.setdefault(row["anchor_id"], set()).add(row["positive_id"])
    return near


def test_negatives_of_the_sample_are_never_positives() -> None:
    made = query_rows(SAMPLE, None, Options(), seed=0)
    own = {(d.task, d.document_id): d for d in SAMPLE}
    together = {task: siblings([d for d in SAMPLE if d.task == task]) for task in TASKS}
    assert len(made.rows) == len(SAMPLE)
    for row in made.rows:
        positive = own[row["task"], row["positive_id"]]
        found = [own[row["task"], n["id"]] for n in row["negatives"]]
        assert len({d.document_id for d in found}) == 4
        for d, n in zip(found, row["negatives"], strict=True):
            assert d.text == n["text"] and n["kind"] == "bm25" and text_key(d.text) != text_key(positive.text)
            assert d.document_id not in together[row["task"]][positive.document_id]
            assert row["task"] == "congress" or d.attribute != positive.attribute
    assert query_rows(SAMPLE, None, Options(), seed=0).rows == made.rows
    assert query_rows(SAMPLE, None, Options(from_rank=0), seed=0).rows != made.rows


def test_style_rows_are_anchor_neighbour_and_negatives_that_are_neither() -> None:
    writing = [d for d in SAMPLE if d.task == "writing"]
    own = {d.document_id: d for d in writing}
    made = pair_rows(SAMPLE, None, Options(k=3, from_rank=0), seed=0)
    assert len(made.rows) == 3 * len(writing) and made.facts["edges"] == 288
    near = neighbours(made.rows)
    for row in made.rows:
        assert row.keys() == STYLE_PAIRS.keys() and (row["lens"], row["attribute"]) == ("style", None)
        assert row["query"] == own[row["anchor_id"]].description and row["positive"] == own[row["positive_id"]].text
        barred = {row["anchor_id"], *near[row["anchor_id"]]}
        assert not barred & {n["id"] for n in row["negatives"]}
    control = pair_rows(SAMPLE, None, Options(k=3, from_rank=0, random_graph=True), seed=0)
    same = ("anchor_id", "query", "negatives")
    assert [[r[key] for key in same] for r in control.rows] == [[r[key] for key in same] for r in made.rows]
    assert sum(a["positive_id"] == b["positive_id"] for a, b in zip(control.rows, made.rows, strict=True)) < 30
    dosed = pair_rows(SAMPLE, None, Options(k=3, dose=40, from_rank=0), seed=0)
    pairs = {(r["anchor_id"], r["positive_id"]) for r in made.rows}
    assert len(dosed.rows) == 40 and {(r["anchor_id"], r["positive_id"]) for r in dosed.rows} < pairs


def test_the_negatives_of_a_pair_are_what_bm25_finds_for_its_positive() -> None:
    """O equation 6: the positive is the query, not the anchor and not what the row asks with."""
    own = {d.document_id: d for d in SAMPLE if d.task == "writing"}
    miner, parts = Miner({i: d.text for i, d in own.items()}), siblings(list(own.values()))
    rows = pair_rows(SAMPLE, None, Options(), seed=0).rows
    near = neighbours(rows)

    def mined(number: int, text: str) -> list[str]:
        positive, anchor = rows[number]["positive_id"], rows[number]["anchor_id"]
        return miner.mine(text, {anchor, *near[anchor]}, parts[positive] | parts[anchor], seed=(0, number))

    found = [[n["id"] for n in row["negatives"]] for row in rows]
    assert found == [mined(number, row["positive"]) for number, row in enumerate(rows)]
    others = [own[row["anchor_id"]].text for row in rows], [row["query"] for row in rows]
    for texts in others:
        assert sum(mined(number, text) != found[number] for number, text in enumerate(texts)) > len(rows) / 2
