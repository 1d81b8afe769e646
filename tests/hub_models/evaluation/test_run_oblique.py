"""From names to a results file, on oblique tasks: encoders, keywords, chance and late interaction."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import evaluate
from dataset_builders.instructions import OBLIQUE_INSTRUCTIONS
from dataset_builders.sources.obliq_bench import TASKS
from hub_models.evaluation import published, systems
from hub_models.evaluation import run as module
from hub_models.evaluation.figures import draw
from hub_models.evaluation.figures_oblique import gain_by_rank
from hub_models.evaluation.oblique import judge, query_texts
from hub_models.evaluation.oblique_metrics import GAIN_AT
from hub_models.evaluation.report import report
from hub_models.evaluation.results import Results, read_per_query
from hub_models.evaluation.run import evaluate_model, load_tasks, read_table
from tests.hub_models.evaluation.helpers import TINY, write_run, write_short_form
from tests.hub_models.evaluation.oblique_data import random_task, topical_task, write_layout
from tests.tiny import install_tiny

ROOT = Path(__file__).parents[3]
BASE = install_tiny(TINY)
NAME = "mine-obliq-writing"


@pytest.fixture
def tasks(tmp_path):
    return load_tasks([NAME], write_layout(tmp_path / "data", topical_task()), "test")


# -- tasks ---------------------------------------------------------------------------------------------------------


def test_tasks_by_name_and_by_family(tmp_path):
    assert list(load_tasks(["obliq"], None, "test")) == [f"sample-obliq-{t}" for t in TASKS]
    both = load_tasks(["sample-obliq-math", "stance"], None, "validation")
    assert list(both) == ["sample-obliq-math:validation", "sample-stance:validation"]
    mine = load_tasks([NAME], write_layout(tmp_path / "data", topical_task()), "validation")
    assert len(mine[f"{NAME}:validation"].queries) == 2  # a fifth of the twelve, in whole groups


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sample-obliq-maths", r"got the task 'sample-obliq-maths'.*Did you mean 'sample-obliq-math'\?"),
        ("sample-oblique-math", r"Did you mean 'sample-obliq-math'\?"),
        ("obliq-math", "got the task 'obliq-math'"),
        ("theoremqa-obliq-writing", r"got the task 'theoremqa-obliq-writing'"),
        ("theoremqa-obliq-math", "theoremqa: the data does not come with the package"),
    ],
)
def test_a_task_that_is_not_there_is_named(name, words):
    with pytest.raises(ValueError, match=words):
        load_tasks([name], None, "test")


def test_data_replaces_one_task(tmp_path):
    with pytest.raises(ValueError, match="wanted one task by name, whose data it replaces"):
        load_tasks(["obliq"], tmp_path, "test")
    with pytest.raises(ValueError, match="got the task 'mine-obliq-poems'"):
        load_tasks(["mine-obliq-poems"], tmp_path, "test")
    with pytest.raises(FileNotFoundError, match=r"corpus\.jsonl: no such file"):
        load_tasks([NAME], tmp_path, "test")


def test_dangling_judgements_stop_it_unless_they_are_allowed(tmp_path):
    data = write_layout(tmp_path / "data", topical_task())
    qrels = data / "analogues/writing/queries+qrels/qrels.tsv"
    qrels.write_text(qrels.read_text() + "cars 0\tghost\t1\n")
    with pytest.raises(ValueError, match=r"1 rows of .* name a query or document that is not there.*ghost"):
        load_tasks([NAME], data, "test")
    tasks = load_tasks([NAME], data, "test", allow_dangling=True)
    found = evaluate_model("bm25", tasks, out=tmp_path / "out")
    text = report(found.results, NAME)
    assert "1 relevant documents are not in the corpus. Ceiling: ndcg_at_10_gold 0." in text
    assert tasks[NAME].counts()["ceiling"]["ndcg_at_10_gold"] < 1
    with pytest.raises(ValueError, match="sample-stance: --allow-dangling is for oblique tasks"):
        load_tasks(["sample-stance"], None, "test", allow_dangling=True)


# -- systems -------------------------------------------------------------------------------------------------------


def test_an_encoder_beside_keywords(tasks, tmp_path):
    found = evaluate_model(BASE, tasks, baseline="bm25", out=tmp_path / "out")
    task = found.results.tasks[NAME]
    assert [run.strategy for run in task.runs] == ["dense", "claim_only"]
    (keywords,) = found.baseline.tasks[NAME].runs
    assert (keywords.strategy, keywords.seed, found.baseline.model.id) == ("bm25", None, "bm25")
    for run in task.runs:
        (difference,) = [c for c in run.compare if (c.slice, c.metric) == ("overall", "ndcg_at_10_gold")]
        expected = run.mean("overall", "ndcg_at_10_gold") - keywords.mean("overall", "ndcg_at_10_gold")
        assert difference.delta == pytest.approx(expected)
        assert (difference.unit, difference.n_units) == ("query group", 6)
        against = run.diagnostics["against"]
        assert (against["baseline"], against["strategy"]) == ("bm25", "bm25")
        assert against["helped"] + against["hurt"] + against["tied"] == 12
        assert against["gain_by_rank"]["10"] == pytest.approx(expected)
        assert run.diagnostics["top1_distinct"] >= 1
    assert Results.read(found.results_path) == found.results
    assert set(task.runs[0].slices) == {"overall", "clean", "development"}


def test_the_gain_is_drawn_at_every_rank(tasks, tmp_path):
    found = evaluate_model(BASE, tasks, baseline="bm25", out=tmp_path / "out")
    figure = gain_by_rank(found.results, NAME, found.baseline)
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    for label, strategy in (("with the instruction", "dense"), ("query alone", "claim_only")):
        gain = found.results.tasks[NAME].run(strategy).diagnostics["against"]["gain_by_rank"]
        assert list(lines[label].get_xdata()) == list(GAIN_AT)
        assert list(lines[label].get_ydata()) == [gain[str(k)] for k in GAIN_AT]
    assert [p.name for p in draw(found, NAME)] == [f"{NAME}-gain.png"]
    alone = evaluate_model(BASE, tasks, out=tmp_path / "alone")
    assert draw(alone, NAME) == []


def test_the_instruction_reaches_the_encoder_and_documents_are_bare(tasks, tmp_path, monkeypatch):
    texts: list[str] = []
    real = systems.encode_corpus
    monkeypatch.setattr(systems, "encode_corpus", lambda t, m, **k: texts.extend(t) or real(t, m, **k))
    evaluate_model(BASE, tasks, out=tmp_path / "out")
    asked = [q.text for q in tasks[NAME].queries]
    template = evaluate_model(BASE, tasks, out=tmp_path / "out").results.tasks[NAME].query_template
    assert texts == [*tasks[NAME].texts, *asked, *query_texts(tasks[NAME], template)]
    assert all(OBLIQUE_INSTRUCTIONS["writing"] in text for text in query_texts(tasks[NAME], template))


def test_keywords_and_chance_are_measured_once_and_give_the_same_again(tasks, tmp_path, caplog):
    for name in systems.REFERENCES:
        first = evaluate_model(name, tasks, out=tmp_path / name)
        table = read_table(first.folder, first.results.tasks[NAME], name)
        with caplog.at_level("INFO", logger="hub_models"):
            second = evaluate_model(name, tasks, out=tmp_path / name)
        assert "already measured" in caplog.text
        caplog.clear()
        assert second.results == first.results
        again = evaluate_model(name, tasks, out=tmp_path / f"{name}-again")
        found = read_table(again.folder, again.results.tasks[NAME], name)
        assert all(np.array_equal(table[c], found[c]) for c in table if c != "top")
        assert [list(t) for t in table["top"]] == [list(t) for t in found["top"]]
    chance = evaluate_model("random", tasks, out=tmp_path / "random", baseline="bm25").results
    assert chance.tasks[NAME].run("random").seed == 0


def test_an_earlier_file_is_a_baseline_and_other_data_is_refused(tasks, tmp_path):
    base = evaluate_model("random", tasks, out=tmp_path / "base")
    found = evaluate_model(BASE, tasks, baseline=str(base.results_path), out=tmp_path / "out")
    assert {c.baseline for c in found.results.tasks[NAME].run("dense").compare} == {"random"}
    other = load_tasks([NAME], write_layout(tmp_path / "less", topical_task(5)), "test")
    with pytest.raises(ValueError, match=r"its 'mine-obliq-writing' was measured on data \w+, wanted"):
        evaluate_model(BASE, other, baseline=str(base.results_path), out=tmp_path / "no")


def test_late_interaction_is_for_oblique_tasks(tmp_path):
    stances = load_tasks(["mine-stance"], write_short_form(tmp_path / "mine.jsonl"), "test")
    with pytest.raises(ValueError, match="got mine-stance, wanted oblique tasks: late interaction is not measured"):
        evaluate_model(BASE, stances, out=tmp_path / "out", late_interaction=True)
    assert not (tmp_path / "out").exists()


def test_both_families_lie_in_one_file(tasks, tmp_path):
    stances = load_tasks(["mine-stance"], write_short_form(tmp_path / "mine.jsonl"), "test")
    run = write_run(tmp_path / "run", strength=0.3)
    found = evaluate_model(str(run), {**stances, **tasks}, baseline=BASE, out=tmp_path / "out")
    assert set(found.results.tasks) == {"mine-stance", NAME}
    stance_run = found.results.tasks["mine-stance"].run("dense")
    assert stance_run.diagnostics["against"]["metric"] == "precision_at_r"
    assert stance_run.diagnostics["behind"]["mean"] == pytest.approx(stance_run.mean("overall", "precision_at_r"))
    from hub_models.card_results import evaluation_results, task_table

    assert task_table(NAME, found.results.tasks[NAME]) is None
    assert {entry.dataset_name.split()[0] for entry in evaluation_results(found.results)} == {"mine-stance"}


# -- late interaction ----------------------------------------------------------------------------------------------


@pytest.fixture
def multi_vector(tmp_path):
    """A tiny random model with a vector for each token, in a folder."""
    from sentence_transformers import MultiVectorEncoder, SentenceTransformer

    single = SentenceTransformer(BASE, device="cpu")
    single.transformers_model.save_pretrained(tmp_path / "bert")
    single.tokenizer.save_pretrained(tmp_path / "bert")
    model = MultiVectorEncoder(str(tmp_path / "bert"), device="cpu")
    model.save_pretrained(str(tmp_path / "many"))
    return tmp_path / "many"


def test_late_interaction_is_the_best_match_of_each_token(tasks, tmp_path, multi_vector):
    from sentence_transformers import MultiVectorEncoder

    found = evaluate_model(str(multi_vector), tasks, late_interaction=True, out=tmp_path / "out")
    task = found.results.tasks[NAME]
    assert [run.strategy for run in task.runs] == ["dense", "claim_only"]
    assert task.run("dense").params == {"scoring": "maxsim"}
    judged = tasks[NAME]
    model = MultiVectorEncoder(str(multi_vector), device="cpu")
    template = task.query_template
    for strategy, texts in (("dense", query_texts(judged, template)), ("claim_only", query_texts(judged, None))):
        table = read_table(found.folder, task, strategy)
        for row, text in enumerate(texts[:3]):
            q = model.encode_query([text])[0].float().numpy()
            scores = [(q @ model.encode_document([t])[0].float().numpy().T).max(axis=1).sum() for t in judged.texts]
            excluded = set(judged.excluded[row].tolist())
            order = sorted((c for c in range(len(scores)) if c not in excluded), key=lambda c: (-scores[c], c))
            assert list(table["top"][row])[:3] == [judged.documents[c] for c in order[:3]]


def test_late_interaction_of_a_model_that_is_not_there(tasks, tmp_path):
    with pytest.raises(FileNotFoundError, match="absent"):
        evaluate_model(str(tmp_path / "absent"), tasks, late_interaction=True, out=tmp_path / "out")


# -- the table -----------------------------------------------------------------------------------------------------


def _cells(text, label):
    return re.split(r"\s{2,}", next(x for x in text.splitlines() if x.startswith(f"  {label}")).strip())[1:]


def test_every_number_of_the_table_is_one_of_the_results(tmp_path):
    task = replace(random_task(2), task="twitter")
    judged = {"mine-obliq-twitter": judge(task, "mine")}
    found = evaluate_model("bm25", judged, baseline="random", out=tmp_path / "out")
    text = report(found.results, "mine-obliq-twitter", found.baseline)
    assert max(len(line) for line in text.splitlines()) <= 120
    for results, label in ((found.results, "bm25"), (found.baseline, "random")):
        (run,) = results.tasks["mine-obliq-twitter"].runs
        expected = []
        for metric in ("ndcg_at_10", "ndcg_at_50", "recall_at_10", "recall_at_50", "recall_at_100"):
            pair = [f"{run.mean('overall', f'{metric}_{j}'):.3f}".replace("0.", ".") for j in ("gold", "pooled")]
            expected.append("/".join(pair))
        assert _cells(text, label) == [*expected, "n/a/n/a"]
    assert "n/a: R@1000: k is over 10% of a corpus of 1300 documents." in text
    assert "gold / pooled judgements" in text and "Left out: 1 queries" in text
    assert "published" not in text  # the published cells are of OBLIQ-Bench
    (run,) = found.results.tasks["mine-obliq-twitter"].runs
    against = run.diagnostics["against"]
    assert f"helped {against['helped']}, hurt {against['hurt']}, tied {against['tied']}" in text.replace("\n  ", " ")


@pytest.mark.parametrize("task", TASKS)
def test_published_cells_stand_below_results_on_the_benchmark(task, tmp_path):
    data = replace(random_task(2), task=task, pooled=None)
    found = evaluate_model("random", {f"bench-obliq-{task}": judge(data, "bench")}, out=tmp_path / "out")
    text = report(found.results, f"bench-obliq-{task}")
    table = published.oblique_tables()[task]
    assert f"published (O table {table.table};" in text
    for row in table.rows:
        cells = _cells(text, row.pipeline)
        value = row.cells.get("ndcg_at_10_gold")
        shown = "n/a" if value is None else f"{value:.3f}".replace("0.", ".")
        assert len(cells) == 6 and re.split("/(?!a)", cells[0])[0] == shown
    assert ("The instruction is ours: O gives none" in text) == (task == "wildchat")


def test_the_command(tmp_path):
    data = write_layout(tmp_path / "data", topical_task())
    arguments = ["--model", "bm25", "--tasks", NAME, "--data", str(data), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(evaluate.app, [*arguments, "--baseline", "random"])
    assert result.exit_code == 0, result.output
    assert f"{NAME} · test · 12 queries in 6 groups · corpus of 24 documents" in result.output
    assert json.loads((tmp_path / "out" / "results.json").read_text())["tasks"][NAME]["counts"]["task"] == "writing"
    arguments = ["--model", BASE, "--tasks", "sample-stance", "--out", str(tmp_path / "no"), "--late-interaction"]
    result = CliRunner().invoke(evaluate.app, arguments)
    assert result.exit_code == 1 and "error: got sample-stance, wanted oblique tasks" in result.output


# -- several processes ---------------------------------------------------------------------------------------------


def test_two_processes_measure_both_families_as_one_does(tmp_path):
    """They share the encoding, and the first one measures: every query has the same values and the same documents."""
    names = ["sample-stance", "sample-obliq-writing"]
    alone = evaluate_model(BASE, load_tasks(names, None, "test"), out=tmp_path / "alone")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    command += [str(ROOT / "evaluate.py"), "--model", BASE, "--tasks", ",".join(names)]
    command += ["--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "both")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "by 2 process(es), shared" in done.stderr and "by 1 process(es)" not in done.stderr
    assert done.stdout.count("results  ") == 1
    both = Results.read(tmp_path / "both" / "results.json")
    assert list(both.tasks) == names
    for name in names:
        for run, again in zip(alone.results.tasks[name].runs, both.tasks[name].runs, strict=True):
            assert again.slices == run.slices
            wanted = read_per_query(tmp_path / "alone", run.per_query)
            assert wanted.num_rows > 10 and read_per_query(tmp_path / "both", again.per_query).equals(wanted)


@pytest.mark.slow
@pytest.mark.parametrize(("launcher", "processes"), [("--multi_gpu", 2), ("--cpu", 1)])
def test_accelerate_launches_it_and_the_log_says_how_many_there_really_are(tmp_path, launcher, processes):
    """For CPUs accelerate starts one process in silence, whatever number it was given."""
    data = write_layout(tmp_path / "data", topical_task(size=50))  # two shards
    alone = evaluate_model(BASE, load_tasks([NAME], data, "test"), out=tmp_path / "alone").results
    command = [sys.executable, "-m", "accelerate.commands.launch", launcher, "--num_processes", "2"]
    command += ["--main_process_port", "0", str(ROOT / "evaluate.py"), "--model", BASE, "--tasks", NAME]
    command += ["--data", str(data), "--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"by {processes} process(es)" in done.stderr
    assert done.stdout.count("results  ") == 1
    found = Results.read(tmp_path / "out" / "results.json")
    for ours, theirs in zip(alone.tasks[NAME].runs, found.tasks[NAME].runs, strict=True):
        assert ours.slices == theirs.slices


def test_several_processes_without_a_cache_are_refused(tasks, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="2 processes share the work through a folder: give --cache DIR"):
        module.share_encoding(BASE, tasks, None)


def test_a_killed_evaluation_goes_on_from_its_cache(tasks, tmp_path, monkeypatch):
    evaluate_model(BASE, tasks, out=tmp_path / "one", cache=tmp_path / "cache")
    texts: list[str] = []
    from hub_models import corpus

    real = corpus._encode
    monkeypatch.setattr(corpus, "_encode", lambda t, *a: texts.extend(t) or real(t, *a))
    evaluate_model(BASE, tasks, out=tmp_path / "two", cache=tmp_path / "cache")
    assert not texts
