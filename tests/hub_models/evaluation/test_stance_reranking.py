"""A cross-encoder behind a stance search: the same metrics, on the same pool, for the unseen instructions."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from dataset_builders.instructions import UNSEEN
from hub_models.evaluation.metrics import COMPOSITION
from hub_models.evaluation.named_tasks import load_tasks
from hub_models.evaluation.rerank_option import rerankings
from hub_models.evaluation.results import Results, RunResult, TaskResult
from hub_models.evaluation.run import OWN, evaluate_model, read_table
from hub_models.evaluation.stance import judge, queries_of
from hub_models.evaluation.stance_reranking import StanceReranking, reranked_scores
from hub_models.retrieval import policies
from hub_models.retrieval.cross_encoder import CrossEncoderReranker
from hub_models.retrieval.policies import Policy
from hub_models.retrieval.rerank import Reranked
from tests.hub_models.evaluation.helpers import random_data, write_run, write_short_form
from tests.tiny_rerankers import bert_reranker, qwen3_reranker


def test_the_first_are_reordered_and_the_rest_follow() -> None:
    judged = judge(random_data(0), "test")
    queries = queries_of(judged, "{instruction} {claim}")
    n = len(judged.documents)
    first = np.random.default_rng(0).random((len(queries), n)).astype(np.float32)
    seen: list[tuple[str, int]] = []

    def backwards(query: str, candidates: Sequence[str]) -> Reranked:
        seen.append((query, len(candidates)))
        return Reranked(list(range(len(candidates)))[::-1])

    scores = reranked_scores(judged, queries, lambda rows, _: first[rows], backwards, 4)([2, 0], "all")
    for row, found in zip([2, 0], scores, strict=True):
        before, after = np.argsort(-first[row]), np.argsort(-found)
        assert after.tolist() == [*before[:4][::-1], *before[4:]]
    assert seen == [(queries[2].text, 4), (queries[0].text, 4)]


@pytest.fixture(
    scope="module",
    params=[pytest.param(bert_reranker, id="bert"), pytest.param(qwen3_reranker, id="qwen3", marks=pytest.mark.slow)],
)
def folders(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A run, a cross-encoder and data: once with a classifier, once with a language model as Qwen3-Reranker is."""
    root = tmp_path_factory.mktemp("stance-rerank")
    (root / "ce").mkdir()
    return write_run(root / "run"), request.param(root / "ce"), write_short_form(root / "mine.jsonl")


def test_a_cross_encoder_of_all_documents_ranks_by_its_scores_alone(
    folders: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    run_dir, reranker, data = folders
    tasks = load_tasks(["mine-stance"], data, "test")
    further = rerankings(f"cross-encoder:{reranker}", tasks, ["mine-stance"], data, "test")
    results = evaluate_model(str(run_dir), tasks, out=tmp_path, variants=further.stance).results
    task = results.tasks["mine-stance"]
    dense, _, run = task.runs
    assert run.strategy == "rerank" and run.params == {
        "policy": "cross-encoder:ce",  # the folder's name, no path
        "depth": 100,
        "instructions": "unseen",
        "content": Policy("cross-encoder", model=str(reranker)).content,
    }
    overall = run.slices["overall"]
    assert sum(overall[f"{kind}_at_r"].mean or 0 for kind in COMPOSITION) == pytest.approx(1)
    assert overall["precision_at_r"].n == dense.slices["overall"]["precision_at_r"].n
    assert "instructions=seen" in dense.slices and "instructions=seen" not in run.slices
    assert {c.baseline for c in run.compare} == {OWN}
    said = {"pairs_per_query": 24, "queries": 40, "first_stage": "dense", "cross_encoder_revision": None}
    assert run.diagnostics["reranking"] == said  # a folder has no commit

    table = read_table(tmp_path, task, "rerank")
    assert set(table["instruction_id"]) == {i.id for i in UNSEEN}
    judged = tasks["mine-stance"]
    alone = CrossEncoderReranker(str(reranker))
    queries = {q.query_id: q.text for q in queries_of(judged, "{instruction} {claim}")}  # type: ignore[arg-type]
    for row in np.flatnonzero(table["candidates"] == "all")[:6]:
        scores = alone.scores(queries[table["query_id"][row]], [d.text for d in judged.documents])  # type: ignore[union-attr]
        by_id = {d.argument_id: s for d, s in zip(judged.documents, scores, strict=True)}  # type: ignore[union-attr]
        found = [by_id[i] for i in table["top"][row]]
        np.testing.assert_allclose(found, sorted(scores, reverse=True)[:10], atol=1e-5)


@pytest.mark.parametrize("folders", [bert_reranker], ids=["bert"], indirect=True)
def test_another_cross_encoder_in_a_folder_of_that_name_is_measured_anew(
    folders: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    """``a/ce``, then ``b/ce``, then ``b/ce`` trained further: each turns the scores of the one before around."""
    run_dir, reranker, data = folders
    tasks = load_tasks(["mine-stance"], data, "test")
    places = [tmp_path / "a" / "ce", tmp_path / "b" / "ce"]
    for place in places:
        shutil.copytree(reranker, place)
    upside_down(places[1])

    def measured(place: Path, out: str) -> tuple[TaskResult, RunResult]:
        further = rerankings(f"cross-encoder:{place}", tasks, ["mine-stance"], data, "test").stance
        task = evaluate_model(str(run_dir), tasks, out=tmp_path / out, variants=further).results.tasks["mine-stance"]
        run = task.run("rerank", further[0].params)
        assert run is not None
        return task, run

    for number, place in enumerate([places[0], places[1], places[1]], 1):
        if number == 3:
            upside_down(place)
        task, run = measured(place, "out")
        assert run.slices == measured(place, f"fresh-{number}")[1].slices
        assert len([r for r in task.runs if r.strategy == "rerank"]) == min(number, 2), "the third is the first again"
    assert len({json.dumps(r.model_dump()["slices"]) for r in task.runs if r.strategy == "rerank"}) == 2
    assert {len(r.params["content"]) for r in task.runs if r.strategy == "rerank"} == {64}


def upside_down(folder: Path) -> None:
    """Turn the signs of a cross-encoder's scores."""
    weights = folder / "model.safetensors"
    tensors = load_file(weights)
    for name in ("classifier.weight", "classifier.bias"):
        tensors[name] = -tensors[name]
    save_file(tensors, weights, metadata={"format": "pt"})


def test_a_cross_encoder_of_the_hub_goes_by_its_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = []
    for commit in ("1" * 40, "2" * 40):
        place = tmp_path / "models--a--b" / "snapshots" / commit / "config.json"
        place.parent.mkdir(parents=True)
        monkeypatch.setattr(policies, "find", lambda *_, place=place: place)
        found.append(StanceReranking(Policy.parse("cross-encoder:a/b")).params)
    assert [params["content"] for params in found] == ["1" * 40, "2" * 40]
    assert found[0]["policy"] == found[1]["policy"] == "cross-encoder:a/b"


def test_the_command(folders: tuple[Path, Path, Path], tmp_path: Path) -> None:
    from evaluate import app

    run_dir, reranker, data = folders
    options = ["--model", str(run_dir), "--tasks", "mine-stance", "--data", str(data), "--out", str(tmp_path)]
    options += [
        "--rerank",
        f"cross-encoder:{reranker}",
        "--rerank-depth",
        "5",
        "--baseline",
        "slant-tests/tiny-bge-large",
    ]
    done = CliRunner().invoke(app, options)
    assert done.exit_code == 0, done.output
    run = Results.read(tmp_path / "results.json").tasks["mine-stance"].runs[2]
    assert run.params["depth"] == 5 and {c.baseline for c in run.compare} == {OWN, "slant-tests/tiny-bge-large"}
    assert "rerank-policy-cross-encoder-ce-depth-5-instructions-unseen" in done.output
