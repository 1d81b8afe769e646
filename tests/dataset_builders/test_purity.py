"""Purity of a neighbour graph: worked by hand, and the shapes of its input."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from dataset_builders.__main__ import app
from dataset_builders.oblique import purity as module
from dataset_builders.oblique.purity import (
    Probe,
    base_rate,
    purity,
    qrel_groups,
    read_probe,
    read_vectors,
    table,
)

# On a half circle, by angle: the nearest are the next ones.
ANGLES = [0, 10, 25, 90, 105, 170]
VECTORS = np.array([[np.cos(a), np.sin(a)] for a in np.radians(ANGLES)], np.float32)
IDS = ["a", "b", "c", "d", "e", "f"]
SAMPLE = Path(module.__file__).parents[1] / "sample" / "oblique" / "analogues" / "writing"


def probe(labels: str, sources: str = "") -> Probe:
    """One letter a document; ``-`` for none."""
    found = {i: x for i, x in zip(IDS, labels, strict=True) if x != "-"}
    return Probe(IDS, found, {}, {i: x for i, x in zip(IDS, sources, strict=bool(sources)) if x != "-"})


def test_worked_by_hand() -> None:
    # nearest: a-b, b-a, c-b, d-e, e-d, f-e; then a-c, b-c, c-a, d-c, e-f, f-d
    one, two = purity(VECTORS, probe("xxyyzz"), (1, 2))
    assert (one.k, one.edges, one.same) == (1, 6, 3)  # a-b, b-a, f-e
    assert one.base == pytest.approx(6 / 30)
    assert one.rate == pytest.approx(0.5)
    assert one.lift == pytest.approx(2.5)
    assert (two.edges, two.same) == (12, 5)  # and d-c, e-f
    assert table([one])[1][:4] == ["1", "6", "3", "0.500"]


def test_documents_without_a_label_take_places_but_no_edge_counts() -> None:
    (row,) = purity(VECTORS, probe("x-xyy-"), (1,))
    # a-b and c-b lead to no label, b and f have none: d-e, e-d
    assert (row.edges, row.same, row.rate) == (2, 2, 1.0)
    assert row.base == pytest.approx(4 / 12)
    assert (row.low, row.high) == (None, None)  # one label alone has edges


def test_no_edge_is_no_rate() -> None:
    (row,) = purity(VECTORS, probe("x-x--y"), (1,))
    assert (row.edges, row.rate, row.lift, row.low) == (0, None, None, None)
    assert table([row])[1] == ["1", "0", "0", "-", "-", "0.3333", "-"]


def test_parts_of_one_text_are_neither_neighbours_nor_pairs() -> None:
    (row,) = purity(VECTORS, probe("xxxxyy", "pp-qq-"), (1,))
    # a-c, b-c, c-b, d-c, e-f, f-e
    assert (row.edges, row.same) == (6, 6)
    # ordered pairs: 30 less a-b and d-e twice; same: 12 + 2 less a-b twice
    assert row.base == pytest.approx(12 / 26)


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from(["p", "q", None])), min_size=2, max_size=8))
def test_the_base_rate_counts_all_ordered_pairs(documents: list[tuple[str, str | None]]) -> None:
    ids = [str(i) for i in range(len(documents))]
    made = Probe(
        ids,
        {i: label for i, (label, _) in zip(ids, documents, strict=True)},
        {},
        {i: source for i, (_, source) in zip(ids, documents, strict=True) if source is not None},
    )
    pairs = [(a, b) for a, b in permutations(documents, 2) if a[1] is None or a[1] != b[1]]
    expected = sum(a[0] == b[0] for a, b in pairs) / len(pairs) if pairs else 0.0
    assert base_rate(made) == pytest.approx(expected)


def test_the_interval_resamples_labels_and_is_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.array([[8.3, 10], [0.2, 10.7], [5.1, 20.9], [9.2, 9.6]]).repeat(3, axis=0) + np.arange(12)[:, None] / 7
    low, high = module._interval(counts, 0, 4000)
    rng = np.random.default_rng(1)
    ratios = []
    for _ in range(4000):
        rows = counts[rng.integers(0, 12, 12)]
        ratios.append(rows[:, 0].sum() / rows[:, 1].sum())
    assert (low, high) == pytest.approx(tuple(np.quantile(ratios, [0.025, 0.975])), abs=0.02)
    assert module._interval(counts, 0, 4000) == (low, high)
    assert module._interval(counts, 1, 4000) != (low, high)
    monkeypatch.setattr(module, "_CELLS", 40)  # ten resamples at a time
    assert module._interval(counts, 0, 4000) == pytest.approx((low, high))


def test_groups_are_what_a_chain_of_queries_links() -> None:
    qrels = {
        "q1": {"d3": 1, "d2": 2, "d9": 0},
        "q2": {"d2": 1, "d1": 1},
        "q3": {"d5": 1},
        "q4": {"d7": 1, "d6": 1},
        "q5": {"d9": 0},
    }
    assert qrel_groups(qrels) == {"d1": "d1", "d2": "d1", "d3": "d1", "d5": "d5", "d6": "d6", "d7": "d6"}


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_labels_of_half_of_the_documents(tmp_path: Path) -> None:
    corpus = write(tmp_path / "corpus.jsonl", [{"_id": i, "text": f"text {i}"} for i in IDS])
    labels = write(tmp_path / "labels.jsonl", [{"_id": i, "label": "x"} for i in "fab"])
    found = read_probe(labels, corpus)
    assert (found.ids, found.labels) == (IDS, dict.fromkeys("abf", "x"))
    assert found.texts["c"] == "text c"
    assert read_probe(labels).ids == ["f", "a", "b"]


def test_qrels_and_corpora_of_the_benchmark_say_the_same() -> None:
    corpus = SAMPLE / "corpus" / "corpus.jsonl"
    named = read_probe(corpus)
    found = read_probe(SAMPLE / "queries+qrels" / "qrels.tsv", corpus)
    assert named.ids == found.ids and len(named.sources) == len(named.ids)
    pairs = {(named.labels[i], label) for i, label in found.labels.items()}
    assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs}) > 5


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"id": "a", "label": "x"}], r"labels.jsonl:1: got the keys \['id', 'label'\].*Did you mean '_id'"),
        ([{"_id": "a", "label": "x"}] * 2, r"ids must be unique; doubled: \['a'\]"),
        ([{"_id": "a", "label": 3}], "labels.jsonl:1: label: got int 3, wanted a text"),
        ([{"_id": "a", "text": " "}], "labels.jsonl:1: text: the text is empty"),
        ([{"_id": "a"}], "none of the 1 documents has a label"),
    ],
)
def test_bad_rows_are_named(rows: list[dict[str, Any]], words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words):
        read_probe(write(tmp_path / "labels.jsonl", rows))


def test_bad_files_are_named(tmp_path: Path) -> None:
    corpus = write(tmp_path / "corpus.jsonl", [{"_id": "a"}])
    labels = write(tmp_path / "labels.jsonl", [{"_id": "b", "label": "x"}])
    with pytest.raises(ValueError, match=r"1 labels are of no document, such as \['b'\]"):
        read_probe(labels, corpus)
    with pytest.raises(FileNotFoundError, match=r"none\.jsonl: no such file"):
        read_probe(tmp_path / "none.jsonl")
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n")
    with pytest.raises(ValueError, match="qrels do not name all documents; give their file with --corpus"):
        read_probe(tmp_path / "qrels.tsv")
    with pytest.raises(FileNotFoundError, match=r"v\.npy: no such file"):
        read_vectors(tmp_path / "v.npy")
    (tmp_path / "v.npy").write_text("[1, 2]")
    with pytest.raises(ValueError, match=r"v\.npy: the file is no \.npy of numbers"):
        read_vectors(tmp_path / "v.npy")
    np.save(tmp_path / "v.npy", np.zeros(3))
    with pytest.raises(ValueError, match=r"got \(3,\) float64, wanted floating-point numbers of shape \[n, d\]"):
        read_vectors(tmp_path / "v.npy")
    np.save(tmp_path / "v.npy", VECTORS.astype(np.float64))
    np.testing.assert_array_equal(read_vectors(tmp_path / "v.npy"), VECTORS)


@pytest.mark.parametrize(
    ("vectors", "labels", "ks", "words"),
    [
        (VECTORS[:5], "xxyyzz", (1,), "got 5 vectors for 6 documents"),
        (VECTORS, "xxyyzz", (3, 6), r"got k = \[6\] and 6 documents, wanted from 1 to 5"),
        (VECTORS, "xxyyzz", (0,), r"got k = \[0\] and 6 documents"),
        (VECTORS, "xyz---", (1,), "3 of 6 documents have a label, and no two"),
        (VECTORS, "xxx---", (1,), "3 of 6 documents have a label, and all"),
        (VECTORS * [[1], [1], [0], [1], [0], [1]], "xxyyzz", (1,), r"2 vectors are zero: \['c', 'e'\]"),
        (VECTORS * [[1], [np.nan], [1], [1], [1], [1]], "xxyyzz", (1,), r"hold NaN or infinity: \['b'\]"),
    ],
)
def test_bad_input_is_named(vectors: Any, labels: str, ks: tuple[int, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        purity(vectors, probe(labels), ks)


# The command


def run(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, ["purity", *map(str, arguments)])


def test_the_command_measures_vectors_and_writes_json(tmp_path: Path) -> None:
    labels = write(tmp_path / "l.jsonl", [{"_id": i, "label": x} for i, x in zip(IDS, "xxyyzz", strict=True)])
    np.save(tmp_path / "v.npy", VECTORS)
    arguments = ("--vectors", tmp_path / "v.npy", "--labels", labels, "--k", "1", "--out", tmp_path / "out.json")
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    first, header, row = done.output.splitlines()
    assert first == "6 documents, 6 labelled, 3 labels, 0 longer texts"
    assert header.split()[:3] == ["k", "edges", "same"]
    assert row.split()[:4] == ["1", "6", "3", "0.500"]
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["rows"][0]["lift"] == pytest.approx(2.5)
    assert run(*arguments).output == done.output


def test_the_built_in_specialist_tells_the_hands_of_the_sample_apart() -> None:
    corpus = SAMPLE / "corpus" / "corpus.jsonl"
    done = run("--specialist", "stylometric", "--labels", corpus, "--k", "3")
    assert done.exit_code == 0, done.output
    assert float(done.output.splitlines()[-1].split()[-1]) > 4  # lift


def test_the_command_refuses(tmp_path: Path) -> None:
    labels = write(tmp_path / "l.jsonl", [{"_id": "a", "label": "x"}, {"_id": "b", "label": "x", "text": "word"}])
    both = run("--labels", labels)
    assert both.exit_code == 1 and "give either --vectors FILE or --specialist NAME" in both.output
    unknown = run("--labels", labels, "--specialist", "stylometrics")
    assert unknown.exit_code == 1 and "Did you mean 'stylometric'?" in unknown.output
    bare = run("--labels", labels, "--specialist", "stylometric")
    assert bare.exit_code == 1 and "1 documents have no text, such as ['a']" in bare.output
