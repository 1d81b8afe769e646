"""MTEB's own classes over our data give what our bare queries give, under the judgements that they are said to use."""

from __future__ import annotations

from dataclasses import replace

import mteb
import pytest

from dataset_builders.sources.obliq_bench import TASKS
from dataset_builders.sources.oblique import load
from hub_models.corpus import encode_corpus
from hub_models.evaluation.mteb_oblique import MTEB_TASKS, mteb_task
from hub_models.evaluation.oblique import judge
from hub_models.evaluation.oblique_runs import evaluate
from hub_models.evaluation.oblique_table import summarise
from tests.hub_models.evaluation.oblique_data import topical_task


def _theirs(model, data):
    task = mteb_task(data)
    quiet = {"encode_kwargs": {"show_progress_bar": False}, "show_progress_bar": False}
    return mteb.evaluate(model, task, cache=None, **quiet).task_results[0].scores["test"][0]


def _ours(model, data):
    measured = evaluate(judge(data, "made"), "{instruction} {claim}", lambda texts: encode_corpus(texts, model))
    return summarise(measured["claim_only"].table, len(data.corpus))["overall"]


def test_mteb_has_the_tasks_that_we_name_and_their_judgements():
    for task, (name, judged) in MTEB_TASKS.items():
        description = mteb.get_task(name).metadata.description
        assert ("pooled" in description) == (judged == "pooled"), task
    assert set(MTEB_TASKS) == set(TASKS)


def test_exclusions_and_gold_judgements_are_mtebs(minilm):
    data = topical_task()
    data.qrels["cars 0"] = {"tea-1": 1, "cars-1": 1}  # else everything is found at the top
    theirs, ours = _theirs(minilm, data), _ours(minilm, data)
    assert theirs["ndcg_at_10"] == pytest.approx(ours["ndcg_at_10_gold"].mean, abs=1e-5)
    assert 0.5 < theirs["ndcg_at_10"] < 1


@pytest.mark.parametrize("pooled", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_math_is_pooled_where_there_is_a_pool(minilm, pooled):
    sample = load("sample", "math").restrict("validation")
    asked = list(sample.queries)[:4]
    qrels = {q: sample.qrels[q] for q in asked}
    excluded = {q: sample.excluded.get(q, frozenset()) for q in asked}
    kept = {d for q in asked for d in (*qrels[q], *excluded[q])} | set(list(sample.corpus)[:20])
    corpus = {d: text for d, text in sample.corpus.items() if d in kept}
    pool = {q: dict(grades) for q, grades in qrels.items()}
    extra = next(d for d in corpus if d not in pool[asked[0]] and d not in excluded[asked[0]])
    pool[asked[0]][extra] = 1
    unsplit = {q: replace(sample.queries[q], split=None) for q in asked}
    data = type(sample)("math", corpus, unsplit, qrels, excluded, pool if pooled else None)
    theirs, ours = _theirs(minilm, data), _ours(minilm, data)
    metric = "ndcg_at_10_pooled" if pooled else "ndcg_at_10_gold"
    assert theirs["ndcg_at_10"] == pytest.approx(ours[metric].mean, abs=1e-5)
    if pooled:
        assert abs(ours["ndcg_at_10_gold"].mean - ours["ndcg_at_10_pooled"].mean) > 1e-4
