from __future__ import annotations

from dataclasses import replace

import mteb
import pytest

from dataset_builders.sources import load
from hub_models.card_results import cost_rows
from hub_models.evaluation import nanobeir
from hub_models.evaluation.figures import draw
from hub_models.evaluation.nanobeir import METRIC, NanoBEIR
from hub_models.evaluation.report import report
from hub_models.evaluation.results import Results
from hub_models.evaluation.run import evaluate_model, load_tasks
from hub_models.evaluation.tasks import StanceRetrieval
from tests.hub_models.evaluation.helpers import TINY, write_run
from tests.tiny import install_tiny


class Unreachable(StanceRetrieval):
    def load_data(self, *args, **kwargs):
        raise ConnectionError("Couldn't reach 'mteb/Nano' on the Hub (OfflineModeIsEnabled)\nmore")


def small(start):
    """Three claims of the sample with their arguments."""
    sample = load("sample")
    claims = [c for c in sample.claims if c.split == "validation"][start : start + 3]
    relations = [r for r in sample.relations if r.claim_id in {c.claim_id for c in claims}]
    used = {r.argument_id for r in relations}
    arguments = [a for a in sample.arguments if a.argument_id in used]
    return replace(sample, claims=claims, relations=relations, arguments=arguments, inversions=[])


def benchmark(kind=StanceRetrieval):
    """Two retrieval tasks with data at hand, in the place of the thirteen on the Hub."""
    return NanoBEIR(tuple(kind(small(i), name=f"Nano{i}Retrieval", split="validation") for i in (3, 0)))


@pytest.fixture(scope="module")
def measured(minilm):
    return nanobeir.evaluate(benchmark(), minilm)


def test_each_data_set_has_mtebs_own_number(measured, minilm):
    assert measured.table["query_id"].tolist() == ["Nano0Retrieval", "Nano3Retrieval"]
    for start, value in zip((0, 3), measured.table[METRIC], strict=True):
        task = StanceRetrieval(small(start), split="validation")
        found = mteb.evaluate(minilm, task, cache=None, encode_kwargs={"show_progress_bar": False})
        assert value == pytest.approx(found.task_results[0].scores["validation"][0][METRIC], abs=1e-6)
    summary = nanobeir.summarise(measured.table)["overall"][METRIC]
    assert summary.mean == pytest.approx(measured.table[METRIC].mean())
    assert summary.n == 2


def test_a_models_prompts_are_left_out_and_put_back(measured, minilm):
    before = minilm.prompts, minilm.default_prompt_name
    minilm.prompts, minilm.default_prompt_name = {"query": "Represent this: ", "document": "Text: "}, "query"
    try:
        found = nanobeir.evaluate(benchmark(), minilm)
        assert (minilm.prompts["query"], minilm.default_prompt_name) == ("Represent this: ", "query")
    finally:
        minilm.prompts, minilm.default_prompt_name = before
    assert found.table[METRIC].tolist() == pytest.approx(measured.table[METRIC].tolist(), abs=1e-6)


def test_without_the_hub_it_is_null_and_says_why(minilm):
    found = nanobeir.evaluate(benchmark(Unreachable), minilm)
    assert len(found.table["query_id"]) == 0
    metric = found.metrics["overall"][METRIC]
    assert (metric.mean, metric.n) == (None, 0)
    assert (
        metric.reason == "Nano3Retrieval cannot be had: Couldn't reach 'mteb/Nano' on the Hub (OfflineModeIsEnabled)"
    )
    assert nanobeir.compare(found.table, found.table, "base") == []


def test_the_thirteen_of_mteb_are_pinned_and_are_not_at_hand_offline(minilm):
    real = nanobeir.load()
    assert real.counts() == {"datasets": 13}
    assert all(len(t.metadata.dataset["revision"]) == 40 for t in real.tasks)
    assert real.revision == nanobeir.load().revision != benchmark().revision
    assert "cannot be had: " in nanobeir.evaluate(real, minilm).metrics["overall"][METRIC].reason


def test_the_difference_is_paired_by_data_set(measured):
    lower = {**measured.table, METRIC: measured.table[METRIC] - [0.1, 0.3]}
    (found,) = nanobeir.compare(lower, measured.table, "base")
    assert (found.baseline, found.slice, found.metric, found.unit, found.n_units) == (
        "base",
        "overall",
        METRIC,
        "data set",
        2,
    )
    assert found.delta == pytest.approx(-0.2)
    assert (found.low, found.high) == (pytest.approx(-0.3), pytest.approx(-0.1))
    one = {name: column[:1] for name, column in lower.items()}
    (alone,) = nanobeir.compare(one, measured.table, "base")
    assert alone.low is None and alone.reason


# -- in an evaluation ------------------------------------------------------------------------------------------------


def test_an_evaluation_writes_it_and_tries_again_where_it_was_missing(tmp_path, monkeypatch):
    base, out = install_tiny(TINY), tmp_path / "out"
    run = str(write_run(tmp_path / "run", strength=0.3))
    monkeypatch.setattr(nanobeir, "load", lambda: benchmark(Unreachable))
    found = evaluate_model(run, load_tasks(["nanobeir"], None, "test"), baseline=base, out=out)
    text = report(found.results, "nanobeir", found.baseline)
    assert text.count("n/a: Nano3Retrieval cannot be had") == 2
    assert draw(found, "nanobeir") == []

    monkeypatch.setattr(nanobeir, "load", benchmark)
    found = evaluate_model(run, load_tasks(["nanobeir"], None, "test"), baseline=base, out=out)
    task = Results.read(out / "results.json").tasks["nanobeir"]
    before, after = (r.tasks["nanobeir"].runs[0].mean("overall", METRIC) for r in (found.baseline, found.results))
    (difference,) = task.runs[0].compare
    assert difference.delta == pytest.approx(after - before)
    lines = [line.split() for line in report(found.results, "nanobeir", found.baseline).splitlines()]
    assert ["base", f"{before:.3f}"] in lines and ["tuned", f"{after:.3f}"] in lines
    row = cost_rows(found.results)[-1]
    assert (row.values["base"], row.values["this adapter"]) == (f"{before:.3f}", f"{after:.3f}")

    monkeypatch.setattr(nanobeir, "evaluate", lambda *_: pytest.fail("measured again"))
    evaluate_model(run, load_tasks(["nanobeir"], None, "test"), baseline=base, out=out)


def test_it_takes_no_data_and_only_encoders(tmp_path):
    with pytest.raises(ValueError, match="wanted one task by name, whose data it replaces"):
        load_tasks(["nanobeir"], tmp_path, "test")
    tasks = load_tasks(["nanobeir"], None, "test")
    for model, baseline in (("bm25", None), (install_tiny(TINY), "random")):
        with pytest.raises(ValueError, match="got 'nanobeir', wanted stance or oblique tasks, or a single"):
            evaluate_model(model, tasks, baseline=baseline, out=tmp_path / "out")
