"""Reranked runs from names to results.json, over HTTP: what an oracle and a topical judge make of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dataset_builders.generate import LanguageModel
from dataset_builders.sources.oblique import load
from hub_models.evaluation.figure_cost import cost_quality
from hub_models.evaluation.llm_baselines import with_gold
from hub_models.evaluation.named_tasks import load_tasks
from hub_models.evaluation.oblique import judge
from hub_models.evaluation.oblique_metrics import MAIN
from hub_models.evaluation.report import report
from hub_models.evaluation.rerank_option import language_model, rerankings
from hub_models.evaluation.reranking import Setting
from hub_models.evaluation.results import Results, RunResult
from hub_models.evaluation.run import evaluate_model, read_table
from hub_models.manifest import Manifest, adapter_sha256
from hub_models.retrieval import rerank_prompts
from hub_models.retrieval.rerank_prompts import prompts_digest
from tests.endpoint import Endpoint, endpoint
from tests.hub_models.evaluation.helpers import write_run
from tests.hub_models.evaluation.oblique_data import oblique_task, topical_task, write_layout
from tests.judges import Judge, answering, noisy, oracle, read, topical, useless
from tests.run_folders import manifest

MATH = "sample-obliq-math"


@pytest.fixture(scope="module")
def knows() -> Judge:
    return oracle(load("sample", "math"))


def evaluated(served: Endpoint, option: str, out: Path, *, depth: int = 100, task: str = MATH) -> Results:
    """`evaluate.py` without its command line, on BM25's first documents."""
    tasks = load_tasks([task], None, "test")
    model = LanguageModel("judge", base_url=served.base_url, cache=out / "replies")
    further = rerankings(option, tasks, [task], None, "test", depth=depth, model=model)
    return evaluate_model("bm25", tasks, out=out, oblique_variants=further.oblique).results


def test_an_oracle_reaches_the_ceiling_of_the_pool(knows: Judge, tmp_path: Path) -> None:
    with endpoint(answering(knows)) as served:
        results = evaluated(served, "listwise:100,tourrank:1,identity,oracle-tournament:1,rewrite", tmp_path)
    task = results.tasks[MATH]
    first = task.runs[0]
    assert [r.strategy for r in task.runs] == ["bm25", *["rerank"] * 3, "rewrite", "oracle_tournament"]
    by = {(r.strategy, r.params.get("policy")): r for r in task.runs}
    whole, tournament = by["rerank", "listwise:100"], by["rerank", "tourrank:1"]
    same, gold = by["rerank", "identity"], by["oracle_tournament", "tourrank:1"]
    ceiling = whole.diagnostics["pool_ceiling"]
    reached = whole.mean("overall", MAIN)
    assert reached == pytest.approx(ceiling, abs=1e-12) and ceiling < 1
    assert first.mean("overall", MAIN) < tournament.mean("overall", MAIN) <= reached
    assert same.mean("overall", MAIN) == first.mean("overall", MAIN)
    assert same.diagnostics["against_first_stage"]["tied"] == 16 and same.diagnostics["cost"]["calls_per_query"] == 0
    assert gold.diagnostics["pool_ceiling"] == pytest.approx(1.0) and gold.mean("overall", MAIN) > reached
    assert whole.diagnostics["against_first_stage"]["hurt"] == 0
    assert tournament.diagnostics["cost"]["calls_per_query"] == 13
    assert by["rewrite", None].diagnostics["cost"]["calls_per_query"] == 1
    assert {c.metric for c in whole.compare if c.baseline == "dense"} >= {MAIN}


@pytest.mark.parametrize("option", ["listwise:20", "auto,tourrank:1", "rewrite", "oracle-tournament:1"])
def test_another_host_or_other_prompts_are_measured_anew(
    option: str, knows: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same name at two hosts: an oracle and a topical judge. Then the first one, asked in other words."""
    tasks = load_tasks([MATH], None, "test")

    def measured(served: Endpoint, out: str) -> tuple[Results, RunResult]:
        model = language_model("judge", served.base_url, tmp_path / "cache")
        further = rerankings(option, tasks, [MATH], None, "test", model=model).oblique
        results = evaluate_model("bm25", tasks, out=tmp_path / out, oblique_variants=further).results
        run = results.tasks[MATH].run(further[0].strategy, further[0].params)
        assert run is not None
        return results, run

    with endpoint(answering(knows)) as one, endpoint(answering(topical)) as two:
        _, first = measured(one, "out")
        results, second = measured(two, "out")
        assert len(results.tasks[MATH].runs) == 3 and len(two.bodies) > 0
        assert second.slices == measured(two, "fresh")[1].slices
        asked = len(one.bodies)
        assert measured(one, "out")[1] == first and len(one.bodies) == asked, "nothing is asked again"
        monkeypatch.setattr(rerank_prompts, "MAX_WORDS", 3)
        results, third = measured(one, "out")
    assert len(results.tasks[MATH].runs) == 4 and third.params["prompts"] != first.params["prompts"]
    assert [r.params["endpoint"] for r in (first, second)] == [s.base_url.split("/")[2] for s in (one, two)]


def test_recall_at_the_depth_of_the_pool_stays(knows: Judge, tmp_path: Path) -> None:
    with endpoint(answering(knows)) as served:
        evaluated(served, "tourrank:1", tmp_path, depth=10)
    results = Results.read(tmp_path / "results.json")
    first, ranked = results.tasks[MATH].runs
    where = {"endpoint": served.base_url.split("/")[2], "prompts": prompts_digest()}
    assert ranked.params == {"policy": "tourrank:1", "depth": 10, "llm": "judge", **where}
    assert ranked.mean("overall", "recall_at_10_gold") == first.mean("overall", "recall_at_10_gold")
    table = read_table(tmp_path, results.tasks[MATH], "rerank", ranked.params)
    assert set(table["calls"]) == {3} and (table["parsed"] == 3).all() and (table["prompt_tokens"] > 0).all()


@pytest.mark.parametrize(
    ("kind", "chosen"), [("oracle", "tourrank:2"), ("noisy", "tourrank:2"), ("topical", "identity")]
)
def test_the_policy_trusts_an_oracle_and_not_a_topical_judge(
    kind: str, chosen: str, knows: Judge, tmp_path: Path
) -> None:
    judges: dict[str, Judge] = {"oracle": knows, "noisy": noisy(knows), "topical": topical}
    with endpoint(answering(judges[kind])) as served:
        results = evaluated(served, "auto,tourrank:2,listwise", tmp_path)
        asked = len(served.bodies)
        first, run = results.tasks[MATH].runs
        choice = run.diagnostics["choice"]
        assert choice["policy"] == run.diagnostics["policy"] == chosen and choice["queries"] == 8
        assert set(choice["candidates"]) == {"identity", "tourrank:2", "listwise:20"}
        # Eight development queries are asked by both policies, the sixteen others by the chosen one alone.
        assert sum("Order all" in q for q in served.questions) == 8
        assert len({read(b).query for b in served.bodies}) == (8 if chosen == "identity" else 24)
        if chosen == "identity":
            assert run.mean("overall", MAIN) == first.mean("overall", MAIN)
        else:
            assert run.mean("overall", MAIN) > 0.6
        evaluated(served, "auto,tourrank:2,listwise", tmp_path)  # everything is there
        (tmp_path / "results.json").unlink()
        again = evaluated(served, "auto,tourrank:2,listwise", tmp_path)  # measured anew, nothing asked anew
        assert len(served.bodies) == asked and again.tasks[MATH].runs[1].slices == run.slices
    said = report(results, MATH)
    assert f"auto: {chosen}" in said and f"{chosen} was chosen on 8 development queries in 4 groups" in said
    assert max(map(len, said.splitlines())) <= 120


def test_a_marked_development_split_decides_and_the_rest_is_reported_as_clean(tmp_path: Path) -> None:
    """As in OBLIQ-Bench: no split is named, a seeded fifth of the queries is development."""
    rng = np.random.default_rng(0)
    documents = {f"d{i:03}": f"text number {i} {' '.join(rng.choice(list('abcdefgh'), 4))}" for i in range(60)}
    queries = {f"q{i:02}": f"text {' '.join(rng.choice(list('abcdefgh'), 3))} {i}" for i in range(40)}
    qrels = {q: {f"d{(i * 7 + 20) % 60:03}": 1} for i, q in enumerate(queries)}
    task = oblique_task(documents, queries, qrels, attributes={q: f"a{i}" for i, q in enumerate(queries)})
    judged = judge(task, "made")
    with endpoint(answering(oracle(task))) as served:
        model = LanguageModel("judge", base_url=served.base_url)
        further = rerankings("auto,listwise:60", {"made": judged}, ["made"], None, "test", model=model)
        results = evaluate_model("bm25", {"made": judged}, out=tmp_path, oblique_variants=further.oblique).results
        assert len(served.bodies) == 40  # the development queries are not asked again
    run = results.tasks["made"].runs[1]
    assert run.diagnostics["choice"]["queries"] == 8 and run.diagnostics["policy"] == "listwise:60"
    assert run.slices["clean"][MAIN].n == 32 and run.mean("clean", MAIN) > results.tasks["made"].runs[0].mean(
        "clean", MAIN
    )


def test_useless_replies_fail_the_run_and_leave_what_was_measured(tmp_path: Path) -> None:
    with endpoint(useless) as served, pytest.raises(RuntimeError, match="math: listwise:5: got 16 of 16 replies"):
        evaluated(served, "identity,listwise:5", tmp_path)
    assert [r.strategy for r in Results.read(tmp_path / "results.json").tasks[MATH].runs] == ["bm25", "rerank"]


def test_gold_takes_the_last_places_of_the_pool() -> None:
    task = oblique_task({f"d{i}": f"t{i}" for i in range(8)}, {"q": "t"}, {"q": {"d6": 1, "d1": 1, "d7": 2, "d0": 0}})
    order = np.array([[3, 1, 2, 4, 5, 6, -1, -1]])
    assert with_gold(judge(task, "made"), order, 4).tolist() == [[3, 1, 6, 7, 2, 4, 5, -1]]
    assert with_gold(judge(task, "made"), order, 2).tolist() == [[1, 6, 3, 2, 4, 5, -1, -1]]


@pytest.mark.parametrize(
    ("option", "task", "split", "said"),
    [
        ("tourank:5", MATH, "test", "Did you mean 'tourrank'"),
        ("tourrank:5", MATH, "test", "asks a language model: give --llm MODEL"),
        ("auto", MATH, "test", "asks a language model: give --llm MODEL"),
        ("oracle-tournament:5", MATH, "test", "asks a language model: give --llm MODEL"),
        ("oracle-tournament", MATH, "test", "with a number of at least 1"),
        ("auto,identity", MATH, "validation", "on the validation split, on which it would choose"),
        (",", MATH, "test", "got an empty --rerank"),
        ("identity", "sample-stance", "test", "wanted cross-encoder:ID for stance tasks"),
        ("cross-encoder:a/b,identity", f"sample-stance,{MATH}", "test", "on sample-stance, wanted cross-encoder:ID"),
    ],
)
def test_options_that_cannot_be(option: str, task: str, split: str, said: str) -> None:
    names = task.split(",")
    with pytest.raises(ValueError, match=said):
        rerankings(option, load_tasks(names, None, split), names, None, split)  # type: ignore[arg-type]


def test_an_address_without_a_model() -> None:
    with pytest.raises(ValueError, match=r"got --base-url http://127\.0\.0\.1:1/v1 and no --llm"):
        language_model(None, "http://127.0.0.1:1/v1", None)
    assert language_model(None, None, None) is None


def test_a_host_is_named_without_its_path_and_a_model_that_nothing_asks_is_refused(tmp_path: Path) -> None:
    model = language_model("judge", "http://127.0.0.1:1/not-for-others/v1", tmp_path)
    assert model is not None and Setting(model).params(True)["endpoint"] == "127.0.0.1:1"
    assert "endpoint" not in Setting(model).params(False)
    assert language_model("judge", None, tmp_path) is not None
    assert {p.name for p in tmp_path.glob("*.sqlite3")} == {"replies-127.0.0.1-1.sqlite3", "replies-hub.sqlite3"}
    with pytest.raises(ValueError, match="got --llm judge and --rerank identity, none of which asks"):
        rerankings("identity", load_tasks([MATH], None, "test"), [MATH], None, "test", model=model)


def test_the_command_keeps_the_choice_in_a_run_and_draws_its_cost(tmp_path: Path) -> None:
    """A tiny encoder in a run folder, on data of one's own."""
    from evaluate import app

    task = topical_task()
    folder, run_dir = write_layout(tmp_path / "mine", task), write_run(tmp_path / "run")
    pins = json.loads((run_dir / "slant.json").read_text())
    manifest(**pins, adapter_sha256=adapter_sha256(run_dir)).write(run_dir)
    with endpoint(answering(oracle(task))) as served:
        options = ["--model", str(run_dir), "--tasks", f"mine-obliq-{task.task}", "--data", str(folder)]
        options += ["--llm", "judge", "--base-url", served.base_url, "--cache", str(tmp_path / "cache")]
        chosen = CliRunner().invoke(app, [*options, "--rerank", "auto"])
        assert chosen.exit_code == 0, chosen.output
        swept = CliRunner().invoke(app, [*options, "--rerank", "tourrank:1,tourrank:3,listwise:5"])
        assert swept.exit_code == 0, swept.output
    name = f"mine-obliq-{task.task}"
    kept = Manifest.read(run_dir).rerank_policy
    assert kept is not None and kept[name]["llm"] in ("judge", None) and kept[name]["policy"] in chosen.output
    assert (run_dir / "evaluation" / "figures" / f"{name}-cost.png").is_file()
    assert Manifest.read(run_dir).rerank_policy == kept
    results = Results.read(run_dir / "evaluation" / "results.json")
    assert [r.params.get("policy") for r in results.tasks[name].runs if r.strategy == "rerank"] == [
        "auto",
        "tourrank:1",
        "tourrank:3",
        "listwise:5",
    ]
    assert cost_quality(results.tasks[name], name) is not None
    assert str(tmp_path) not in json.dumps(results.model_dump()["tasks"], default=str)
