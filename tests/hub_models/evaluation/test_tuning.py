"""What tune chooses, by made-up encoders of which the best setting is known."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from hub_models.__main__ import app
from hub_models.evaluation import tuning
from hub_models.evaluation.hybrid import ClaimWords, hybrid_scores, seen
from hub_models.evaluation.named_tasks import load_tasks
from hub_models.evaluation.stance import ALL, judge, queries_of
from hub_models.evaluation.systems import Encoder
from hub_models.evaluation.tuning import best, fit_lambda, keep, standard_error, tune
from hub_models.manifest import Manifest
from hub_models.retrieval.adaptive import FEATURES
from hub_models.retrieval.levers import Levers, stored
from tests.hub_models.evaluation.helpers import argument, claim, made, write_run
from tests.run_folders import manifest


def test_the_standard_error_is_that_of_drawing_whole_claims():
    values = np.array([0.0, 1.0, 2.0, 5.0, 5.0, 5.0])
    claims = ["a", "b", "c", "a", "b", "c"]
    means = np.array([2.5, 3.0, 3.5])  # equal sizes: the mean is the mean of claims' means
    assert standard_error(values, claims) == pytest.approx(means.std(ddof=1) / np.sqrt(3))
    again = standard_error(np.repeat(values, 4), np.repeat(claims, 4).tolist())
    assert again == pytest.approx(standard_error(values, claims)), "copies of queries are no evidence"


def test_the_best_setting_needs_more_than_two_standard_errors():
    claims = [f"c{i}" for i in range(20)]
    plain = np.zeros(20)
    clear, lucky = np.full(20, 0.05) + np.tile([0.01, -0.01], 10), np.zeros(20)
    lucky[0] = 3.0
    assert best({"plain": plain, "clear": clear}, claims, "plain") == "clear"
    assert best({"plain": plain, "clear": clear, "lucky": lucky}, claims, "plain") == "plain", "one claim's luck"
    assert best({"plain": plain, "worse": plain - 1}, claims, "plain") == "plain"


# -- λ by query ----------------------------------------------------------------------------------------------------


def two_kinds(n=40):
    """Claims with a rare word of their own, where BM25 is right, and claims of common words, where it is wrong and the
    dense scores are right."""
    claims, arguments, relations = [], [], []
    for i in range(n):
        rare = i % 2 == 0
        text = f"Word{i} matters here." if rare else "Common words say this and that today."
        claims.append(claim(f"c{i}", text, "validation"))
        body = f"I say word{i}." if rare else f"Argument number {i}."
        arguments += [argument(f"p{i}", body), argument(f"n{i}", f"Common words say this and that today, n{i}.")]
        relations += [(f"p{i}", f"c{i}", "support"), (f"n{i}", f"c{i}", "attack")]
    return judge(made(claims, arguments, relations), "validation")


def dense_of(judged, queries):
    """Right on claims of common words, chance elsewhere."""
    rng = np.random.default_rng(0)
    scores = rng.random((len(queries), len(judged.documents))).astype(np.float32)
    for i, query in enumerate(queries):
        right = judged.labels[query.claim] & (1 if query.stance == "support" else 2)
        if query.claim % 2:
            scores[i] = np.where(right > 0, 1.0, scores[i] * 0.9)
        elif query.stance == "support":
            scores[i] = np.where(right > 0, 0.9, scores[i])
    return lambda rows, candidates: scores[rows][:, judged.candidates[candidates]]


def test_the_weight_by_query_is_learnt_where_there_is_something_to_learn():
    judged = two_kinds()
    queries = [
        q for q in queries_of(judged, "{instruction} {claim}") if q.stance == "support" and not q.instruction.seen
    ]
    dense = dense_of(judged, queries)
    model, weights = fit_lambda(judged, queries, dense, "made")
    assert model.ridge is not None and weights[model.fixed] == max(weights.values())
    words, rows = ClaimWords(judged), list(range(len(queries)))
    lexical = np.stack([words.of_claim(ALL, q.claim) for q in queries])
    chosen = model.choose(seen(queries, rows, ALL, dense(rows, ALL), lexical, words))
    rare = np.array([q.claim % 2 == 0 for q in queries])
    assert chosen[rare].mean() > chosen[~rare].mean() + 0.05
    by_query = tuning.per_query(judged, queries, hybrid_scores(judged, queries, dense, words, model))
    assert by_query["precision_at_r"].mean() > max(weights.values()) + 0.02
    assert model.fitted_on["claims"] == 40 and model.fitted_on["held_out_gain"] > 0.02


def test_without_anything_to_learn_the_default_is_kept():
    judged = two_kinds(20)
    queries = [q for q in queries_of(judged, "{instruction} {claim}") if not q.instruction.seen]
    chance = np.random.default_rng(3).random((len(queries), len(judged.documents))).astype(np.float32)
    model, _ = fit_lambda(judged, queries, lambda rows, c: chance[rows][:, judged.candidates[c]], "made")
    assert model.ridge is None and not np.any(model.coefficients)
    assert set(model.choose(np.random.default_rng(0).normal(size=(50, len(FEATURES))))) == {model.default}


# -- the whole -----------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path):
    folder = write_run(tmp_path / "run", strength=0.3)
    pins = json.loads((folder / "slant.json").read_text())
    from hub_models.manifest import adapter_sha256

    manifest(**pins, status="trained", adapter_sha256=adapter_sha256(folder)).write(folder)
    return folder


def write_data(path, n=12):
    rows = [
        {
            "claim": f"We should ban thing{i}.",
            "support": [f"The thing{i} is a burden.", f"Life without thing{i} is calmer."],
            "attack": [f"Many need thing{i}.", f"A ban of thing{i} is unfair."],
            "split": ("validation", "test")[i % 2],
        }
        for i in range(n)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(tuning, "SCALES", (1.0, 0.5))
    monkeypatch.setattr(tuning, "ANCHORS", (0.0, 0.5))


def test_the_command_keeps_what_it_chose(tmp_path, run, few):
    data = write_data(tmp_path / "mine.jsonl")
    before = Manifest.read(run)
    result = CliRunner().invoke(app, ["tune", str(run), "--tasks", "mine-stance", "--data", str(data)])
    assert result.exit_code == 0, result.output
    after = Manifest.read(run)
    assert after.model_copy(update=dict.fromkeys(("adapter_scale", "anchor_weight", "lambda_model"))) == before
    assert stored(run).lambda_model is not None
    assert stored(run).lambda_model.fitted_on["claims"] == 6
    tried = json.loads((run / "tuning" / "tuning.json").read_text())
    assert [(row["adapter_scale"], row["anchor"]) for row in tried["levers"]] == [
        (1, 0),
        (1, 0.5),
        (0.5, 0),
        (0.5, 0.5),
    ]
    assert "6 validation claims, 60 queries" in result.output
    with Image.open(run / "tuning" / "levers.png") as image:
        assert image.size[0] > 500
    assert (run / "tuning" / "levers.svg").is_file()


def test_a_lever_that_clearly_helps_is_chosen_and_stored(tmp_path, run, few, monkeypatch):
    ((_, judged),) = load_tasks(["m-stance"], write_data(tmp_path / "m.jsonl"), "validation", wide=True).items()

    def scores(judged, queries, encoder, levers):
        """Perfect under one setting alone, chance under the others."""
        right = np.array([judged.labels[q.claim] & (1 if q.stance == "support" else 2) for q in queries]) > 0
        found = np.random.default_rng(0).random(right.shape).astype(np.float32)
        found += right * (10.0 if levers == Levers(0.5, 0.5) else 0.0)
        return lambda rows, candidates: found[rows][:, judged.candidates[candidates]].astype(np.float32)

    monkeypatch.setattr(tuning, "lever_scores", scores)
    found = tune(judged, Encoder(str(run)), "m-stance")
    assert found.levers == Levers(0.5, 0.5) and found.one_index is not None
    keep(run, found)
    assert stored(run).levers == Levers(0.5, 0.5)
    assert (Manifest.read(run).adapter_scale, Manifest.read(run).anchor_weight) == (0.5, 0.5)


def test_validation_claims_are_asked_in_the_corpus_of_test(tmp_path):
    path = write_data(tmp_path / "mine.jsonl")
    wide, own, test = (
        next(iter(load_tasks(["m-stance"], path, split, wide=wide).values()))
        for split, wide in (("validation", True), ("validation", False), ("test", False))
    )
    assert [c.claim_id for c in wide.claims] == [c.claim_id for c in own.claims]
    assert [d.argument_id for d in wide.documents] == [d.argument_id for d in test.documents]
    assert len(own.documents) < len(wide.documents)
    assert (
        wide.n_relevant(wide.candidates[ALL])["attack"].tolist()
        == own.n_relevant(own.candidates[ALL])["attack"].tolist()
    )


def test_what_cannot_be_tuned_says_why(tmp_path, run):
    path = write_data(tmp_path / "mine.jsonl")
    ((_, test),) = load_tasks(["m-stance"], path, "test").items()
    with pytest.raises(ValueError, match="got the split 'test', wanted 'validation'"):
        tune(test, Encoder(str(run)), "m-stance")
    ((_, few),) = load_tasks(["m-stance"], write_data(tmp_path / "few.jsonl", 6), "validation").items()
    with pytest.raises(ValueError, match="got 3 validation claims, wanted at least 5"):
        tune(few, Encoder(str(run)), "m-stance")
    empty = tmp_path / "empty"
    empty.mkdir()
    for arguments, words in (
        ([str(empty), "--tasks", "sample-stance"], "this is no run folder"),
        ([str(run), "--tasks", "sample-obliq-math"], "wanted one stance task"),
        ([str(run), "--tasks", "sampel-stance"], "Did you mean"),
    ):
        result = CliRunner().invoke(app, ["tune", *arguments])
        assert result.exit_code != 0 and words in " ".join(result.output.replace("│", " ").split())
