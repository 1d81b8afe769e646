from __future__ import annotations

import errno
import json
import math
import os

import numpy as np
import pytest

from dataset_builders import atomic
from hub_models.evaluation.results import (
    Comparison,
    Metric,
    ModelInfo,
    PerQuery,
    Results,
    RunResult,
    TaskResult,
    environment,
    read_per_query,
    write_per_query,
)


def _results(**timing: float) -> Results:
    run = RunResult(
        strategy="dense",
        params={},
        seed=None,
        slices={"overall": {"precision_at_r": Metric.over(np.array([0.0, 1.0]))}},
        compare=[],
        diagnostics={},
        per_query=PerQuery(path="per_query/x.parquet", sha256="0" * 64),
        timing=timing or {"total_s": 1.0},
    )
    task = TaskResult(dataset="sample", revision="r", query_template="{instruction} {claim}", counts={}, runs=[run])
    model = ModelInfo(id="org/m", revision=None, base=None, base_revision=None, adapter_sha256=None)
    return Results(model=model, environment={}, tasks={"sample-stance": task})


def test_round_trip(tmp_path):
    path = tmp_path / "deep" / "results.json"
    _results().write(path)
    assert Results.read(path) == _results()
    content = json.loads(path.read_text())
    assert content["schema_version"] == 1
    assert content["tasks"]["sample-stance"]["runs"][0]["slices"]["overall"]["precision_at_r"] == {
        "mean": 0.5,
        "std": pytest.approx(math.sqrt(0.5)),
        "n": 2,
    }
    assert [p.name for p in path.parent.iterdir()] == ["results.json"]


def test_mean_by_name():
    run = _results().tasks["sample-stance"].run("dense")
    assert run.mean("overall", "precision_at_r") == 0.5
    assert run.mean("overall", "ndcg_at_10") is None
    assert run.mean("support", "precision_at_r") is None
    assert _results().tasks["sample-stance"].run("rerank") is None


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_number_that_is_none_becomes_null_with_a_reason(bad):
    metric = Metric.over(np.array([bad, 1.0]))
    assert (metric.mean, metric.std, metric.reason) == (None, None, "a query's value is not finite")


@pytest.mark.parametrize(
    ("values", "mean", "reason"),
    [([], None, "no query has a relevant document"), ([0.25], 0.25, "the std of a single query is not defined")],
)
def test_what_cannot_be_computed_says_why(values, mean, reason):
    metric = Metric.over(np.array(values))
    assert (metric.mean, metric.std, metric.n, metric.reason) == (mean, None, len(values), reason)


def test_a_null_needs_a_reason():
    with pytest.raises(ValueError, match="a mean or std of null needs a reason"):
        Metric(mean=None, std=None, n=0)
    with pytest.raises(ValueError, match="an interval or p of null needs a reason"):
        Comparison(
            baseline="b", slice="overall", metric="m", delta=0.1, low=None, high=None, level=0.95, unit="claim",
            n_units=1, resamples=1, seed=0, p=None,
        )  # fmt: skip


def test_numpy_numbers_are_written_as_numbers(tmp_path):
    metric = Metric(mean=np.float64(0.5), std=np.float64(0.1), n=np.int64(2))
    assert metric.model_dump_json() == '{"mean":0.5,"std":0.1,"n":2,"reason":null}'


@pytest.mark.parametrize("bad", [math.nan, -math.inf])
def test_nothing_that_is_no_json_is_written(tmp_path, bad):
    results = _results()
    results.tasks["sample-stance"].counts["share"] = bad
    path = tmp_path / "results.json"
    with pytest.raises(ValueError, match=r"results\.tasks\.sample-stance\.counts\.share: got -?(nan|inf)"):
        results.write(path)
    assert not path.exists()


def test_reading_says_what_is_wrong(tmp_path):
    path = tmp_path / "results.json"
    with pytest.raises(FileNotFoundError, match="no results file; write one with"):
        Results.read(path)
    path.write_text('{"schema_version": 1, "mean": NaN}')
    with pytest.raises(ValueError, match="no strict JSON \\(holds NaN\\)"):
        Results.read(path)
    path.write_text('{"schema_version": 2}')
    with pytest.raises(ValueError, match="got schema_version 2, wanted 1"):
        Results.read(path)
    path.write_text('{"schema_version": 1, "model": {"id": 3}, "environment": {}, "tasks": {}, "extra": 1}')
    with pytest.raises(ValueError, match=r"model\.id: .*string"):
        Results.read(path)


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "results.json"
    _results().write(path)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(
        OSError, match=r"No space left on device: not written, what was there still stands: .*results\.json"
    ):
        _results(total_s=2.0).write(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["results.json"]


def test_per_query_values_are_those_the_results_speak_of(tmp_path):
    reference = write_per_query(
        tmp_path, "sample-stance-dense", {"query_id": ["a", "b"], "precision_at_r": np.array([0.0, 1.0])}
    )
    assert reference.path == "per_query/sample-stance-dense.parquet"
    assert read_per_query(tmp_path, reference).to_pydict() == {"query_id": ["a", "b"], "precision_at_r": [0.0, 1.0]}
    path = tmp_path / reference.path
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(ValueError, match=r"got SHA-256 \w+, wanted"):
        read_per_query(tmp_path, reference)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="per-query values are not there"):
        read_per_query(tmp_path, reference)


def test_the_environment_names_versions_and_no_machine_path():
    found = environment("cpu")
    assert found["versions"]["torch"]
    assert len(found["code_sha256"]) == 64
    text = json.dumps(found)
    assert os.path.expanduser("~") + "/" not in text
    assert os.getcwd() not in text
