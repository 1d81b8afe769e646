"""Reading oblique training rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dataset_builders.instructions import OBLIQUE_INSTRUCTIONS
from dataset_builders.oblique.read import ObliqueNegative, read_oblique_rows
from dataset_builders.text import text_id

CASES = Path(__file__).parents[1] / "cases"
ROW = {
    "task": "math",
    "lens": "analogue",
    "instruction": "Retrieve.",
    "query": "A query.",
    "positive_id": "p",
    "positive": "A text.",
    "negatives": [{"id": "n", "text": "Another.", "kind": "bm25"}],
    "attribute": None,
    "generator": "authored",
    "source": "mine",
    "licence": "cc0-1.0",
}


def written(folder: Path, *rows: Any) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_shards_that_begin_with_nulls_and_empty_lists_case_04() -> None:
    for number, (negatives, attribute) in enumerate(
        [((), None), ((ObliqueNegative("n1", "another text", "bm25"),), "short sentences")]
    ):
        (row,) = read_oblique_rows(CASES / "case04_nulls_first" / f"oblique-0{number}.jsonl")
        assert (row.negatives, row.attribute, row.lens, row.positive_id) == (
            negatives,
            attribute,
            "analogue",
            f"p{number}",
        )


def test_both_shapes_of_reasonir(tmp_path: Path) -> None:
    pairs = {
        "query": ["Find proofs.", "The query."],
        "pos": [["", "One."], ["Other words.", "Two."]],
        "neg": [["", "No."], ["", "Nor this."]],
        "id": 7,
    }
    plain = {"query": "The query.", "pos": ["One."], "neg": ["No."], "task": "twitter"}
    bare = {"query": "The query.", "pos": [["Said here.", "One."]]}
    one, two, three, four = read_oblique_rows(written(tmp_path, pairs, plain, bare))
    assert [r.instruction for r in (one, two, three, four)] == [
        "Find proofs.",
        "Find proofs.",
        OBLIQUE_INSTRUCTIONS["twitter"],
        "Said here.",
    ]
    assert [r.positive for r in (one, two)] == ["One.", "Two."] and one.positive_id == text_id("d", "One.")
    assert [n.text for n in one.negatives] == ["No.", "Nor this."] and four.negatives == ()
    assert {r.query for r in (one, two, three, four)} == {"The query."}
    assert (one.task, three.task) == (None, "twitter")
    assert read_oblique_rows(written(tmp_path, bare), task="math")[0].task == "math"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (ROW | {"lens": "tip_of_tung"}, r"rows\.jsonl:1: got lens 'tip_of_tung', .* Did you mean 'tip_of_tongue'"),
        (ROW | {"negatives": None}, "negatives: got NoneType, wanted a list; it may be empty"),
        (ROW | {"negatives": ["text"]}, "negative 1: got str, wanted an object with id, text and kind"),
        (ROW | {"negatives": [{"id": "n", "text": "x", "kind": "hard"}]}, "got kind 'hard', wanted one of"),
        (ROW | {"negatives": [{"id": "n", "text": "a  TEXT.", "kind": "bm25"}]}, r"the negatives \['n'\] are the pos"),
        (ROW | {"negatives": [{"id": "p", "text": "x", "kind": "bm25"}]}, r"the negatives \['p'\] are the positive"),
        (ROW | {"query": " "}, "query: the text is empty"),
        (ROW | {"quary": "x"}, r"unknown keys \['quary'\]"),
        ({"query": "x", "postive": "y"}, r"got the keys \['query', 'postive'\], wanted .* Did you mean 'positive'"),
        ({"query": "x", "pos": []}, "pos is empty, wanted at least one positive"),
        ({"query": "x", "pos": "y"}, "pos: got str, wanted a list of texts"),
        ({"query": ["a", "b", "c"], "pos": ["y"]}, "query: got a list of 3, wanted a text or a pair"),
        ({"query": "x", "pos": ["y"], "neg": ["Y "]}, r"the negatives \['d-.*'\] are the positive"),
        ({"query": "x", "pos": ["y"], "task": "maths"}, "got task 'maths', .* Did you mean 'math'"),
    ],
)
def test_a_faulty_row_is_named(tmp_path: Path, row: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_oblique_rows(written(tmp_path, row))


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no row in it"):
        read_oblique_rows(written(tmp_path))
    with pytest.raises(ValueError, match="got the config 'math', but only a built folder has configs"):
        read_oblique_rows(written(tmp_path, ROW), "math")
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        read_oblique_rows(tmp_path / "nope")
