"""What a mean hides, by hand."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from hub_models.__main__ import app
from hub_models.evaluation import oblique, oblique_runs, oblique_table, stance, stance_runs, stance_table
from hub_models.evaluation.diagnostics import comparable, contrast, describe
from hub_models.evaluation.results import write_per_query
from tests.hub_models.evaluation.helpers import random_data, random_encoder
from tests.hub_models.evaluation.oblique_data import random_task

MAIN = "ndcg_at_10_gold"


def table(values, **columns):
    n = len(values)
    made = {"query_id": np.array([f"q{i}" for i in range(n)], object), MAIN: np.array(values, float)}
    return made | {
        name: np.array(column, object if name in ("group", "top") else None) for name, column in columns.items()
    }


def tops(*firsts):
    out = np.empty(len(firsts), object)
    out[:] = [[first, "z"] if first else [] for first in firsts]
    return out


def test_collapse_shows_in_the_first_documents():
    found = describe({**table([0, 0, 1, 0.5]), "top": tops("a", "a", "a", "b")}, MAIN)
    assert (found["top1_distinct"], found["top1_max_share"], found["zero"]) == (2, 0.75, 0.5)
    found = describe({**table([0, 0]), "top": tops("", "")}, MAIN)
    assert (found["top1_distinct"], found["top1_max_share"]) == (0, 0)


def test_what_a_table_has_is_described():
    made = table(
        [0.2, 0.6], tied=[True, False], recall_at_10_gold=[0.5, 0.0], recall_at_100_gold=[1.0, 0.5],
        recall_at_10_pooled=[0.25, 0.25], shuffled_ndcg_at_10_gold=[0.1, 0.1], overlap_jaccard=[0.2, 0.4],
        overlap_coverage=[0.5, 0.7], entity_leakage=[0.0, 1.0], group=["g", "h"],
    )  # fmt: skip
    found = describe(made, MAIN)
    assert found["mean"] == pytest.approx(0.4)
    assert found["ties"] == 0.5
    assert found["recall_ceiling"] == {"gold": {"10": 0.25, "100": 0.75}, "pooled": {"10": 0.25}}
    assert found["shuffle"] == {"shuffled": pytest.approx(0.1), "ratio": pytest.approx(4.0)}
    assert found["overlap"] == pytest.approx({"jaccard": 0.3, "coverage": 0.6, "entity_leakage": 0.5})
    interval = found["interval"]
    assert (interval["unit"], interval["n_units"], interval["resamples"]) == ("group", 2, 10_000)
    assert (interval["low"], interval["high"]) == (pytest.approx(0.2), pytest.approx(0.6))
    assert "p" not in interval  # of a mean against 0 it says nothing
    bare = describe(table([0.2, 0.6]), MAIN)
    assert set(bare) == {"metric", "mean", "interval", "zero"} and bare["interval"]["unit"] == "query_id"


def test_a_shuffle_that_finds_nothing_has_no_ratio():
    assert describe(table([0.0], shuffled_ndcg_at_10_gold=[0.0]), MAIN)["shuffle"]["ratio"] is None


def test_helped_hurt_tied_and_zero_in_both():
    """The tolerance is .001, and a query that is 0 in both is tied too."""
    ours = table([0.5, 0.2, 0.3005, 0.0, 0.0, 0.402])
    theirs = table([0.4, 0.3, 0.3, 0.0, 0.0, 0.4])
    turned = {name: column[::-1] for name, column in theirs.items()}
    found = contrast(ours, turned, MAIN)
    assert [found[k] for k in ("helped", "hurt", "tied", "zero_in_both")] == [2, 1, 3, 2]
    assert found["delta"] == pytest.approx((0.1 - 0.1 + 0.0005 + 0.002) / 6)
    assert contrast(ours, turned, MAIN, tolerance=0.0)["tied"] == 2
    assert found["gain_by_rank"] == {"10": pytest.approx(found["delta"])}


def test_the_gain_by_rank_has_every_rank_that_both_keep():
    ours = table([0.5, 0.5], ndcg_at_1_gold=[1.0, 0.0], ndcg_at_100_gold=[0.5, 0.5], ndcg_at_5_gold=[0.1, 0.1])
    theirs = table([0.5, 0.1], ndcg_at_1_gold=[0.0, 0.0], ndcg_at_100_gold=[0.5, 0.5])
    assert contrast(ours, theirs, MAIN)["gain_by_rank"] == pytest.approx({"1": 0.5, "10": 0.2, "100": 0.0})


def test_the_distance_to_an_oracle_is_the_difference_to_its_run():
    found = contrast(table([0.1, 0.3]), table([1.0, 0.8]), MAIN)
    assert found["delta"] == pytest.approx(-0.7) and found["interval"]["p"] is not None


def test_what_cannot_be_read_is_refused():
    with pytest.raises(ValueError, match=r"got the metric 'ndcg_at_10_golt', wanted one of .* Did you mean"):
        describe(table([0.1]), "ndcg_at_10_golt")
    with pytest.raises(ValueError, match="the table has no query"):
        describe(table([]), MAIN)
    with pytest.raises(
        ValueError, match="the other run answered 1 queries, this run 2, of which 1 are the same; evaluate"
    ):
        contrast(table([0.1, 0.2]), table([0.1]), MAIN)


def diagnosed(tmp_path, metric, **columns):
    pq.write_table(pa.table(columns), tmp_path / "made.parquet")
    done = CliRunner().invoke(app, ["diagnose", str(tmp_path / "made.parquet"), "--metric", metric])
    assert isinstance(done.exception, SystemExit | None), done.exception
    return done.exit_code, " ".join(done.output.split())


@pytest.mark.parametrize(
    ("metric", "columns", "said"),
    [
        ("m", {"m": [0.5, 1.0]}, "got the columns ['m'], wanted one of ['group', 'claim_id', 'query_id']"),
        ("m", {"m": [0.5, 1.0], "group": ["a", None]}, "group: got 1 of 2 rows without a value, wanted one in each"),
        ("m", {"m": [0.5, 1.0], "group": [1, None]}, "group: got 1 of 2 rows without a value, wanted one in each"),
        ("t", {"t": ["x", "y"], "group": ["a", "b"]}, "t: got values that are no numbers, such as 'x'"),
        ("t", {"t": [["x"], ["y"]], "group": ["a", "b"]}, "t: got values that are no numbers, such as"),
        ("m", {"m": [0.5, None], "group": ["a", "b"]}, "m: got 1 of 2 rows without a finite number"),
        ("m", {"m": [0.5], "candidates": ["all"], "query_id": ["q"]}, "wanted 'seen' beside 'candidates'"),
    ],
)
def test_a_file_that_lacks_something_says_what(tmp_path, metric, columns, said):
    code, output = diagnosed(tmp_path, metric, **columns)
    assert code == 1 and said in output.replace(" │ │ ", " "), output


def test_units_that_are_numbers_are_units(tmp_path):
    assert diagnosed(tmp_path, "m", m=[0.5, 1.0], group=[1, 2])[0] == 0


def test_no_parquet_is_said(tmp_path):
    path = tmp_path / "made.csv"
    path.write_text("m\n0.5\n")
    done = CliRunner().invoke(app, ["diagnose", str(path), "--metric", "m"])
    assert done.exit_code == 1 and "got no readable parquet" in done.output
    with pytest.raises(ValueError, match=r"got the columns \['group', 'm'\], wanted 'query_id' among them"):
        contrast({"group": np.array(["a"]), "m": np.array([1.0])}, table([0.1]), "m")


def test_both_families_and_every_file_of_theirs(tmp_path):
    """A stance file is described over the unseen instructions and all documents, which is what its mean is over."""
    task = oblique_runs.evaluate_reference(oblique.judge(random_task(0), "made"), 0).table
    claims = stance_runs.evaluate(stance.judge(random_data(0), "test"), "{instruction} {claim}", random_encoder(0))
    means = {
        MAIN: oblique_table.summarise(task, 1300)["overall"][MAIN].mean,
        "precision_at_r": stance_table.summarise(claims["dense"].table)["overall"]["precision_at_r"].mean,
    }
    for (metric, mean), columns in zip(means.items(), (task, claims["dense"].table), strict=True):
        reference = write_per_query(tmp_path, metric, columns)
        path = str(tmp_path / reference.path)
        result = CliRunner().invoke(app, ["diagnose", path, "--metric", metric, "--against", path])
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        assert found["mean"] == pytest.approx(mean)
        assert found == {**describe(comparable(columns), metric), "against": found["against"]}
        assert (found["against"]["helped"], found["against"]["delta"]) == (0, 0.0)
        assert found["top1_distinct"] > 1
    result = CliRunner().invoke(app, ["diagnose", path, "--metric", "nothing"])
    assert result.exit_code == 1 and "wanted one of" in result.output
