from __future__ import annotations

import json
import logging

import pytest

from hub_models import encoder, trained_claims
from hub_models.evaluation import places, systems
from hub_models.evaluation import run as module
from hub_models.evaluation.figures import composition, draw, top_five
from hub_models.evaluation.hybrid import variants
from hub_models.evaluation.report import table
from hub_models.evaluation.results import Results
from hub_models.evaluation.run import evaluate_model, load_tasks
from hub_models.evaluation.stance_ranking import ORACLE
from tests.hub_models.evaluation.helpers import TINY, write_run, write_short_form
from tests.tiny import REVISION, install_tiny

BASE = install_tiny(TINY)
SIDES = ("support", "attack")


@pytest.fixture
def tasks(tmp_path):
    return load_tasks(["mine-stance"], write_short_form(tmp_path / "mine.jsonl"), "test")


# -- tasks ---------------------------------------------------------------------------------------------------------


def test_tasks_by_name_and_by_family():
    assert list(load_tasks(["stance"], None, "test")) == ["sample-stance"]
    assert list(load_tasks(["sample-stance", "stance"], None, "validation")) == ["sample-stance:validation"]


def test_a_misspelt_task_is_named():
    with pytest.raises(ValueError, match=r"got the task 'sampel-stance'.*Did you mean 'sample-stance'\?"):
        load_tasks(["sampel-stance"], None, "test")
    with pytest.raises(ValueError, match="got the task 'sample', wanted one of"):
        load_tasks(["sample"], None, "test")


@pytest.mark.parametrize(
    "source", ["../../../evil", "/tmp/evil", "a/b", "a\\b", "..", ".a", "-a", "A", "ä", "a b", "a\n", "a$b", "a" * 101]
)
@pytest.mark.parametrize("family", ["stance", "obliq-math"])
def test_a_source_that_cannot_name_a_file_is_refused_before_the_data_is_read(tmp_path, source, family):
    with pytest.raises(ValueError, match="wanted a source of at most 100 of a-z"):
        load_tasks([f"{source}-{family}"], tmp_path / "absent.jsonl", "test")


def test_any_source_that_names_a_file_is_taken(tmp_path):
    path = write_short_form(tmp_path / "mine.jsonl")
    for source in ("my.data_2-b", "0", "a" * 100):
        assert list(load_tasks([f"{source}-stance"], path, "test")) == [f"{source}-stance"]


def test_data_goes_with_one_task(tmp_path):
    path = write_short_form(tmp_path / "mine.jsonl")
    for names in (["a-stance", "b-stance"], ["stance"]):
        with pytest.raises(ValueError, match="wanted one task by name, whose data it replaces"):
            load_tasks(names, path, "test")
    with pytest.raises(FileNotFoundError):
        load_tasks(["a-stance"], tmp_path / "absent.jsonl", "test")


# -- a model -------------------------------------------------------------------------------------------------------


def test_a_results_file_holds_what_was_measured(tasks, tmp_path):
    found = evaluate_model(BASE, tasks, out=tmp_path / "out")
    results = Results.read(found.results_path)
    assert results == found.results
    assert (results.model.id, results.model.revision) == (BASE, REVISION)
    task = results.tasks["mine-stance"]
    assert [run.strategy for run in task.runs] == ["dense", "claim_only"]
    assert (task.dataset, task.query_template) == ("mine", "{instruction} {claim}")
    assert task.counts["queries"] == 40
    dense = task.run("dense")
    assert dense.slices["overall"]["precision_at_r"].n == 40
    assert dense.slices["instructions=seen"]["precision_at_r"].n == 80
    assert str(tmp_path) not in found.results_path.read_text()


def test_each_distinct_text_is_encoded_once(tasks, tmp_path, encoded):
    evaluate_model(BASE, tasks, out=tmp_path / "out")
    assert len(encoded) == len(set(encoded)) == 24 + 4 + 4 * 30


def test_what_is_measured_is_not_measured_again(tasks, tmp_path, encoded, caplog, monkeypatch):
    first = evaluate_model(BASE, tasks, out=tmp_path / "out")
    before = first.results_path.read_bytes()
    encoded.clear()
    monkeypatch.setattr("hub_models.evaluation.results._git_commit", lambda: "another commit")
    with caplog.at_level(logging.INFO):
        evaluate_model(BASE, tasks, out=tmp_path / "out")
    assert not encoded
    assert "already measured" in caplog.text
    assert first.results_path.read_bytes() == before, "nothing is written"

    other = load_tasks(["mine-stance"], write_short_form(tmp_path / "other.jsonl", 3), "test")
    evaluate_model(BASE, other, out=tmp_path / "out")
    assert encoded, "other data is measured"
    encoded.clear()
    monkeypatch.setattr("hub_models.evaluation.results.code_sha256", lambda: "0" * 64)
    evaluate_model(BASE, other, out=tmp_path / "out")
    assert encoded, "other code measures anew"


def test_broken_or_incomplete_results_are_replaced(tasks, tmp_path, caplog, encoded):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "results.json").write_text("{")
    found = evaluate_model(BASE, tasks, out=tmp_path / "out")
    assert "measuring anew" in caplog.text
    assert list(Results.read(found.results_path).tasks) == ["mine-stance"]
    encoded.clear()
    (tmp_path / "out" / "per_query" / "mine-stance-dense.parquet").unlink()
    evaluate_model(BASE, tasks, out=tmp_path / "out")
    assert encoded
    assert (tmp_path / "out" / "per_query" / "mine-stance-dense.parquet").is_file()


def test_a_kill_between_values_and_results_leaves_a_task_that_is_measured_anew(tasks, tmp_path, caplog, encoded):
    other = load_tasks(["other-stance"], write_short_form(tmp_path / "other.jsonl", 3), "test")
    found = evaluate_model(BASE, tasks | other, out=tmp_path / "out")
    before = Results.read(found.results_path).tasks
    changed = load_tasks(["mine-stance"], write_short_form(tmp_path / "changed.jsonl", 2), "test")
    with pytest.MonkeyPatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(Results, "write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        evaluate_model(BASE, changed, out=tmp_path / "out")
    assert Results.read(found.results_path).tasks == before, "its values are those of the changed data by now"
    with pytest.raises(ValueError, match=r"mine-stance-dense.parquet: got SHA-256 \w+, wanted \w+; evaluate anew"):
        module.read_table(tmp_path / "out", before["mine-stance"], "dense")

    encoded.clear()
    again = evaluate_model(BASE, tasks | other, out=tmp_path / "out").results.tasks
    assert "measuring mine-stance anew: " in caplog.text
    assert again["mine-stance"].run("dense").slices == before["mine-stance"].run("dense").slices
    assert again["other-stance"] == before["other-stance"], "the whole task is taken over"
    module.read_table(tmp_path / "out", again["mine-stance"], "dense")


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (lambda out: (out / "results.json").mkdir(parents=True), "results.json: got a folder, wanted a file; move it"),
        (lambda out: out.write_text("mine"), "out: got no folder, wanted one; move it or give another --out"),
        (lambda out: (out.mkdir(), (out / "per_query").touch()), "per_query: got no folder, wanted one"),
        (lambda out: (out.mkdir(), (out / "figures").touch()), "figures: got no folder, wanted one"),
        (lambda out: (out.mkdir(), (out / "baseline").touch()), "baseline: got no folder, wanted one"),
        (lambda out: out.symlink_to("nowhere"), "out: got no folder, wanted one"),
    ],
)
def test_a_folder_that_results_cannot_go_to_is_an_error_before_anything_is_encoded(
    tasks, tmp_path, encoded, block, words
):
    block(tmp_path / "out")
    with pytest.raises(OSError, match=words):
        evaluate_model(BASE, tasks, out=tmp_path / "out", baseline=BASE)
    assert not encoded


def test_a_read_only_folder_is_an_error_before_anything_is_encoded(tasks, tmp_path, encoded, monkeypatch):
    def refused(dir):
        raise PermissionError(13, "Permission denied", str(dir))

    monkeypatch.setattr(places.tempfile, "TemporaryFile", refused)
    with pytest.raises(PermissionError, match=f"cannot write results there; give another --out: '{tmp_path}'"):
        evaluate_model(BASE, tasks, out=tmp_path / "new" / "out")
    assert not encoded
    assert not (tmp_path / "new").exists()


# -- keywords and chance ------------------------------------------------------------------------------------------


def test_keywords_and_chance_are_models_of_stance_tasks_too(tasks, tmp_path):
    words = evaluate_model("bm25", tasks, baseline="random", out=tmp_path / "out")
    (run,) = words.results.tasks["mine-stance"].runs
    (chance,) = words.baseline.tasks["mine-stance"].runs
    assert (run.strategy, run.seed, chance.strategy, chance.seed) == ("bm25", None, "random", 0)
    assert run.slices["overall"]["precision_at_r"].n == 40
    values = places_of(module.read_table(words.folder, words.results.tasks["mine-stance"], "bm25"))
    assert all(len(set(found)) == 1 for found in values.values()), "an instruction is no keyword"
    overall = next(c for c in run.compare if (c.slice, c.metric) == ("overall", "precision_at_r"))
    assert overall.baseline == "random" and overall.delta > 0.2, "the claims' words are in the arguments"
    assert "claim alone" not in table(words.results, "mine-stance", words.baseline)

    encoded = evaluate_model(BASE, tasks, baseline=str(words.results_path), out=tmp_path / "encoder")
    dense, claim_only = encoded.results.tasks["mine-stance"].runs
    assert {c.baseline for c in dense.compare} == {"bm25"} and not claim_only.compare


def test_with_a_cache_a_run_added_later_is_the_one_measured_at_once(tmp_path):
    """On 48 texts of few token sequences, whose order is noise: in other batches it is another."""
    rows = [
        {"claim": f"Claim {c} of tea.", "split": "test", **{s: [f"{s[:2]} {c}{i}" for i in "123"] for s in SIDES}}
        for c in "αβγδεζηθ"
    ]
    path = tmp_path / "unknown.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    tasks, run = load_tasks(["mine-stance"], path, "test"), str(write_run(tmp_path / "run"))
    judged = tasks["mine-stance"]
    ids = systems.Encoder(run)._loaded.tokenizer([d.text for d in judged.documents])["input_ids"]
    assert len(ids) == 48 and len({tuple(i) for i in ids}) < 10

    def measured(out, **levers):
        further = variants(run, tasks, **levers)
        found = evaluate_model(run, tasks, out=tmp_path / out, cache=tmp_path / "cache", variants=further)
        return found.results.tasks["mine-stance"]

    measured("out")
    later = measured("out", hybrid="0.5", anchor=0.5)
    at_once = measured("fresh", hybrid="0.5", anchor=0.5)
    assert [r.per_query.sha256 for r in later.runs] == [r.per_query.sha256 for r in at_once.runs]


@pytest.mark.parametrize("baseline", ["bm25", "random"])
def test_figures_beside_keywords_and_chance(tasks, tmp_path, baseline):
    """The example's base column holds what the keywords found; of two references neither has a dense run."""
    for model, out in ((BASE, "encoder"), ("random" if baseline == "bm25" else "bm25", "reference")):
        found = evaluate_model(model, tasks, baseline=baseline, out=tmp_path / out)
        drawn = {path.stem for path in draw(found, "mine-stance")}
        assert drawn == {"mine-stance-composition", "mine-stance-top5"}
        words = [t.get_text() for t in top_five(found, "mine-stance").axes[0].texts]
        assert baseline in words and "base" not in words
        bars = composition(found, "mine-stance").axes[0].patches
        assert sum(bar.get_height() for bar in bars) == pytest.approx(len(bars) / 4), (
            "each of its bars is four shares that sum to 1"
        )


def places_of(found):
    """(claim, stance, candidates) to the first documents under each instruction."""
    tops = {}
    for claim_id, stance, candidates, top in zip(
        *(found[name] for name in ("claim_id", "stance", "candidates", "top")), strict=True
    ):
        tops.setdefault((claim_id, stance, candidates), []).append(tuple(top))
    return tops


# -- a model and its baseline --------------------------------------------------------------------------------------


def test_a_run_is_compared_with_its_base(tasks, tmp_path, encoded):
    run = write_run(tmp_path / "run")
    found = evaluate_model(str(run), tasks, baseline=BASE, out=tmp_path / "out")
    assert found.baseline_folder == tmp_path / "out" / "baseline"
    assert found.results.model.base == BASE
    task, other = found.results.tasks["mine-stance"], found.baseline.tasks["mine-stance"]
    dense = task.run("dense")
    overall = next(c for c in dense.compare if (c.slice, c.metric) == ("overall", "precision_at_r"))
    delta = dense.mean("overall", "precision_at_r") - other.run("dense").mean("overall", "precision_at_r")
    assert overall.delta == pytest.approx(delta)
    assert (overall.baseline, overall.n_units) == (BASE, 4)
    # The ceiling is the base's, and its texts were not encoded a second time.
    assert dense.mean("overall", ORACLE) == other.run("dense").mean("overall", ORACLE)
    assert len(encoded) == 2 * len(set(encoded))
    assert Results.read(found.results_path) == found.results


def test_claims_that_a_run_was_trained_on_are_counted_and_said(tasks, tmp_path):
    run = write_run(tmp_path / "run")
    trained_claims.write(run, ["we should ban cars in cities", "We should ban tea.", "Something else."])
    task = evaluate_model(str(run), tasks).results.tasks["mine-stance"]
    assert task.counts["trained_on"] == 1  # of four claims; tea is the sixth topic
    results = Results.read(run / "evaluation" / "results.json")
    assert "1 of the 4 claims were trained on" in table(results, "mine-stance")


def test_without_a_baseline_the_ceiling_comes_from_the_adapter_switched_off(tasks, tmp_path):
    run = write_run(tmp_path / "run", strength=0.3)
    alone = evaluate_model(str(run), tasks).results.tasks["mine-stance"].run("claim_only")
    base = evaluate_model(BASE, tasks, out=tmp_path / "base").results.tasks["mine-stance"].run("claim_only")
    assert alone.mean("overall", ORACLE) == base.mean("overall", ORACLE)
    assert alone.mean("overall", "ndcg_at_10") != base.mean("overall", "ndcg_at_10")
    assert (run / "evaluation" / "results.json").is_file()


def test_the_runs_own_template_formats_its_queries(tasks, tmp_path, encoded):
    run = write_run(tmp_path / "run", template="Instruct: {instruction}\nQuery: {claim}")
    found = evaluate_model(str(run), tasks, out=tmp_path / "out")
    assert found.results.tasks["mine-stance"].query_template == "Instruct: {instruction}\nQuery: {claim}"
    assert sum(text.startswith("Instruct: Find statements rejecting\nQuery: We should") for text in encoded) == 4


def test_an_earlier_results_file_is_a_baseline(tasks, tmp_path):
    base = evaluate_model(BASE, tasks, out=tmp_path / "base")
    run = write_run(tmp_path / "run")
    found = evaluate_model(str(run), tasks, baseline=str(base.results_path), out=tmp_path / "out")
    assert found.baseline == base.results
    assert found.results.tasks["mine-stance"].run("claim_only").compare[0].baseline == BASE


def test_a_baseline_on_other_data_is_refused_before_anything_is_encoded(tasks, tmp_path, encoded):
    other = load_tasks(["mine-stance"], write_short_form(tmp_path / "other.jsonl", 3), "test")
    base = evaluate_model(BASE, other, out=tmp_path / "base")
    encoded.clear()
    with pytest.raises(ValueError, match=r"its 'mine-stance' was measured on data \w+, wanted \w+; evaluate"):
        evaluate_model(BASE, tasks, baseline=str(base.results_path), out=tmp_path / "out")
    with pytest.raises(ValueError, match=r"got results of \['mine-stance'\], wanted 'your-stance'"):
        evaluate_model(
            BASE, {"your-stance": tasks["mine-stance"]}, baseline=str(base.results_path), out=tmp_path / "out"
        )
    with pytest.raises(FileNotFoundError, match="no results file"):
        evaluate_model(BASE, tasks, baseline=str(tmp_path / "none.json"))
    assert not encoded
    assert not (tmp_path / "out").exists()


def test_a_baseline_without_its_per_query_values_is_refused_before_anything_is_encoded(tasks, tmp_path, encoded):
    base = evaluate_model(BASE, tasks, out=tmp_path / "base")
    values = tmp_path / "base" / "per_query" / "mine-stance-dense.parquet"
    encoded.clear()

    def asked():
        return evaluate_model(BASE, tasks, baseline=str(base.results_path), out=tmp_path / "out")

    values.write_bytes(b"other")
    with pytest.raises(ValueError, match=r"mine-stance-dense.parquet: got SHA-256 \w+, wanted \w+; evaluate anew"):
        asked()
    values.unlink()
    with pytest.raises(FileNotFoundError, match=r"mine-stance-dense.parquet: the per-query values are not there"):
        asked()
    base.results.tasks["mine-stance"].runs.clear()
    base.results.write(base.results_path)
    with pytest.raises(ValueError, match="its 'mine-stance' has no run, wanted at least one; evaluate the baseline"):
        asked()
    assert not encoded
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("baseline", [None, "absent/model"])
def test_a_model_that_is_not_there_is_an_error_before_anything_is_encoded(tasks, tmp_path, encoded, baseline):
    model = BASE if baseline else str(tmp_path / "absent")
    with pytest.raises(FileNotFoundError, match="absent"):
        evaluate_model(model, tasks, baseline=baseline, out=tmp_path / "out")
    assert not encoded


def test_an_encoder_that_returns_nan_leaves_no_results(tasks, tmp_path, monkeypatch):
    real = encoder.load

    def broken(path, **kwargs):
        model = real(path, **kwargs)
        model.transformers_model.embeddings.word_embeddings.weight.data.fill_(float("nan"))
        return model

    monkeypatch.setattr(encoder, "load", broken)
    with pytest.raises(ValueError, match="NaN"):
        evaluate_model(BASE, tasks, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_where_results_go_by_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "runs" / "mine"
    run.mkdir(parents=True)
    (run / "slant.json").write_text(json.dumps({}))
    (tmp_path / "plain").mkdir()
    assert places.default_folder(str(run)) == run / "evaluation"
    assert places.default_folder("plain").as_posix() == "results/local/plain"
    assert places.default_folder("org/model").as_posix() == "results/local/org--model"
