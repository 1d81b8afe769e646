"""Ranking, exclusions, judgements and means of oblique tasks, against an oracle and by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import ir_measures
import numpy as np
import pytest

from dataset_builders.instructions import OBLIQUE_INSTRUCTIONS, OUR_OBLIQUE_INSTRUCTIONS
from dataset_builders.sources.obliq_bench import TASKS
from hub_models.evaluation import oblique_ranking
from hub_models.evaluation.metrics import rank
from hub_models.evaluation.oblique import judge, query_texts
from hub_models.evaluation.oblique_metrics import METRICS, SHUFFLED
from hub_models.evaluation.oblique_ranking import measure_ranking, per_query
from hub_models.evaluation.oblique_runs import evaluate, evaluate_reference
from hub_models.evaluation.oblique_table import compare, slices_of, summarise
from tests.hub_models.evaluation.helpers import random_encoder
from tests.hub_models.evaluation.oblique_data import oblique_task, random_task

CASES = Path(__file__).parents[2] / "cases"
TEMPLATE = "{instruction} {claim}"


def _by_definition(task, encode, template=TEMPLATE):
    """Each query's ranking, one by one: all that may be returned, score descending, then id ascending."""
    rankings = {}
    for query, text in task.queries.items():
        asked = encode([f"{OBLIQUE_INSTRUCTIONS[task.task]} {text.text}" if template else text.text])[0]
        scores = {d: float(encode([t.text])[0] @ asked) for d, t in task.corpus.items()}
        rankings[query] = [d for d in rank(scores) if d not in task.excluded.get(query, ())]
    return rankings


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("strategy", ["dense", "claim_only"])
def test_every_metric_is_the_oracles(seed, strategy):
    """Scores tie often here, documents are excluded, and the cut at 1,000 is below the corpus."""
    task, encode = random_task(seed), random_encoder(seed)
    judged = judge(task, "made")
    table = evaluate(judged, TEMPLATE, encode)[strategy].table
    assert judged.left_out == 1 and list(table["query_id"]) == [f"q {i}" for i in range(1, 9)]
    rankings = _by_definition(task, encode, TEMPLATE if strategy == "dense" else None)
    run = {q: {d: float(-i) for i, d in enumerate(ranked[:1000])} for q, ranked in rankings.items()}
    measures = {
        "ndcg_at_10": ir_measures.nDCG @ 10,
        "ndcg_at_50": ir_measures.nDCG @ 50,
        **{f"recall_at_{k}": ir_measures.R @ k for k in (10, 50, 100)},
    }
    for name, all_of in (("gold", task.qrels), ("pooled", task.pooled)):
        qrels = {q: {d: g for d, g in found.items() if d not in task.excluded[q]} for q, found in all_of.items()}
        oracle = {(m.query_id, str(m.measure)): m.value for m in ir_measures.iter_calc(measures.values(), qrels, run)}
        for metric, measure in measures.items():
            expected = [oracle[q, str(measure)] for q in table["query_id"]]
            assert table[f"{metric}_{name}"] == pytest.approx(expected, abs=1e-12), metric
    assert [list(t) for t in table["top"]] == [rankings[q][:10] for q in table["query_id"]]
    assert table["tied"].any()
    assert "recall_at_1000_gold" not in table  # 1,000 of 1,300 documents


def test_recall_at_1000_of_a_corpus_that_is_large_enough():
    task, encode = random_task(3, n_documents=10_000, n_queries=3), random_encoder(3)
    table = evaluate(judge(task, "made"), TEMPLATE, encode)["dense"].table
    rankings = _by_definition(task, encode)
    for row, query in enumerate(table["query_id"]):
        relevant = {d for d, g in task.qrels[query].items() if g > 0} - task.excluded[query]
        expected = len(relevant & set(rankings[query][:1000])) / len(relevant)
        assert table["recall_at_1000_gold"][row] == pytest.approx(expected)


def test_blocks_change_nothing(monkeypatch):
    judged, encode = judge(random_task(1), "made"), random_encoder(1)
    whole = evaluate(judged, TEMPLATE, encode)["dense"].table
    monkeypatch.setattr(oblique_ranking, "_BLOCK", 1)
    parts = evaluate(judged, TEMPLATE, encode)["dense"].table
    assert whole.keys() == parts.keys()
    for name in whole:
        assert np.array_equal(whole[name], parts[name]), name


# -- exclusions ----------------------------------------------------------------------------------------------------


def test_excluded_documents_give_their_ranks_to_the_next_and_are_not_relevant():
    documents = {f"d{i:04d}": f"d{i}" for i in range(1200)}
    queries = {"q": "q", "r": "r"}
    qrels = {"q": {"d0000": 2, "d1000": 2, "d1001": 2}, "r": {"d0999": 1}}
    judged = judge(oblique_task(documents, queries, qrels, {"q": {"d0000", "d0005"}}), "made")
    table = per_query(judged, lambda rows: np.tile(-np.arange(1200, dtype=np.float32), (rows.stop - rows.start, 1)))
    assert list(table["top"][0]) == ["d0001", "d0002", "d0003", "d0004", *(f"d{i:04d}" for i in range(6, 12))]
    assert list(table["n_relevant"]) == [2, 1]
    judged.__dict__["recall_at"] = (1000,)  # of two relevant documents the 999th and the 1,000th that may be returned
    table = per_query(judged, lambda rows: np.tile(-np.arange(1200, dtype=np.float32), (rows.stop - rows.start, 1)))
    assert list(table["recall_at_1000_gold"]) == [1.0, 1.0]


def test_no_list_of_queries_times_corpus_is_built(monkeypatch):
    """What is ranked is the depth and the largest exclusion, whatever the corpus."""
    depths = []
    real = oblique_ranking.rank_columns
    monkeypatch.setattr(oblique_ranking, "rank_columns", lambda s, depth: depths.append(depth) or real(s, depth))
    task = random_task(0, n_documents=5000)
    evaluate_reference(judge(task, "made"), seed=0)
    assert depths == [1001 + max(len(d) for q, d in task.excluded.items() if q != "q 0")]


# -- what is not found ---------------------------------------------------------------------------------------------


def test_a_query_that_finds_nothing_scores_0_and_stays_in_the_mean():
    documents = {"a": "apples", "b": "bees", "c": "cats"}
    queries = {"q1": "bees", "q2": "zebras"}
    judged = judge(oblique_task(documents, queries, {"q1": {"b": 1}, "q2": {"c": 1}}), "made")
    table = evaluate_reference(judged, None).table
    assert [list(t) for t in table["top"]] == [["b"], []]
    assert list(table["ndcg_at_10_gold"]) == [1.0, 0.0]
    found = summarise(table, 3)["overall"]["ndcg_at_10_gold"]
    assert (found.mean, found.n) == (0.5, 2)
    assert list(table[SHUFFLED]) == [1.0, 0.0]
    assert not table["tied"].any()


def test_queries_without_a_relevant_document_are_left_out_and_counted():
    documents = {"a": "x", "b": "y"}
    queries = {"q1": "1", "q2": "2", "q3": "3"}
    judged = judge(oblique_task(documents, queries, {"q1": {"a": 1}, "q2": {"b": 0}}), "made")
    assert judged.counts()["left_out"] == 2 and len(judged.queries) == 1
    with pytest.raises(ValueError, match="none of 1 math queries of the split 'test' has a relevant document"):
        judge(oblique_task(documents, {"q2": "2"}, {"q2": {"b": 0}}), "made")


def test_dangling_judgements_lower_the_ceiling():
    """Case 7: relevant are a and a document that is not there."""
    corpus = [json.loads(x) for x in (CASES / "case07_dangling" / "corpus.jsonl").read_text().splitlines()]
    task = oblique_task(
        {row["_id"]: row["text"] for row in corpus}, {"q1": "q"}, {"q1": {"a": 1, "ghost": 1}}, allow_dangling=True
    )
    judged = judge(task, "made")
    counts = judged.counts()
    assert counts["dangling"] == 1
    assert counts["ceiling"]["ndcg_at_10_gold"] == pytest.approx(0.613, abs=5e-4)
    judged.__dict__["recall_at"] = (10,)
    assert judged.counts()["ceiling"]["recall_at_10_gold"] == 0.5
    best = measure_ranking(judged, np.array([[judged.documents.index("a"), -1]]), np.array([False]))
    assert best["ndcg_at_10_gold"][0] == pytest.approx(counts["ceiling"]["ndcg_at_10_gold"])


def test_what_is_null_says_why():
    judged = judge(oblique_task({f"d{i}": str(i) for i in range(400)}, {"q": "q"}, {"q": {"d1": 1}}), "made")
    found = summarise(evaluate_reference(judged, 0).table, 400)["overall"]
    assert set(found) == set(METRICS)
    assert found["recall_at_10_gold"].mean is not None
    assert found["recall_at_50_gold"].reason == "50 is over 10% of a corpus of 400 documents"
    assert found["ndcg_at_50_gold"].mean is not None
    assert found["ndcg_at_10_pooled"].reason == "there are no pooled judgements"
    assert found["recall_at_1000_pooled"].mean is None


def test_a_corpus_smaller_than_every_cut():
    judged = judge(oblique_task({"a": "x"}, {"q": "q"}, {"q": {"a": 1}}), "made")
    for table in (evaluate_reference(judged, 0).table, evaluate(judged, TEMPLATE, random_encoder(0))["dense"].table):
        assert list(table["ndcg_at_50_gold"]) == [1.0]


def test_a_nan_is_an_error():
    def encode(texts):
        return np.full((len(texts), 2), np.nan, np.float32)

    with pytest.raises(ValueError, match="the score is NaN"):
        evaluate(judge(random_task(0), "made"), TEMPLATE, encode)


# -- chance --------------------------------------------------------------------------------------------------------


def test_chance_hangs_on_seed_and_query_alone():
    task = random_task(0)
    judged = judge(task, "made")
    table = evaluate_reference(judged, 0).table
    again, other = evaluate_reference(judged, 0).table, evaluate_reference(judged, 1).table
    assert [list(t) for t in table["top"]] == [list(t) for t in again["top"]] != [list(t) for t in other["top"]]
    one = judge(replace(task, queries={"q 4": task.queries["q 4"]}, qrels={"q 4": task.qrels["q 4"]},
                        excluded={}, pooled=None), "made")  # fmt: skip
    row = list(table["query_id"]).index("q 4")
    assert set(evaluate_reference(one, 0).table["top"][0]) - set(table["top"][row]) <= task.excluded["q 4"]


def test_the_shuffle_control_is_the_mean_over_shuffles():
    """By hand: of the first 100 two are relevant; and against ten thousand shuffles."""
    rng = np.random.default_rng(0)
    judged = judge(
        oblique_task({f"d{i:03d}": str(i) for i in range(150)}, {"q": "q"}, {"q": {"d003": 2, "d050": 1, "d140": 1}}),
        "made",
    )
    (expected,) = measure_ranking(judged, np.arange(150)[None], np.array([False]))[SHUFFLED]
    discounts = 1 / np.log2(np.arange(2, 12))
    assert expected == pytest.approx(0.03 * discounts.sum() / (2 * discounts[0] + discounts[1] + discounts[2]))
    draws = [
        measure_ranking(judged, rng.permutation(100)[None], np.array([False]))["ndcg_at_10_gold"][0]
        for _ in range(2_000)
    ]
    assert np.mean(draws) == pytest.approx(expected, abs=4 * np.std(draws) / math.sqrt(len(draws)))


# -- instructions, splits, comparisons -----------------------------------------------------------------------------


def test_each_task_has_its_prefix_and_the_papers_are_its_words(external):
    assert set(OBLIQUE_INSTRUCTIONS) == set(TASKS) and set(OUR_OBLIQUE_INSTRUCTIONS) == {"wildchat"}
    paper = (external.parent / "papers" / "obliq-ir.md").read_text().replace("’", "'")
    for task, instruction in OBLIQUE_INSTRUCTIONS.items():
        assert (f"_{instruction}_" in paper) == (task not in OUR_OBLIQUE_INSTRUCTIONS), task


def test_the_query_is_instruction_and_text_or_bare():
    judged = judge(oblique_task({"a": "x"}, {"q": "Q {claim}?"}, {"q": {"a": 1}}, task="wildchat"), "made")
    instruction = OBLIQUE_INSTRUCTIONS["wildchat"]
    assert query_texts(judged, "Instruct: {instruction}\nQuery: {claim}") == [
        f"Instruct: {instruction}\nQuery: Q {{claim}}?"
    ]
    assert query_texts(judged, None) == ["Q {claim}?"]


def test_splits_that_the_data_names_are_kept():
    task = oblique_task(
        {"a": "x", "b": "y"}, {"q1": "1", "q2": "2"}, {"q1": {"a": 1}, "q2": {"b": 1}},
        splits={"q1": "test", "q2": "validation"},
    )  # fmt: skip
    for split, query in (("test", "q1"), ("validation", "q2")):
        judged = judge(task, "made", split)
        assert [q.query_id for q in judged.queries] == [query]
        assert list(slices_of(evaluate_reference(judged, 0).table)) == ["overall"]
    with pytest.raises(ValueError, match="1 of 2 queries have no split; give every query one, or none"):
        judge(oblique_task({"a": "x"}, {"q1": "1", "q2": "2"}, {}, splits={"q1": "test"}), "made")


def _grouped(n=10):
    documents = {f"d{i}": f"text {i}" for i in range(100)}
    queries = {f"q{i:02d}": f"query {i}" for i in range(3 * n)}
    return oblique_task(
        documents, queries, {q: {f"d{i}": 1} for i, q in enumerate(queries)},
        attributes={q: f"g{i // 3}" for i, q in enumerate(queries)},
    )  # fmt: skip


def test_without_splits_there_is_a_development_split_and_a_clean_remainder():
    judged = judge(_grouped(), "made")
    table = evaluate_reference(judged, 0).table
    found = summarise(table, 100)
    sizes = {name: metrics["ndcg_at_10_gold"].n for name, metrics in found.items()}
    assert sizes == {"overall": 30, "clean": 24, "development": 6}
    development = judge(_grouped(), "made", "validation")
    assert {q.query_id for q in development.queries} == {q.query_id for q in judged.queries if q.development}
    assert len(development.documents) == 100
    assert list(slices_of(evaluate_reference(development, 0).table)) == ["overall"]
    total = sum(sizes[s] * found[s]["ndcg_at_10_gold"].mean for s in ("clean", "development"))
    assert total / 30 == pytest.approx(found["overall"]["ndcg_at_10_gold"].mean)


def test_a_comparison_pairs_queries_and_resamples_groups():
    judged = judge(_grouped(), "made")
    one, two = evaluate_reference(judged, 0).table, evaluate_reference(judged, 1).table
    turned = {name: column[::-1] for name, column in two.items()}
    found = {(c.slice, c.metric): c for c in compare(one, turned, "other")}
    difference = found["overall", "ndcg_at_10_gold"]
    assert difference.delta == pytest.approx((one["ndcg_at_10_gold"] - two["ndcg_at_10_gold"]).mean())
    assert (difference.n_units, difference.unit, difference.resamples) == (10, "query group", 10_000)
    assert found["clean", "ndcg_at_10_gold"].n_units == 8
    assert ("overall", "recall_at_50_gold") not in found and ("overall", "ndcg_at_10_pooled") not in found
    with pytest.raises(ValueError, match="baseline 'other' answered 30 queries, this run 6"):
        compare(evaluate_reference(judge(_grouped(), "made", "validation"), 0).table, two, "other")


def test_the_revision_covers_everything_that_decides():
    task = random_task(0)
    first = judge(task, "made").revision
    assert judge(task, "made").revision == first
    one = dict(task.qrels)
    one["q 3"] = {d: g for d, g in list(one["q 3"].items())[1:]}
    others = [
        replace(task, pooled=None),
        replace(task, qrels=one),
        replace(task, excluded={}),
        replace(task, corpus={**task.corpus, "new": task.corpus["d0"]}),
        replace(task, queries={**task.queries, "q 3": replace(task.queries["q 3"], text="other")}),
        replace(task, task="writing"),
    ]
    assert len({judge(o, "made").revision for o in others} | {first}) == 7
