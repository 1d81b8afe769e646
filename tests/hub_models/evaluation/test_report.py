from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import logging
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from hub_models.evaluation import run as run_module
from hub_models.evaluation import stance_ranking
from hub_models.evaluation.figures import draw
from hub_models.evaluation.report import table
from hub_models.evaluation.report_published import beside_published
from hub_models.evaluation.results import Comparison, Results
from hub_models.evaluation.run import evaluate_model, load_tasks
from tests.hub_models.evaluation.helpers import TINY, write_run, write_short_form
from tests.tiny import install_tiny

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory):
    """A tuned run beside its base, on six claims with arguments in both styles."""
    folder = tmp_path_factory.mktemp("evaluation")
    tasks = load_tasks(["mine-stance"], write_short_form(folder / "mine.jsonl", 6), "test")
    run = write_run(folder / "run", strength=0.3)
    return evaluate_model(str(run), tasks, baseline=install_tiny(TINY), out=folder / "out")


def _lines(text, start):
    """The lines below the one that starts so, up to the next that is not indented."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(start)) + 1
    last = next(i for i in range(first, len(lines)) if not lines[i].startswith("  "))
    return [line.split() for line in lines[first:last]]


def test_every_number_of_the_table_is_one_of_the_results(evaluation):
    text = table(evaluation.results, "mine-stance", evaluation.baseline)
    assert max(len(line) for line in text.splitlines()) <= 120
    dense = evaluation.results.tasks["mine-stance"].run("dense")
    base = evaluation.baseline.tasks["mine-stance"].run("dense")
    titles = {
        "overall": "overall · 60 queries, corpus of 36",
        "support": "support · 30 queries, corpus of 36",
        "attack": "attack · 30 queries, corpus of 36",
        "style=explicit": "explicit arguments only · 60 queries, corpus of 12",
        "style=natural": "natural arguments only · 60 queries, corpus of 24",
        "instructions=seen": "seen instructions · 120 queries, corpus of 36",
    }
    metrics = ["ndcg_at_10", "precision_at_r", "hard_at_r", "semi_hard_at_r", "easy_at_r"]
    for name, title in titles.items():
        before, after, difference = _lines(text, title)
        assert before == ["base", *(f"{base.mean(name, m):.3f}" for m in metrics)]
        assert after == ["tuned", *(f"{dense.mean(name, m):.3f}" for m in metrics)]
        compared = {c.metric: c for c in dense.compare if c.slice == name}
        assert difference[0] == "difference"
        assert difference[1] == f"{compared['ndcg_at_10'].delta:+.3f}".replace("0.", ".")
    assert [row[0] for row in _lines(text, "claim alone")] == ["base", "tuned"]
    ceiling = dense.mean("overall", stance_ranking.ORACLE)
    assert _lines(text, "stance oracle")[0] == [f"{ceiling:.3f}", "0.000", f"{1 - ceiling:.3f}", "0.000"]
    assert "6 claims · 60 queries (unseen instructions) · corpus of 36 arguments" in text
    assert "95% intervals, 10,000 resamples of whole claims, 6 of them in all." in text


def test_where_the_claims_are_too_few_it_is_said(evaluation):
    results = evaluation.results.model_copy(deep=True)
    dense = results.tasks["mine-stance"].run("dense")
    note = "° The interval includes 0: 6 claims are too few to say which of the two is better."

    def compared(low, high):
        dense.compare = [
            Comparison(
                baseline=evaluation.baseline.model.id, slice="overall", metric="precision_at_r", delta=0.125, low=low,
                high=high, level=0.95, unit="claim", n_units=6, resamples=10, seed=0, p=0.5,
            )
        ]  # fmt: skip
        return table(results, "mine-stance", evaluation.baseline)

    assert "+.125 [-.05,+.30]°" in compared(-0.05, 0.3)
    assert note in compared(-0.05, 0.3)
    assert "+.125 [+.05,+.30]\n" in compared(0.05, 0.3)
    assert note not in compared(0.05, 0.3)


def test_a_model_alone_has_neither_base_nor_differences(evaluation):
    text = table(evaluation.results, "mine-stance")
    assert "base " not in text
    assert "difference" not in text
    assert len(_lines(text, "overall")) == 1


def test_the_ceiling_says_whose_topic_it_is(evaluation):
    assert "stance oracle: topic by the base, " in table(evaluation.results, "mine-stance")
    for beside in (None, evaluation.baseline):
        text = table(evaluation.baseline, "mine-stance", beside)
        assert "stance oracle: topic by the model itself, " in text


def test_what_is_not_computed_says_so(evaluation):
    results = evaluation.results.model_copy(deep=True)
    metric = results.tasks["mine-stance"].run("dense").slices["support"]["easy_at_r"]
    metric.mean, metric.std, metric.reason = None, None, "broken"
    assert _lines(table(results, "mine-stance"), "support")[0][-1] == "n/a"


# -- figures -------------------------------------------------------------------------------------------------------


def _digests(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


def test_figures_are_drawn_from_the_files_and_repeat(evaluation):
    drawn = draw(evaluation, "mine-stance")
    folder = evaluation.folder / "figures"
    stems = ["mine-stance-composition", "mine-stance-top5"]
    assert drawn == [folder / f"{stem}.png" for stem in stems]
    first = _digests(folder)
    assert set(first) == {f"{stem}.{suffix}" for stem in stems for suffix in ("png", "svg")}
    draw(evaluation, "mine-stance")
    assert _digests(folder) == first
    for path in drawn:
        with Image.open(path) as image:
            assert min(image.size) > 300
            assert len(image.convert("RGB").getcolors(2**24)) > 20  # not blank


def test_a_model_alone_gets_the_composition_only(tmp_path):
    tasks = load_tasks(["mine-stance"], write_short_form(tmp_path / "mine.jsonl"), "test")
    alone = evaluate_model(install_tiny(TINY), tasks, out=tmp_path / "out")
    assert [p.name for p in draw(alone, "mine-stance")] == ["mine-stance-composition.png"]


def test_no_figure_of_earlier_numbers_stays_beside_the_new_ones(tmp_path):
    """Case 1: what lies there goes onto the card and into the release."""
    out, figures, base = tmp_path / "out", tmp_path / "out" / "figures", install_tiny(TINY)
    six, four = (write_short_form(tmp_path / f"{n}.jsonl", n) for n in (6, 4))
    both = {
        **load_tasks(["mine-stance"], six, "test"),
        "old-stance": load_tasks(["mine-stance"], six, "test")["mine-stance"],
    }
    run = str(write_run(tmp_path / "run", strength=0.3))

    def drawn(model, tasks, baseline=None):
        found = evaluate_model(model, tasks, baseline=baseline, out=out)
        for name in tasks:
            draw(found, name)
        return {p.stem for p in figures.glob("*.png")}

    of_both = {f"{name}-stance-{kind}" for name in ("mine", "old") for kind in ("composition", "top5")}
    assert drawn(run, both, base) == of_both
    (figures / "by-hand.png").write_bytes(b"?")
    # The same numbers, compared as before, though nobody names the baseline again.
    assert drawn(run, {"mine-stance": both["mine-stance"]}) == of_both | {"by-hand"}
    # Other data of that name: the arguments that were found first are others.
    assert drawn(run, load_tasks(["mine-stance"], four, "test")) == of_both - {"mine-stance-top5"} | {"by-hand"}
    # Another model: the old one's tasks are no longer in the results.
    assert drawn(base, load_tasks(["mine-stance"], four, "test")) == {"mine-stance-composition", "by-hand"}
    assert {p.stem for p in figures.glob("*.svg")} == {"mine-stance-composition"}


def test_hostile_texts_are_drawn_as_text(tmp_path):
    row = (
        '{"claim": "Costs $x^{ and $y", "support": ["</text><script>alert(1)</script> $\\\\frac{"], '
        '"attack": ["<img src=x onerror=alert(1)> --> $"]}\n'
    )
    (tmp_path / "mine.jsonl").write_text(row)
    tasks = load_tasks(["mine-stance"], tmp_path / "mine.jsonl", "test")
    run = write_run(tmp_path / "run")
    found = evaluate_model(str(run), tasks, baseline=install_tiny(TINY), out=tmp_path / "out")
    draw(found, "mine-stance")
    svg = (tmp_path / "out" / "figures" / "mine-stance-top5.svg").read_text()
    assert "<script" not in svg
    assert "<img" not in svg


def test_no_text_of_a_figure_is_read_as_math(evaluation):
    name, hostile = "mine-stance", "cost $x^{ and $y"
    results, baseline = (r.model_copy(deep=True) for r in (evaluation.results, evaluation.baseline))
    for r in (results, baseline):
        r.tasks[hostile] = r.tasks[name]
        slices = r.tasks[name].run("dense").slices
        slices["style=$x^{$"] = slices["overall"]
    judged = {hostile: evaluation.judged[name]}
    found = dataclasses.replace(evaluation, results=results, baseline=baseline, judged=judged)
    assert len(draw(found, hostile)) == 2


# -- the command ---------------------------------------------------------------------------------------------------


@pytest.fixture
def command(monkeypatch):
    """evaluate.py at the root, run in this process."""
    spec = importlib.util.spec_from_file_location("evaluate_command", ROOT / "evaluate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)

    def invoke(*arguments):
        return CliRunner().invoke(module.app, [str(a) for a in arguments])

    invoke.app = module.app
    return invoke


def test_evaluate_prints_the_table_and_where_everything_lies(command, tmp_path):
    data = write_short_form(tmp_path / "mine.jsonl")
    run = write_run(tmp_path / "run", strength=0.3)
    out = tmp_path / "out"
    done = command(
        "--model", run, "--tasks", "mine-stance", "--data", data, "--baseline", install_tiny(TINY), "--out", out
    )
    assert done.exit_code == 0, done.output
    results = Results.read(out / "results.json")
    assert table(results, "mine-stance", Results.read(out / "baseline" / "results.json")) in done.output
    assert f"figure   {out / 'figures' / 'mine-stance-composition.png'}" in done.output
    assert f"results  {out / 'results.json'}" in done.output


def test_a_damaged_run_is_told_before_it_is_measured_and_compared(command, tmp_path):
    data, run = write_short_form(tmp_path / "mine.jsonl"), write_run(tmp_path / "run")  # its slant.json lacks most
    done = command("--model", run, "--tasks", "mine-stance", "--data", data, "--compare", "published")
    assert done.exit_code == 1 and "slant.json: name: Field required" in done.output
    assert not (run / "evaluation").exists()


def test_figures_that_cannot_be_drawn_leave_the_table_and_the_results(command, tmp_path):
    data = write_short_form(tmp_path / "mine.jsonl")
    out = tmp_path / "out"
    (out / "figures" / "mine-stance-composition.svg").mkdir(parents=True)
    asked = ("--tasks", "mine-stance", "--data", data, "--out", out, "--compare", "published")
    done = command("--model", install_tiny(TINY), *asked)
    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit), "no traceback"
    assert beside_published(Results.read(out / "results.json"), "mine-stance", None) in done.output
    assert "error: mine-stance: measured, but its figures are not drawn: " in done.output
    assert table(Results.read(out / "results.json"), "mine-stance") in done.output
    assert f"results  {out / 'results.json'}" in done.output


def test_an_error_inside_torch_is_told_in_a_line(command, tmp_path, monkeypatch):
    def fails(*_, **__):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(run_module, "evaluate_model", fails)
    done = command("--model", install_tiny(TINY), "--tasks", "sample-stance", "--out", tmp_path / "out")
    assert (done.exit_code, done.output) == (1, "error: out of memory\n")


def test_a_fault_of_the_code_is_a_plain_traceback(command):
    assert not command.app.pretty_exceptions_enable
    assert "--install-completion" not in command("--help").output


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"--tasks": "sampel-stance"}, "Did you mean 'sample-stance'?"),
        ({"--model": "/absent/model"}, "there is no such folder"),
        ({"--baseline": "/absent/results.json"}, "no results file"),
        ({"--tasks": "mine-stance", "--data": "/absent.jsonl"}, "/absent.jsonl"),
        (
            {"--tasks": "sample-obliq-math", "--compare": "published"},
            "got --compare published with sample-obliq-math, wanted a stance task",
        ),
        ({"--llm": "judge"}, "got --llm or --base-url and no --rerank"),
        ({"--base-url": "http://127.0.0.1:1/v1"}, "got --llm or --base-url and no --rerank"),
    ],
)
def test_evaluate_says_what_is_wrong_and_leaves_nothing(command, tmp_path, changed, words):
    options = {"--model": install_tiny(TINY), "--tasks": "sample-stance", "--out": str(tmp_path / "out"), **changed}
    done = command(*(part for option in options.items() for part in option))
    assert done.exit_code == 1
    assert words in done.output
    assert "error: " in done.output
    assert not (tmp_path / "out").exists()
