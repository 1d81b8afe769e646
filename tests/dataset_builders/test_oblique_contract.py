"""What is built as ``sample-obliq-bench`` reads back as the task that it was made of."""

from __future__ import annotations

import re
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dataset_builders import folder
from dataset_builders.__main__ import app
from dataset_builders.oblique.tables import oblique_tables
from dataset_builders.sources.obliq_bench import TASKS
from dataset_builders.sources.oblique import load
from tests.hub_models.evaluation.oblique_data import oblique_task


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    out = tmp_path_factory.mktemp("built") / "sample-obliq-bench"
    result = CliRunner().invoke(app, ["build", "sample-obliq-bench", "--out", str(out)])
    assert result.exit_code == 0, result.output
    return out


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("split", ["validation", "test"])
def test_the_built_sample_asks_what_the_embedded_one_asks(built, task, split):
    ours, theirs = load("mine", task, built).restrict(split), load("sample", task).restrict(split)
    assert {i: d.text for i, d in ours.corpus.items()} == {i: d.text for i, d in theirs.corpus.items()}
    assert {i: (q.text, q.attribute) for i, q in ours.queries.items()} == {
        i: (q.text, q.attribute) for i, q in theirs.queries.items()
    }
    assert (ours.qrels, ours.excluded, ours.pooled) == (theirs.qrels, theirs.excluded, theirs.pooled)
    assert ours.queries and ours.qrels


def _write(tmp_path, task):
    out = tmp_path / "mine-obliq-bench"
    tables = oblique_tables([task], source="mine", licence="cc0-1.0")
    folder.write(out, tables, default="math-queries", licences=["cc0-1.0"], summary="## Mine", facts={"name": "mine"})
    return out


def _task(**changes):
    given = {
        "documents": {"d 1": "one", "d2": "two", "d3": "three"},
        "queries": {"q 1": "which"},
        "qrels": {"q 1": {"d 1": 2, "d3": 0}},
        "excluded": {"q 1": {"d2"}},
        "pooled": {"q 1": {"d 1": 2, "d2": 1}},
        "splits": {"q 1": "test"},
    }
    return oblique_task(**given | changes)


def test_grades_pool_exclusions_and_ids_with_spaces_come_back(tmp_path):
    found = load("mine", "math", _write(tmp_path, _task()))
    assert found.qrels == {"q 1": {"d 1": 2, "d3": 0}}
    assert found.pooled == {"q 1": {"d 1": 2, "d2": 1}}
    assert found.excluded == {"q 1": frozenset({"d2"})}
    assert found.queries["q 1"].split == "test"


def test_without_a_pool_there_is_none(tmp_path):
    assert load("mine", "math", _write(tmp_path, _task(pooled=None))).pooled is None


def test_dangling_judgements_are_named_or_allowed(tmp_path):
    task = _task(qrels={"q 1": {"d 1": 1, "ghost": 1}}, pooled=None, allow_dangling=True)
    out = _write(tmp_path, task)
    with pytest.raises(ValueError, match=r"1 rows of .*qrels.tsv name .* not there.*'ghost'"):
        load("mine", "math", out)
    assert load("mine", "math", out, allow_dangling=True).qrels["q 1"] == {"d 1": 1, "ghost": 1}


def test_a_task_that_the_folder_lacks_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"got configs \['math-corpus'.*wanted 'writing-corpus'"):
        load("mine", "writing", _write(tmp_path, _task()))


def test_a_text_that_differs_between_splits_is_refused(tmp_path):
    splits = {"q 1": "validation", "q2": "test"}
    both = _task(
        queries={"q 1": "which", "q2": "what"},
        splits=splits,
        qrels={"q 1": {"d3": 1}, "q2": {"d3": 1}},
        pooled=None,
        excluded=None,
    )
    tables = oblique_tables([both], source="mine", licence="cc0-1.0")
    changed = dict(both.corpus, d3=both.corpus["d2"])
    other = oblique_tables([replace(both, corpus=changed)], source="mine", licence="cc0-1.0")
    corpus = next(t for t in other if (t.config, t.split) == ("math-corpus", "test"))
    mixed = [t for t in tables if (t.config, t.split) != ("math-corpus", "test")]
    at = next(i for i, t in enumerate(mixed) if t.config == "math-corpus")
    out = tmp_path / "mine"
    mixed.insert(at + 1, corpus)
    folder.write(out, mixed, default="math-queries", licences=["cc0-1.0"], summary="## Mine", facts={"name": "mine"})
    with pytest.raises(ValueError, match="document 'd3' has another text in another split"):
        load("mine", "math", out)


@pytest.mark.parametrize(
    ("config", "doubled"),
    [("math-corpus", "('test', 'd 1')"), ("math-queries", "('test', 'q 1')"), ("math-qrels", "('q 1', 'd 1')")],
)
def test_doubled_rows_of_a_built_benchmark_are_named(tmp_path, config, doubled):
    """Case 6: somebody appended a file to itself."""
    out = _write(tmp_path, _task())
    (shard,) = (out / config).glob("*.parquet")
    table = pq.read_table(shard)
    pq.write_table(pa.concat_tables([table, table]), shard)
    with pytest.raises(ValueError, match=rf"ids must be unique; doubled: .*rows of {config} .*{re.escape(doubled)}"):
        load("mine", "math", out)
