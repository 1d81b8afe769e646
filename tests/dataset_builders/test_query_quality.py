"""What queries share with their documents, beside the benchmark's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dataset_builders.__main__ import app
from dataset_builders.oblique.query_quality import measure, own_pairs, read_pairs
from dataset_builders.sources import obliq_bench

DOCUMENT = "The warden of Gull Island counted seventy lanterns in 1902."
STATISTICS = obliq_bench.SAMPLE.parent / "statistics.json"


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_rows_by_task_and_lens_in_either_shape(tmp_path: Path) -> None:
    rows = [
        {"task": "congress", "lens": "tip_of_tongue", "query": "a lamp keeper", "positive": DOCUMENT, "negatives": []},
        {"task": "math", "query": ["Find it.", "a sum"], "pos": [["", "one"], "two"], "neg": []},
    ]
    assert read_pairs(write(tmp_path / "q.jsonl", rows)) == {
        ("congress", "tip_of_tongue"): [("a lamp keeper", DOCUMENT)],
        ("math", ""): [("a sum", "one"), ("a sum", "two")],
    }
    assert set(read_pairs(tmp_path / "q.jsonl", "writing")) == {("writing", "tip_of_tongue"), ("writing", "")}


def test_the_reference_row_is_the_benchmarks_own() -> None:
    found = measure({("congress", ""): [("A guardian at Gull Island counts lanterns, whatever happens.", DOCUMENT)]})
    assert list(found) == ["congress: the sample's own queries", "congress: queries"]
    known = json.loads(STATISTICS.read_text())["oblique"]["congress"]["overlap"]["queries"]
    assert {k: round(v, 4) for k, v in found["congress: the sample's own queries"].items()} == known
    mine = found["congress: queries"]
    assert (mine["n"], mine["entity_leakage"]) == (1, 1)
    assert (mine["jaccard"], mine["coverage"]) == pytest.approx((3 / 9, 3 / 6))


def test_own_pairs_are_gold_alone() -> None:
    task = obliq_bench.read("twitter")
    assert len(own_pairs(task)) == sum(grade > 0 for grades in task.qrels.values() for grade in grades.values())


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"query": "a", "positives": "b", "task": "math"}, r"q\.jsonl:1: got the keys.*Did you mean 'positive'\?"),
        ({"query": "a", "positive": "b"}, r"q\.jsonl:1: the row names no task; give one with --task"),
        ({"query": "a", "positive": "b", "task": "maths"}, "got task 'maths'.*Did you mean 'math'"),
        ({"query": "a", "pos": [], "task": "math"}, "wanted query and positive"),
        ({"query": " ", "positive": "b", "task": "math"}, r"q\.jsonl:1: query: the text is empty"),
    ],
)
def test_bad_rows_are_named(row: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words):
        read_pairs(write(tmp_path / "q.jsonl", [row]))


def test_bad_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no row in it"):
        read_pairs(write(tmp_path / "q.jsonl", []))
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        read_pairs(tmp_path / "none.jsonl")
    with pytest.raises(FileNotFoundError, match="wanted a folder in the layout of OBLIQ-Bench"):
        measure({("math", ""): [("a", "b")]}, tmp_path)
    corpus, judged = tmp_path / "analogues/math/corpus", tmp_path / "analogues/math/queries+qrels"
    corpus.mkdir(parents=True)
    judged.mkdir()
    write(corpus / "corpus.jsonl", [{"_id": "d", "text": "one"}])
    write(judged / "queries.jsonl", [{"_id": "q", "text": "two"}])
    (judged / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\td\t0\n")
    with pytest.raises(ValueError, match="math: the benchmark has no relevant document"):
        measure({("math", ""): [("a", "b")]}, tmp_path)


def test_the_command(tmp_path: Path) -> None:
    rows = write(tmp_path / "q.jsonl", [{"query": "a lamp keeper", "positive": DOCUMENT}])
    arguments = ["query-quality", "--queries", str(rows)]
    done = CliRunner().invoke(app, [*arguments, "--task", "congress", "--out", str(tmp_path / "out.json")])
    assert done.exit_code == 0, done.output
    assert [line.split("  ")[0] for line in done.output.splitlines()[1:]] == [
        "congress: the sample's own queries",
        "congress: queries",
    ]
    assert json.loads((tmp_path / "out.json").read_text())["congress: queries"]["coverage"] == 0
    refused = CliRunner().invoke(app, arguments)
    assert refused.exit_code == 1 and "the row names no task" in refused.output
