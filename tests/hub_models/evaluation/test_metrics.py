from __future__ import annotations

import json
import math
import random
from pathlib import Path

import ir_measures
import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from hub_models.evaluation.metrics import (
    COMPOSITION,
    EASY,
    HARD,
    POSITIVE,
    SEMI_HARD,
    STANCE_BIT,
    STANCE_METRICS,
    composition,
    document_kinds,
    ndcg,
    precision_at_r,
    rank,
    rank_columns,
    stance_values,
)

CASES = Path(__file__).parents[2] / "cases"
TIES = json.loads((CASES / "case23_ties.json").read_text())["cases"]
DENOMINATORS = json.loads((CASES / "case24_denominators.json").read_text())


# -- one ranking (case 23) -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", TIES, ids=range(len(TIES)))
def test_ties_are_broken_by_id_whatever_the_insertion_order(case):
    shuffled = list(case["scores"].items())
    random.Random(0).shuffle(shuffled)
    for scores in (case["scores"], dict(shuffled)):
        assert rank(scores) == case["ranking"]
        run = {"q": scores}
        assert ndcg({"q": case["qrels"]}, run).mean == pytest.approx(case["ndcg_at_10"], abs=1e-4)
        assert precision_at_r({"q": case["qrels"]}, run).mean == case["precision_at_r"]


FLOATS = st.floats(width=32, allow_nan=False)


@given(
    rows=st.integers(1, 4).flatmap(
        lambda n: st.integers(1, 9).flatmap(
            lambda d: st.lists(
                st.lists(FLOATS | st.sampled_from([0.0, -0.0, 0.5]), min_size=d, max_size=d), min_size=n, max_size=n
            )
        )
    ),
    data=st.data(),
)
@settings(deadline=None)
def test_the_vectorised_ranking_is_the_plain_one(rows, data):
    scores = np.array(rows, np.float32)
    depth = data.draw(st.integers(0, scores.shape[1]))
    plain = [sorted(range(len(row)), key=lambda d: (-row[d], d))[:depth] for row in scores.tolist()]
    assert rank_columns(scores, depth).tolist() == plain


def test_a_ranking_cannot_be_deeper_than_the_corpus():
    with pytest.raises(ValueError, match="got depth 3, wanted at most the 2 documents"):
        rank_columns(np.zeros((1, 2), np.float32), 3)


def test_a_nan_in_the_score_matrix_is_named():
    with pytest.raises(ValueError, match="query 1, document 2: the score is NaN"):
        rank_columns(np.array([[0, 0, 0], [0, 0, math.nan]], np.float32), 1)


# -- means and denominators (case 24) ------------------------------------------------------------------------------


def test_absent_and_empty_queries_count_and_queries_without_positives_do_not():
    case = DENOMINATORS["means"]
    for name, metric in (("precision_at_r", precision_at_r), ("ndcg_at_10", ndcg)):
        scored = metric(case["qrels"], case["run"])
        assert scored.mean == pytest.approx(1 / 3)
        assert scored.n == case["expected"][name]["n"] == 3
        assert scored.left_out == case["expected"]["left_out_without_positives"] == 2


def test_r_beyond_the_depth_is_an_error_and_the_capped_metric_is_not():
    case = DENOMINATORS["depth"]
    with pytest.raises(ValueError, match=r"needs 50 ranked documents \(R = 50\), got depth 10"):
        precision_at_r(case["qrels"], case["run"])
    assert precision_at_r(case["qrels"], case["run"], cap=10).mean == 1.0
    assert ndcg(case["qrels"], case["run"]).mean == pytest.approx(1.0)


@pytest.mark.parametrize("metric", [ndcg, precision_at_r])
def test_what_is_no_judgement_or_score_is_refused(metric):
    grades = DENOMINATORS["grades"]
    with pytest.raises(ValueError, match="got the grade -1, wanted 0 or more"):
        metric(grades["qrels"], grades["run"])
    with pytest.raises(ValueError, match="document 'a': got the score nan"):
        metric({"q": {"a": 1}}, {"q": {"a": math.nan, "b": 1.0}})
    with pytest.raises(ValueError, match="got the id 1 of type int, wanted a string"):
        metric({1: {2: 1}}, {})
    with pytest.raises(ValueError, match="got the id 2 of type int"):
        metric({"q": {2: 1}}, {})


@pytest.mark.parametrize("metric", [ndcg, precision_at_r])
def test_no_query_gives_no_mean(metric):
    assert (metric({}, {}).mean, metric({}, {}).n) == (None, 0)


def test_graded_relevance_by_hand():
    # gains 0, 2 over ideal 2, 1: (2 / log2 3) / (2 + 1 / log2 3)
    expected = (2 / math.log2(3)) / (2 + 1 / math.log2(3))
    assert ndcg({"q": {"a": 1, "c": 2}}, {"q": {"b": 0.9, "c": 0.8}}).mean == pytest.approx(expected)


def test_agrees_with_ir_measures_without_ties():
    rng = np.random.default_rng(3)
    docs = [f"d{i}" for i in range(60)]
    run = {f"q{q}": dict(zip(docs, rng.permutation(60).astype(float).tolist(), strict=True)) for q in range(20)}
    qrels = {
        q: {d: int(rng.integers(0, 3)) for d in rng.choice(docs, int(rng.integers(1, 30)), replace=False)} for q in run
    }
    qrels = {q: grades for q, grades in qrels.items() if any(grades.values())}
    theirs = ir_measures.calc_aggregate([ir_measures.nDCG @ 10, ir_measures.Rprec], qrels, run)
    assert ndcg(qrels, run).mean == pytest.approx(theirs[ir_measures.nDCG @ 10])
    assert precision_at_r(qrels, run).mean == pytest.approx(theirs[ir_measures.Rprec])


IDS = st.sampled_from([f"d{i}" for i in range(25)])
GRADES = st.dictionaries(st.sampled_from(["q1", "q2", "q10"]), st.dictionaries(IDS, st.integers(0, 3)), min_size=1)


@given(qrels=GRADES, seed=st.integers(0, 10**6))
@settings(deadline=None)
def test_agrees_with_pytrec_eval_without_ties(qrels, seed):
    """Graded judgements, queries without any relevant document and documents that were not judged."""
    rng = np.random.default_rng(seed)
    run = {q: dict(zip((f"d{i}" for i in range(25)), rng.permutation(25).astype(float), strict=True)) for q in qrels}
    asked = {q: grades for q, grades in qrels.items() if any(grades.values())}
    theirs = pytrec_eval.RelevanceEvaluator(asked, {"ndcg_cut_10", "Rprec"}).evaluate(run) if asked else {}
    for ours, name in ((ndcg(qrels, run), "ndcg_cut_10"), (precision_at_r(qrels, run), "Rprec")):
        assert ours.left_out == len(qrels) - len(asked) and ours.n == len(asked)
        assert ours.values == {q: pytest.approx(theirs[q][name]) for q in asked}


SCORES = st.dictionaries(IDS, st.sampled_from([0.0, -0.0, 0.5, 1.0]), min_size=5)


@given(qrels=GRADES, scores=SCORES, random=st.randoms())
@settings(deadline=None)
def test_the_order_of_a_run_changes_nothing(qrels, scores, random):
    """With as many ties as four scores give; and a document that is judged and not returned never helps."""
    shuffled = list(scores.items())
    random.shuffle(shuffled)
    runs = [{q: dict(items) for q in qrels} for items in (scores, shuffled)]
    assert rank(scores) == rank(dict(shuffled))
    for metric in (ndcg, lambda q, r: precision_at_r(q, r, cap=5)):
        one, other = (metric(qrels, run) for run in runs)
        assert one == other
        assert all(0 <= value <= 1 for value in one.values.values())


def test_a_table_made_by_hand():
    """Ties, a query that the run lacks, one that nobody judged, and grades; each value worked out on paper."""
    qrels = {
        "graded": {"a": 3, "b": 1, "c": 0},  # ideal 3 + 1 / log2 3
        "tied": {"b": 1, "d": 2},  # all four equal: a, b, c, d by id
        "absent": {"a": 1},
        "nothing": {"a": 0},
    }
    run = {
        "graded": {"c": 0.9, "a": 0.5, "x": 0.5, "b": 0.1},  # c, a, x, b
        "tied": dict.fromkeys("dcba", 0.5),
        "nothing": {"a": 1.0},
        "unjudged": {"a": 1.0},
    }
    half, log5 = 1 / math.log2(3), math.log2(5)
    found = ndcg(qrels, run)
    assert found.values == {
        "graded": pytest.approx((3 * half + 1 / log5) / (3 + half)),
        "tied": pytest.approx((half + 2 / log5) / (2 + half)),
        "absent": 0.0,
    }
    assert found.left_out == 1
    assert precision_at_r(qrels, run).values == {"graded": 0.5, "tied": 0.5, "absent": 0.0}


# -- stance --------------------------------------------------------------------------------------------------------


def test_kinds_by_hand():
    # towards the claim:  support, attack, both, none, none, none
    labels = np.array([1, 2, 3, 0, 0, 0], np.uint8)
    # towards any claim:  support, both, both, attack, support, both
    anywhere = np.array([1, 3, 3, 2, 1, 3], np.uint8)
    support = [POSITIVE, HARD, POSITIVE, EASY, SEMI_HARD, SEMI_HARD]
    attack = [HARD, POSITIVE, POSITIVE, SEMI_HARD, EASY, SEMI_HARD]
    assert document_kinds(labels, anywhere, np.uint8(STANCE_BIT["support"])).tolist() == support
    assert document_kinds(labels, anywhere, np.uint8(STANCE_BIT["attack"])).tolist() == attack
    both = document_kinds(np.stack([labels, labels]), np.stack([anywhere, anywhere]), np.array([[1], [2]], np.uint8))
    assert both.tolist() == [support, attack]


def test_stance_values_by_hand():
    kinds = np.array([[HARD, POSITIVE, SEMI_HARD, EASY, POSITIVE]], np.uint8)
    values = {name: float(column[0]) for name, column in stance_values(kinds, np.array([4])).items()}
    ideal = sum(1 / math.log2(place + 1) for place in (1, 2, 3, 4))
    assert values == {
        "ndcg_at_10": pytest.approx((1 / math.log2(3) + 1 / math.log2(6)) / ideal),
        **{f"{name}_at_r{cap}": 0.25 for name in COMPOSITION for cap in ("", "_cap10")},
    }


def test_cap_cuts_at_ten():
    kinds = np.array([[POSITIVE] * 10 + [EASY] * 10], np.uint8)
    values = stance_values(kinds, np.array([20]))
    assert (values["precision_at_r"][0], values["easy_at_r"][0]) == (0.5, 0.5)
    assert (values["precision_at_r_cap10"][0], values["easy_at_r_cap10"][0]) == (1.0, 0.0)
    assert values["ndcg_at_10"][0] == pytest.approx(1.0)


@given(
    kinds=st.integers(1, 25).flatmap(
        lambda d: st.lists(st.lists(st.integers(0, 3), min_size=d, max_size=d), min_size=1, max_size=5)
    ),
    data=st.data(),
)
@settings(deadline=None)
def test_shares_sum_to_one_and_all_values_lie_in_the_unit_interval(kinds, data):
    array = np.array(kinds, np.uint8)
    depth = array.shape[1]
    most = (array == POSITIVE).sum(axis=1)
    r = np.array([data.draw(st.integers(max(1, n), max(depth, 1))) for n in most])
    values = stance_values(array, r)
    assert tuple(values) == STANCE_METRICS
    for cap in ("", "_cap10"):
        np.testing.assert_allclose(sum(values[f"{name}_at_r{cap}"] for name in COMPOSITION), 1.0)
    for column in values.values():
        assert ((column >= 0) & (column <= 1 + 1e-12)).all()


def test_stance_values_agree_with_the_plain_metrics():
    rng = np.random.default_rng(5)
    scores = rng.integers(0, 12, (30, 40)).astype(np.float32)  # many ties
    positive = rng.random((30, 40)) < 0.3
    positive[:, 7] = True
    docs = [f"d{i:02d}" for i in range(40)]
    order = rank_columns(scores, 40)
    kinds = np.where(np.take_along_axis(positive, order, 1), POSITIVE, EASY).astype(np.uint8)
    ours = stance_values(kinds, positive.sum(axis=1))
    qrels = {f"q{q}": {docs[d]: 1 for d in np.flatnonzero(row)} for q, row in enumerate(positive)}
    run = {f"q{q}": dict(zip(docs, row.tolist(), strict=True)) for q, row in enumerate(scores)}
    assert ours["precision_at_r"].tolist() == list(precision_at_r(qrels, run).values.values())
    assert ours["precision_at_r_cap10"].tolist() == list(precision_at_r(qrels, run, cap=10).values.values())
    np.testing.assert_allclose(ours["ndcg_at_10"], list(ndcg(qrels, run).values.values()), atol=1e-12)


@pytest.mark.parametrize("cut", [0, 4])
def test_a_cut_outside_the_ranking_is_an_error(cut):
    with pytest.raises(ValueError, match=f"got cut-offs from {cut} to {cut}, wanted 1 to the depth 3"):
        composition(np.zeros((1, 3), np.uint8), np.array([cut]))
