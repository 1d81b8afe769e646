"""Reading the layout of OBLIQ-Bench, on made-up folders and on the embedded sample."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from builders import write_jsonl

from dataset_builders.sources import obliq_bench
from dataset_builders.sources.oblique import at_hand, load

CASES = Path(__file__).parent.parent / "cases"


def lay(
    root: Path,
    corpus: list[dict[str, Any]],
    queries: list[dict[str, Any]],
    qrels: str,
    excluded: dict[str, list[str]] | None = None,
) -> Path:
    """A folder in the layout with the one task math."""
    task = root / "analogues" / "math"
    for name in ("corpus", "queries+qrels"):
        (task / name).mkdir(parents=True)
    write_jsonl(task / "corpus" / "corpus.jsonl", corpus)
    write_jsonl(task / "queries+qrels" / "queries.jsonl", queries)
    (task / "queries+qrels" / "qrels.tsv").write_bytes(qrels.encode())
    if excluded is not None:
        (task / "queries+qrels" / "per_query_excluded_ids.json").write_text(json.dumps(excluded))
    return root


DOCUMENTS = [{"_id": "AIME 1983 7", "text": "A knight."}, {"_id": 2, "text": "A table.", "metadata": {"year": 1990}}]
QUERIES = [{"_id": "q 1", "text": "A knight."}]


@pytest.mark.parametrize("header", ["query-id\tcorpus-id\tscore", "query_id\tcorpus_id\tscore\r"])
def test_either_header_ids_with_spaces_and_exclusions(tmp_path: Path, header: str) -> None:
    lay(tmp_path, DOCUMENTS, QUERIES, f"{header}\nq 1\t2\t2\n", {"q 1": ["AIME 1983 7"]})
    task = obliq_bench.read("math", tmp_path)
    assert list(task.corpus) == ["AIME 1983 7", "2"]
    assert task.qrels == {"q 1": {"2": 2}}
    assert task.excluded == {"q 1": {"AIME 1983 7"}}
    assert task.candidates("q 1") == ["2"]
    assert task.corpus["2"].metadata == {"year": 1990} and task.corpus["2"].attribute is None


def test_a_line_ends_at_lf_alone(tmp_path: Path) -> None:
    text = "a\u2028b\u2029c\u0085d"
    lay(tmp_path, [{"_id": "d", "text": text}], [{"_id": "q", "text": text}], "query-id\tcorpus-id\tscore\nq\td\t1\n")
    task = obliq_bench.read("math", tmp_path)
    assert task.corpus["d"].text == task.queries["q"].text == text
    assert task.excluded == {} and task.candidates("q") == ["d"]


def from_case(root: Path, case: str) -> Path:
    lay(root, [], [], "")
    for name, folder in (
        ("corpus.jsonl", "corpus"),
        ("queries.jsonl", "queries+qrels"),
        ("qrels.tsv", "queries+qrels"),
    ):
        shutil.copy(CASES / case / name, root / "analogues" / "math" / folder / name)
    return root


def test_doubled_ids_are_listed_all_at_once(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"doubled: 1 of documents \(d1\); 1 of queries \(q1\); 1 of .*\('q1', 'd1'\)"
    ):
        obliq_bench.read("math", from_case(tmp_path, "case06_duplicates"))


def test_qrels_of_an_absent_document_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"1 rows of .*qrels.tsv name .* \[\('q1', 'ghost'\)\]"):
        obliq_bench.read("math", from_case(tmp_path, "case07_dangling"))


def test_exclusions_of_an_absent_document_are_refused(tmp_path: Path) -> None:
    lay(tmp_path, DOCUMENTS, QUERIES, "query-id\tcorpus-id\tscore\nq 1\t2\t1\n", {"q 1": ["ghost"]})
    with pytest.raises(ValueError, match=r"per_query_excluded_ids.json name .*ghost"):
        obliq_bench.read("math", tmp_path)


@pytest.mark.parametrize(
    ("qrels", "words"),
    [
        ("query\tdoc\tscore\n", r"got the header 'query\\tdoc\\tscore', wanted query-id, corpus-id, score"),
        ("query-id corpus-id score\n", "got the header"),
        ("query-id\tcorpus-id\tscore\nq 1 2 1\n", "qrels.tsv:2: got 'q 1 2 1', wanted .* tab-separated"),
        ("query-id\tcorpus-id\tscore\n\nq 1\t2\thigh\n", "qrels.tsv:3: got .*an integer"),
    ],
)
def test_broken_qrels_name_the_line(tmp_path: Path, qrels: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        obliq_bench.read("math", lay(tmp_path, DOCUMENTS, QUERIES, qrels))


def test_other_faults_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Did you mean 'wildchat'"):
        obliq_bench.read("wild-chat")
    with pytest.raises(FileNotFoundError, match="wanted a folder in the layout of OBLIQ-Bench"):
        obliq_bench.read("math", tmp_path)
    lay(tmp_path, [{"id": "d", "text": "x"}], QUERIES, "query-id\tcorpus-id\tscore\n")
    with pytest.raises(ValueError, match=r"corpus.jsonl:1: got the keys .* Did you mean '_id'"):
        obliq_bench.read("math", tmp_path)
    write_jsonl(tmp_path / "analogues/math/corpus/corpus.jsonl", [{"_id": "d", "text": " "}])
    with pytest.raises(ValueError, match=r"corpus.jsonl:1: text: the text is empty"):
        obliq_bench.read("math", tmp_path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"metadata": {}}, r"documents\.jsonl:1: attribute: got NoneType"),
        ({"metadata": "gauges"}, r"documents\.jsonl:1: metadata: got str, wanted an object"),
        ({"query": None}, r"documents\.jsonl:1: query: got NoneType"),
        ({"querry": "x"}, "Did you mean 'query'"),
    ],
)
def test_faults_of_training_documents_name_the_row(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    row = {"_id": "d", "text": "t", "description": "d", "query": "q", "generator": "authored"}
    (tmp_path / "analogues/math/train").mkdir(parents=True)
    write_jsonl(tmp_path / "analogues/math/train/documents.jsonl", [row | {"metadata": {"attribute": "a"}} | changes])
    with pytest.raises(ValueError, match=words):
        obliq_bench.read_train("math", tmp_path)


@pytest.mark.parametrize("name", obliq_bench.TASKS)
def test_the_sample_keeps_train_out_of_every_corpus(name: str) -> None:
    task = obliq_bench.read(name)
    train = obliq_bench.read_train(name)
    assert train and not {d.document_id for d in train} & set(task.corpus)
    assert {d.text for d in train}.isdisjoint(d.text for d in task.corpus.values())
    validation, test = task.restrict("validation"), task.restrict("test")
    assert {d.split for d in validation.corpus.values()} == {None, "validation"}
    assert set(validation.corpus) < set(test.corpus) == set(task.corpus)
    assert {q.split for q in test.queries.values()} == {"test"} and {
        **validation.queries,
        **test.queries,
    } == task.queries
    assert all(d.attribute is None for d in task.corpus.values() if d.split is None)
    assert {d.attribute for d in train}.isdisjoint(q.attribute for q in task.queries.values())


def test_ids_of_the_sample_do_not_follow_the_attribute() -> None:
    """Ties in a ranking go by id; were documents numbered attribute by attribute, ties would favor or harm one."""
    for name in obliq_bench.TASKS:
        attributes = [d.attribute for _, d in sorted(obliq_bench.read(name).corpus.items())]
        neighbours = sum(a == b and a is not None for a, b in pairwise(attributes))
        assert neighbours / len(attributes) < 0.25, name


def test_the_sample_excludes_what_a_query_is_taken_from() -> None:
    for name in ("math", "writing"):
        task = obliq_bench.read(name)
        for i, query in task.queries.items():
            source = query.metadata["document"]
            assert query.text in task.corpus[source].text and source in task.excluded[i]
    pieces = [task.corpus[d].metadata["text_id"] for d in task.corpus if task.corpus[d].attribute]
    assert len(set(pieces)) < len(pieces), "some texts have several pieces"
    assert any(len(documents) > 1 for documents in task.excluded.values())


# -- pool, exclusions, dangling judgements, the Hub ----------------------------------------------------------------

HEADER = "query-id\tcorpus-id\tscore\n"
THREE = [{"_id": i, "text": f"Text {i}."} for i in "abc"]
ASKED = [{"_id": "q", "text": "Question."}]


def with_pool(root: Path, gold: str, pool: str) -> Path:
    lay(root, THREE, ASKED, HEADER + gold)
    (root / "analogues/math/queries+qrels/qrels_pool.tsv").write_text(HEADER + pool)
    return root


def test_the_pool_is_read_beside_gold_and_kept_by_a_split(tmp_path: Path) -> None:
    task = obliq_bench.read("math", with_pool(tmp_path, "q\ta\t2\n", "q\ta\t2\nq\tb\t2\nq\tc\t0\n"))
    assert task.qrels == {"q": {"a": 2}}
    assert task.pooled == {"q": {"a": 2, "b": 2, "c": 0}}
    assert obliq_bench.read("math").pooled is None
    sample = obliq_bench.read("twitter")
    pooled = replace(sample, pooled=sample.qrels).restrict("validation")
    assert pooled.pooled == pooled.qrels and pooled.pooled


@pytest.mark.parametrize("pool", ["q\tb\t2\n", "q\ta\t0\n"])
def test_a_pool_without_a_gold_document_is_refused(tmp_path: Path, pool: str) -> None:
    with pytest.raises(ValueError, match=r"1 relevant rows of .*qrels.tsv are not relevant in .*\('q', 'a'\)"):
        obliq_bench.read("math", with_pool(tmp_path, "q\ta\t2\n", pool))


def test_doubled_and_dangling_rows_of_the_pool_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"doubled: 1 of .*qrels_pool.tsv \(\('q', 'b'\)\)"):
        obliq_bench.read("math", with_pool(tmp_path / "1", "q\ta\t2\n", "q\ta\t2\nq\tb\t2\nq\tb\t0\n"))
    with pytest.raises(ValueError, match=r"1 rows of .*qrels_pool.tsv name .*\('q', 'z'\)"):
        obliq_bench.read("math", with_pool(tmp_path / "2", "q\ta\t2\n", "q\ta\t2\nq\tz\t2\n"))


def test_a_negative_grade_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"negative grades, such as those of \[\('q', 'a'\)\]; wanted 0 or more"):
        obliq_bench.read("math", lay(tmp_path, THREE, ASKED, HEADER + "q\ta\t-1\n"))


def test_all_documents_excluded_is_refused(tmp_path: Path) -> None:
    lay(tmp_path, THREE, ASKED, HEADER + "q\ta\t1\n", {"q": ["a", "b", "c"]})
    with pytest.raises(ValueError, match=r"all 3 documents are excluded for 1 queries, such as \['q'\]"):
        obliq_bench.read("math", tmp_path)


def test_dangling_judgements_can_be_taken_on_request(tmp_path: Path) -> None:
    root = from_case(tmp_path, "case07_dangling")
    with (root / "analogues/math/queries+qrels/qrels.tsv").open("a") as file:
        file.write("nobody\ta\t1\n")
    task = obliq_bench.read("math", root, allow_dangling=True)
    assert task.qrels == {"q1": {"a": 1, "ghost": 1}}


def test_the_hubs_files_are_read_at_the_pinned_commit_from_the_cache() -> None:
    from huggingface_hub import constants

    with pytest.raises(
        FileNotFoundError, match=r"analogues/math/corpus.*dianetc/OBLIQ-Bench at 4ebee29f.*same layout"
    ):
        obliq_bench.download("math")
    repo = Path(constants.HF_HUB_CACHE) / "datasets--dianetc--OBLIQ-Bench"
    try:
        root = repo / "snapshots" / obliq_bench.REVISION
        with_pool(root, "q\ta\t2\n", "q\ta\t2\nq\tb\t2\n")
        assert ("bench", "math") not in at_hand()
        (root / "analogues/math/queries+qrels/per_query_excluded_ids.json").write_text('{"q": ["c"]}')
        task = load("bench", "math")
        assert task.excluded == {"q": {"c"}} and task.pooled == {"q": {"a": 2, "b": 2}}
        assert [pair for pair in at_hand() if pair[0] == "bench"] == [("bench", "math")]
    finally:
        shutil.rmtree(repo)


def test_the_tasks_have_the_files_that_the_release_has() -> None:
    assert {t: [f.rsplit("/", 1)[1] for f in obliq_bench.files_of_task(t)[3:]] for t in obliq_bench.TASKS} == {
        "twitter": ["qrels_pool.tsv"],
        "math": ["qrels_pool.tsv", "per_query_excluded_ids.json"],
        "writing": ["per_query_excluded_ids.json"],
        "congress": [],
        "wildchat": ["qrels_pool.tsv"],
    }
