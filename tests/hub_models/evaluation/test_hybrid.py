"""Runs beside the dense one: BM25 fused in, the levers, a weight by query."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import evaluate as command
from dataset_builders.lexical import BM25, PaperBM25
from hub_models.evaluation import systems
from hub_models.evaluation.hybrid import ClaimWords, Hybrid, hybrid_scores, parse_weights, variants
from hub_models.evaluation.levers import Levered, lever_scores
from hub_models.evaluation.measured import OWN, run_name
from hub_models.evaluation.report import table
from hub_models.evaluation.results import Results
from hub_models.evaluation.run import evaluate_model, load_tasks, read_table
from hub_models.evaluation.stance import ALL, judge, queries_of
from hub_models.evaluation.systems import Encoder
from hub_models.retrieval.adaptive import FEATURES
from hub_models.retrieval.fusion import fuse
from hub_models.retrieval.levers import Levers, stored
from tests.hub_models.evaluation.helpers import TINY, argument, claim, made, write_run, write_short_form
from tests.hub_models.evaluation.oblique_data import topical_task, write_layout
from tests.hub_models.retrieval.test_adaptive import fitted
from tests.tiny import install_tiny

BASE = install_tiny(TINY)
NAME = "mine-stance"


@pytest.fixture
def tasks(tmp_path):
    return load_tasks([NAME], write_short_form(tmp_path / "mine.jsonl"), "test")


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run", strength=0.3)


def store(run, **what):
    path = run / "slant.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | what))


# -- scores --------------------------------------------------------------------------------------------------------


def made_task():
    """Two claims, one of which shares no word with any document."""
    return judge(
        made(
            [claim("c1", "Ban cars in towns."), claim("c2", "Zyx wvu.")],
            [
                argument("a", "Cars in towns kill.", "natural"),
                argument("b", "Towns live on cars.", "explicit"),
                argument("c", "Tea is good.", "natural"),
                argument("d", "Tea is bad.", "explicit"),
            ],
            [("a", "c1", "support"), ("b", "c1", "attack"), ("c", "c2", "support"), ("d", "c2", "attack")],
        ),
        "test",
    )


@pytest.mark.parametrize(("lexical", "index"), [("slant", lambda t: BM25(t, list("abcd"))), ("s", PaperBM25)])
def test_the_claim_alone_reaches_bm25_and_each_style_is_a_corpus_of_its_own(lexical, index):
    judged = made_task()
    words = ClaimWords(judged, lexical)
    whole = index([d.text for d in judged.documents])
    np.testing.assert_array_equal(words.of_claim(ALL, 0), whole.scores("Ban cars in towns."))
    assert words.of_claim("natural", 0).shape == (2,)
    assert words.of_claim("natural", 0)[0] != words.of_claim(ALL, 0)[0], "its own word statistics"
    assert words.unknown == ["c2"]


def test_scores_are_the_sum_over_the_whole_corpus_and_dense_ones_where_no_word_is_known():
    judged = made_task()
    queries = queries_of(judged, "{instruction} {claim}")
    scores = np.random.default_rng(0).normal(size=(len(queries), 4)).astype(np.float32)
    words = ClaimWords(judged)

    def dense(rows, candidates):
        return scores[rows][:, judged.candidates[candidates]]

    rows = list(range(len(queries)))
    fused = hybrid_scores(judged, queries, dense, words, 0.2)(rows, ALL)
    for i, query in enumerate(queries):
        expected = scores[i] if query.claim == 1 else fuse(scores[i], words.of_claim(ALL, 0), 0.2)
        np.testing.assert_array_equal(fused[i], expected.astype(np.float32))
    np.testing.assert_array_equal(
        hybrid_scores(judged, queries, dense, words, 0.0)(rows, "natural"), dense(rows, "natural")
    )


def test_the_weight_by_query_follows_the_model():
    judged = made_task()
    queries = queries_of(judged, "{instruction} {claim}")
    scores = np.random.default_rng(1).normal(size=(len(queries), 4)).astype(np.float32)
    words, rows = ClaimWords(judged), list(range(len(queries)))

    def dense(rows, candidates):
        return scores[rows][:, judged.candidates[candidates]]

    always = fitted(coefficients=[[-1.0] * 8, [0.0] * 8, [1.0, *[0.0] * len(FEATURES)]])
    np.testing.assert_array_equal(
        hybrid_scores(judged, queries, dense, words, always)(rows, ALL),
        hybrid_scores(judged, queries, dense, words, 0.3)(rows, ALL),
    )


def test_the_anchor_is_the_base_asked_with_the_claim_alone(tasks, run):
    judged, encoder = tasks[NAME], Encoder(str(run))
    queries = queries_of(judged, encoder.query_template)[:3]
    found = lever_scores(judged, queries, encoder, Levers(0.6, 0.5))([0, 2], ALL)
    texts = [d.text for d in judged.documents]
    claims = [judged.claims[q.claim].claim for q in queries]
    adapted = encoder.encode([q.text for q in queries], 0.6) @ encoder.encode(texts, 0.6).T
    base = Encoder(BASE)
    topic = base.encode(claims) @ base.encode(texts).T
    np.testing.assert_allclose(found, fuse(adapted, topic, 0.5)[[0, 2]], atol=1e-4)
    assert np.abs(adapted - encoder.encode([q.text for q in queries]) @ encoder.encode(texts).T).max() > 1e-3


# -- runs ----------------------------------------------------------------------------------------------------------


def test_runs_stand_beside_the_dense_one_and_are_compared_with_it(tasks, run, tmp_path):
    further = variants(str(run), tasks, hybrid="0.1,0.15", lexical="s", adapter_scale=0.5)
    plain = evaluate_model(str(run), tasks, out=tmp_path / "plain").results.tasks[NAME]
    found = evaluate_model(str(run), tasks, out=tmp_path / "out", baseline=BASE, variants=further)
    task = found.results.tasks[NAME]
    assert [run_name(r.strategy, r.params) for r in task.runs] == [
        "dense",
        "claim_only",
        "dense-adapter_scale-0.5",
        "hybrid-weight-0.1-lexical-s-adapter_scale-0.5",
        "hybrid-weight-0.15-lexical-s-adapter_scale-0.5",
    ]
    assert task.runs[3].params == {"weight": 0.1, "lexical": "s", "adapter_scale": 0.5}
    for ours, theirs in zip(task.runs, plain.runs, strict=False):
        assert ours.slices == theirs.slices, "what was there is as it was"
    fused = task.run("hybrid", task.runs[3].params)
    own = next(c for c in fused.compare if (c.baseline, c.slice, c.metric) == (OWN, "overall", "precision_at_r"))
    assert own.delta == pytest.approx(
        fused.mean("overall", "precision_at_r") - task.runs[0].mean("overall", "precision_at_r")
    )
    assert {c.baseline for c in fused.compare} == {OWN, BASE}
    assert fused.diagnostics["claims_without_a_known_word"] == 0
    assert set(fused.slices["overall"]) == set(task.runs[0].slices["overall"]), "ceilings too"
    assert [r.strategy for r in found.baseline.tasks[NAME].runs] == ["dense", "claim_only"], "it has no adapter"
    text = table(found.results, NAME, found.baseline)
    assert "hybrid-weight-0.1-lexical-s-adapter_scale-0.5 · overall, and its difference to the dense run" in text
    assert max(map(len, text.splitlines())) <= 120
    assert Results.read(found.results_path) == found.results


def test_a_run_that_is_there_is_not_measured_again_and_others_are_added(tasks, tmp_path, monkeypatch):
    evaluate_model(BASE, tasks, out=tmp_path / "out", variants=variants(BASE, tasks, hybrid="0.1"))
    first = Results.read(tmp_path / "out" / "results.json").tasks[NAME]
    again = evaluate_model(BASE, tasks, out=tmp_path / "out", variants=variants(BASE, tasks, hybrid="0.2")).results
    assert again.tasks[NAME].runs[:3] == first.runs
    assert [r.params for r in again.tasks[NAME].runs[2:]] == [{"weight": w, "lexical": "slant"} for w in (0.1, 0.2)]
    monkeypatch.setattr(systems, "encode_corpus", None)  # nothing is left to do
    evaluate_model(BASE, tasks, out=tmp_path / "out", variants=variants(BASE, tasks, hybrid="0.2,0.1"))


def test_a_claim_of_unknown_words_is_counted_under_the_run(tasks, tmp_path):
    said = "  claims of which no word is in the corpus, ranked as in the dense run: 1"
    known = evaluate_model(BASE, tasks, out=tmp_path / "known", variants=variants(BASE, tasks, hybrid="0.1"))
    assert "no word is in the corpus" not in table(known.results, NAME)
    row = {"claim": "Zyx wvu.", "split": "test", "support": ["Tea is good."], "attack": ["Tea is bad."]}
    with (tmp_path / "mine.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")
    more = load_tasks([NAME], tmp_path / "mine.jsonl", "test")
    found = evaluate_model(BASE, more, out=tmp_path / "out", variants=variants(BASE, more, hybrid="0.1,0.2"))
    lines = table(found.results, NAME).splitlines()
    at = [lines.index(next(x for x in lines if x.startswith(f"hybrid-weight-{w}"))) for w in (0.1, 0.2)]
    assert [lines[i + 3] for i in at] == [said, said] and lines.count(said) == 2  # below the two lines of each run


def test_weight_zero_is_the_dense_run(tasks, tmp_path):
    found = evaluate_model(BASE, tasks, out=tmp_path / "out", variants=variants(BASE, tasks, hybrid="0"))
    dense, _, fused = found.results.tasks[NAME].runs
    assert fused.slices == dense.slices


def test_the_stored_levers_are_measured_unless_others_are_given(tasks, run):
    store(run, adapter_scale=0.6, anchor_weight=0.5)
    assert stored(run).levers == Levers(0.6, 0.5)
    assert variants(str(run), tasks) == [Levered(Levers(0.6, 0.5))]
    assert variants(str(run), tasks, anchor=0, hybrid="0.1") == [
        Levered(Levers(0.6, 0.0)),
        Hybrid(0.1, "slant", Levers(0.6, 0.0)),
    ]
    assert variants(str(run), tasks, adapter_scale=1, anchor=0) == []


def test_auto_is_reported_beside_the_best_fixed_weight_and_an_oracle(tasks, run, tmp_path):
    store(run, lambda_model=fitted().model_dump(mode="json"))
    further = variants(str(run), tasks, hybrid="auto")
    found = evaluate_model(str(run), tasks, out=tmp_path / "out", baseline=BASE, variants=further)
    task = found.results.tasks[NAME]
    auto, fixed = (next(r for r in task.runs if r.params.get("weight") == w) for w in ("auto", 0.1))
    said = auto.diagnostics["lambda"]
    assert said["auto"] == pytest.approx(auto.mean("overall", "precision_at_r"))
    assert said["fixed"] == pytest.approx(fixed.mean("overall", "precision_at_r")) == said["by_weight"]["0.1"]
    assert said["auto_minus_fixed"]["delta"] == pytest.approx(said["auto"] - said["fixed"])
    assert max(said["by_weight"].values()) <= said["oracle"] and said["auto"] <= said["oracle"]
    values = read_table(found.folder, task, "hybrid", auto.params)
    assert len(values["query_id"]) == len(read_table(found.folder, task, "dense")["query_id"])
    assert [r.params.get("weight") for r in found.baseline.tasks[NAME].runs] == [None, None, 0.1], (
        "auto is the run's own"
    )
    assert "at the best fixed weight of validation, 0.1: " in table(found.results, NAME, found.baseline)


def test_auto_is_measured_anew_once_another_model_was_fitted(tasks, run, tmp_path):
    """The weight by query of the first is always 0, of the second always 0.3."""
    never, always = fitted(), fitted(coefficients=[[-1.0] * 8, [0.0] * 8, [1.0, *[0.0] * len(FEATURES)]])
    for model in (never, never, always):
        store(run, lambda_model=model.model_dump(mode="json"))
        further = variants(str(run), tasks, hybrid="auto,0.3")
        found = evaluate_model(str(run), tasks, out=tmp_path / "out", variants=further).results.tasks[NAME]
    runs = {r.params["lambda_model"]: r for r in found.runs if r.params.get("weight") == "auto"}
    assert list(runs) == [never.digest, always.digest]
    fresh = evaluate_model(str(run), tasks, out=tmp_path / "fresh", variants=further).results.tasks[NAME]
    assert fresh.run("hybrid", runs[always.digest].params).slices == runs[always.digest].slices
    assert runs[always.digest].slices == found.run("hybrid", {"weight": 0.3, "lexical": "slant"}).slices
    assert runs[always.digest].diagnostics["lambda"] != runs[never.digest].diagnostics["lambda"]


# -- what is wrong is said first -----------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["1.1", "-0.1", "nan", "much", "", "0.1,", "0.1;0.2"])
def test_a_weight_out_of_range_is_refused(given):
    with pytest.raises(ValueError, match=r"--hybrid: got .* wanted numbers from 0 to 1 and 'auto', with commas"):
        parse_weights(given)


def test_keywords_have_nothing_to_choose_a_weight_for(tasks):
    with pytest.raises(ValueError, match=r"^bm25: got --hybrid auto, wanted an encoder") as said:
        variants("bm25", tasks, hybrid="auto")
    assert "tune" not in str(said.value)


def test_weights_are_taken_once_each():
    assert parse_weights("0.1, auto,0.1,1") == [0.1, "auto", 1.0]


def test_auto_needs_a_model_that_was_fitted_so(tasks, run):
    with pytest.raises(ValueError, match="got --hybrid auto, but it has no λ model; fit one on validation claims"):
        variants(str(run), tasks, hybrid="auto")
    store(run, lambda_model=fitted().model_dump(mode="json"))
    for other in ({"lexical": "s"}, {"anchor": 0.5}):
        with pytest.raises(ValueError, match=r"wanted 'slant', adapter scale 1 and anchor 0, which"):
            variants(str(run), tasks, hybrid="auto", **other)
    store(run, lambda_model={"grid": []})
    with pytest.raises(ValueError, match=r"slant.json, lambda_model.grid: Tuple should have .*; run tune again"):
        variants(str(run), tasks, hybrid="0.1")


@pytest.mark.parametrize(
    ("levers", "words"),
    [
        ({"adapter_scale": 2.5}, "^--adapter-scale: got the adapter scale 2.5"),
        ({"anchor": 1.5}, "^--anchor: got the weight 1.5, wanted a number from 0 to 1"),
    ],
)
def test_a_lever_out_of_range_is_refused(tasks, run, levers, words):
    with pytest.raises(ValueError, match=words):
        variants(str(run), tasks, **levers)


@pytest.mark.parametrize("model", [BASE, "bm25"])
def test_levers_need_an_adapter(tasks, tmp_path, model):
    with pytest.raises(ValueError, match=r"got dense-anchor-0.5, wanted what this model can do; a scale"):
        evaluate_model(model, tasks, out=tmp_path / "out", variants=variants(model, tasks, anchor=0.5))
    assert not (tmp_path / "out").exists()


def test_oblique_tasks_have_none_of_it(tmp_path, run):
    tasks = load_tasks(["mine-obliq-writing"], write_layout(tmp_path / "data", topical_task()), "test")
    store(run, adapter_scale=0.5)
    assert variants(str(run), tasks) == []
    with pytest.raises(ValueError, match="got --hybrid, --adapter-scale or --anchor with mine-obliq-writing, wanted"):
        variants(str(run), tasks, hybrid="0.1")


def test_the_command(tmp_path, run):
    data = write_short_form(tmp_path / "mine.jsonl")
    arguments = ["--model", str(run), "--tasks", NAME, "--data", str(data), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(command.app, [*arguments, "--hybrid", "0.1", "--lexical", "s", "--anchor", "0.5"])
    assert result.exit_code == 0, result.output
    assert "hybrid-weight-0.1-lexical-s-anchor-0.5 · overall" in result.output
    result = CliRunner().invoke(command.app, [*arguments, "--hybrid", "2"])
    assert result.exit_code == 1 and "error: --hybrid: got '2', wanted numbers from 0 to 1" in result.output


def test_run_names_are_file_names_and_told_apart():
    names = [run_name("rerank", {"policy": f"cross-encoder:a{sign}b", "depth": 100}) for sign in "/-:"]
    assert len(set(names)) == 3 and all(set(n) <= set("abcdefghijklmnopqrstuvwxyz0123456789-._") for n in names)
    assert run_name("dense", {}) == "dense" and run_name("hybrid", {"weight": 0.1}) == "hybrid-weight-0.1"
    assert run_name("dense", {"adapter_scale": 0.5}) != run_name("dense", {"anchor": 0.5})
