"""The task gives a user's own `mteb.evaluate` the numbers that `evaluate.py` gives."""

from __future__ import annotations

import copy
from dataclasses import replace

import mteb
import numpy as np
import pytest
from sentence_transformers.sentence_transformer.modules import Dense

from dataset_builders.sources import load
from dataset_builders.sources.oblique import load as load_oblique
from dataset_builders.stance.tables import argument_tables
from hub_models.corpus import encode_corpus
from hub_models.evaluation import oblique, oblique_runs, oblique_table
from hub_models.evaluation.metrics import STANCE_METRICS
from hub_models.evaluation.stance import judge
from hub_models.evaluation.stance_runs import evaluate
from hub_models.evaluation.stance_table import summarise
from hub_models.evaluation.tasks import ObliqueRetrieval, StanceRetrieval

TEMPLATE = "{instruction}: {claim}"


@pytest.fixture(scope="module")
def data():
    """Six claims of the sample, for speed, with one argument under a second id: its two scores must not part."""
    sample = load("sample")
    claims = [c for c in sample.claims if c.split == "validation"][:6]
    few = replace(sample, claims=claims, relations=[], inversions=[])
    ids = {c.claim_id for c in few.claims}
    relations = [r for r in sample.relations if r.claim_id in ids]
    used = {r.argument_id for r in relations}
    arguments = [a for a in sample.arguments if a.argument_id in used]
    twin = replace(arguments[3], argument_id="0-twin")
    of_twin = [replace(r, argument_id="0-twin") for r in relations if r.argument_id == arguments[3].argument_id]
    return replace(few, arguments=[*arguments, twin], relations=[*relations, *of_twin])


def _scores(model, data):
    task = StanceRetrieval(data, split="validation", query_template=TEMPLATE)
    results = mteb.evaluate(
        model, task, cache=None, encode_kwargs={"show_progress_bar": False}, show_progress_bar=False
    )
    return results.task_results[0].scores["validation"][0]


@pytest.fixture(scope="module")
def ours(data, minilm):
    measured = evaluate(judge(data, "validation"), TEMPLATE, lambda texts: encode_corpus(texts, minilm))
    return summarise(measured["dense"].table)


def test_mteb_gives_our_numbers(data, minilm, ours):
    theirs = _scores(minilm, data)
    for prefix, slice_name in (("", "overall"), ("support_", "support"), ("attack_", "attack")):
        for metric in STANCE_METRICS:
            assert theirs[f"{prefix}{metric}"] == pytest.approx(ours[slice_name][metric].mean, abs=1e-6)
    assert theirs["main_score"] == theirs["precision_at_r"]
    assert 0 < theirs["hard_at_r"] < 1


def test_prompts_and_scale_of_a_model_change_nothing(data, minilm, ours):
    """Queries are formatted, documents bare, similarity is the cosine: whatever else the model carries."""
    model = copy.deepcopy(minilm)
    stretch = Dense(384, 384, bias=False, activation_function=None)
    stretch.linear.weight.data = 3 * stretch.linear.weight.data.new_tensor(np.eye(384))
    model.append(stretch)
    model.similarity_fn_name = "dot"
    model.prompts = {"query": "find what is relevant to: ", "document": "passage number one: "}
    model.default_prompt_name = "document"
    before = (dict(model.prompts), model.default_prompt_name, model.similarity_fn_name)
    theirs = _scores(model, data)
    assert theirs["precision_at_r"] == pytest.approx(ours["overall"]["precision_at_r"].mean, abs=1e-6)
    assert theirs["ndcg_at_10"] == pytest.approx(ours["overall"]["ndcg_at_10"].mean, abs=1e-6)
    assert (dict(model.prompts), model.default_prompt_name, model.similarity_fn_name) == before


def test_the_task_describes_itself(data):
    task = StanceRetrieval(data, split="validation")
    assert task.metadata.name == "sample-stance"
    assert task.metadata.main_score == "precision_at_r"
    assert task.metadata.dataset["revision"] == judge(data, "validation").revision
    task.load_data()
    split = task.dataset["default"]["validation"]
    assert set(split["queries"].column_names) == {"id", "text"}  # an instruction column would be appended to the claim
    assert split["queries"][0]["text"].startswith("Discover sources promoting ")
    assert "0-twin" in split["corpus"]["id"]
    assert set(split["relevant_docs"]) == set(split["queries"]["id"])


def test_every_relevant_document_is_retrieved_however_many_there_are(data):
    task = StanceRetrieval(data, split="validation")
    assert task._top_k == 1000
    ids = [f"x{i}" for i in range(700)]
    many = replace(
        data,
        arguments=[replace(data.arguments[0], argument_id=i) for i in ids],
        relations=[replace(data.relations[0], argument_id=i) for i in ids],
    )
    assert StanceRetrieval(many, split="validation")._top_k == 1400


@pytest.mark.parametrize("split", ["validation", "test"])
def test_the_published_view_holds_the_same_corpus_queries_and_judgements(split):
    sample = load("sample")
    view = {
        table.config: [row for batch in table.batches for row in batch.to_pylist()]
        for table in argument_tables(sample).tables
        if table.split == split
    }
    task = StanceRetrieval(sample, split=split)
    task.load_data()
    ours = task.dataset["default"][split]
    assert {row["_id"]: row["text"] for row in view["corpus"]} == dict(
        zip(ours["corpus"]["id"], ours["corpus"]["text"], strict=True)
    )
    assert {row["_id"]: row["text"] for row in view["queries"]} == dict(
        zip(ours["queries"]["id"], ours["queries"]["text"], strict=True)
    )
    assert {(r["query-id"], r["corpus-id"]) for r in view["qrels"]} == {
        (query, doc) for query, docs in ours["relevant_docs"].items() for doc in docs
    }


# -- oblique -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prose():
    """A part of the sample's writing task with one document under a second id, and a pool."""
    task = load_oblique("sample", "writing")
    asked = [q for q, query in task.queries.items() if query.split == "validation"]
    kept = {d for q in asked for d in (*task.qrels[q], *task.excluded.get(q, ()))}
    twin = next(iter(task.corpus))
    corpus = {d: text for i, (d, text) in enumerate(task.corpus.items()) if d in kept or i < 30}
    task = replace(
        task,
        corpus={**corpus, "0-twin": task.corpus[twin]},
        queries={q: task.queries[q] for q in asked},
        qrels={q: task.qrels[q] for q in asked},
        excluded={q: task.excluded.get(q, frozenset()) for q in asked},
    )
    extra = {q: {**grades, "0-twin": 1} for q, grades in task.qrels.items()}
    return replace(task, pooled=extra)


def _oblique_scores(model, data, template=TEMPLATE):
    task = ObliqueRetrieval(data, "sample", split="validation", query_template=template)
    results = mteb.evaluate(
        model, task, cache=None, encode_kwargs={"show_progress_bar": False}, show_progress_bar=False
    )
    return results.task_results[0].scores["validation"][0]


def test_mteb_gives_our_oblique_numbers_with_exclusions_before_the_cut(prose, minilm):
    judged = oblique.judge(prose, "sample", "validation")
    found = oblique_runs.evaluate(judged, TEMPLATE, lambda texts: encode_corpus(texts, minilm))["dense"].table
    ours = oblique_table.summarise(found, len(judged.documents))["overall"]
    theirs = _oblique_scores(minilm, prose)
    for metric, summary in ours.items():
        if summary.mean is None:
            assert metric not in theirs
        else:
            assert theirs[metric] == pytest.approx(summary.mean, abs=1e-6), metric
    assert theirs["main_score"] == theirs["ndcg_at_10_gold"]
    # MTEB's own figures are of the same ranking, so they leave the excluded documents out as well.
    assert theirs["ndcg_at_10"] == pytest.approx(ours["ndcg_at_10_gold"].mean, abs=1e-4)
    without = _oblique_scores(minilm, replace(prose, excluded={}))
    assert without["ndcg_at_10_gold"] < theirs["ndcg_at_10_gold"]  # each query would find what it is taken from


def test_the_oblique_task_fetches_as_many_more_as_are_excluded(prose):
    task = ObliqueRetrieval(prose, "sample", split="validation")
    assert (task.metadata.name, task.metadata.main_score) == ("sample-obliq-writing", "ndcg_at_10_gold")
    most = max(len(d) for q, d in prose.excluded.items() if prose.queries[q].split == "validation")
    assert task._top_k == 1001 + most
    task.load_data()
    split = task.dataset["default"]["validation"]
    assert split["top_ranked"] is None  # no list of queries times corpus
    assert split["queries"][0]["text"].startswith("Given a prose snippet, retrieve other snippets")
    assert set(split["queries"].column_names) == {"id", "text"}
