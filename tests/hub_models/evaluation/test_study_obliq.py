"""The oblique study: which rows each cell gets, cells that resume, numbers and words of the report."""

from __future__ import annotations

import functools
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from dataset_builders import builds
from dataset_builders.oblique.documents import Document
from dataset_builders.oblique.documents import load as load_documents
from dataset_builders.oblique.read import read_oblique_rows
from dataset_builders.sources.obliq_bench import TASKS
from hub_models import training
from hub_models.__main__ import app
from hub_models.evaluation import oblique, study_obliq, study_obliq_grid, study_obliq_results
from hub_models.evaluation.named_tasks import Tasks
from hub_models.evaluation.published import teacher_graph
from hub_models.evaluation.results import RESULTS_NAME, Comparison
from hub_models.evaluation.study_obliq_figures import curves, draw
from hub_models.evaluation.study_obliq_grid import CENTRAL, GENERIC, MATCHED, Grid, Pairs, Plan, cells, plans
from hub_models.evaluation.study_obliq_lenses import read_lenses
from hub_models.evaluation.study_obliq_report import report
from hub_models.evaluation.study_obliq_results import LensRows, ObliqueStudyResults
from hub_models.evaluation.study_results import ZERO_SHOT, FirstDocuments, Pair, Spread, StudyRun, StudyTask
from hub_models.recipe import load_recipe
from tests.hub_models.evaluation.oblique_data import oblique_task, topical_task
from tests.tiny import tiny

WRITING = "sample-obliq-writing"


@functools.cache
def documents() -> list[Document]:
    return [d for d in load_documents("sample") if d.task == "writing"]


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Grid:
    """Built once: nothing here changes what is built."""
    return Grid(tmp_path_factory.mktemp("grid"), documents(), {})


def chosen_plans(names: set[str]) -> list[Plan]:
    found = plans(96, second="x", query_form="description", generic=False, quick=False)
    return [plan for plan in found if plan.name in names]


# -- the grid ------------------------------------------------------------------------------------------------------


def test_the_grid_holds_every_question_and_the_central_one_first() -> None:
    found = plans(96, second="luar", query_form="description", generic=True, quick=False)
    assert [p.name for p in found] == [
        "no-pairs", "pairs", "random-graph", "without-writing", "without-twitter", "without-math", "without-congress",
        "without-wildchat", "replace", "passages", "by-luar", "dose-48", "dose-96", "dose-192", "k-1", "k-5", "k-10",
        "matched-lens", "generic-lens",
    ]  # fmt: skip
    by_name = {p.name: p for p in found}
    assert by_name["k-10"].pairs == Pairs(k=10, dose=96) and by_name["dose-96"].pairs == Pairs(k=3, dose=96)
    assert by_name["without-writing"] == Plan("without-writing", None, ("twitter", "math", "congress", "wildchat"))
    assert by_name["without-math"].pairs == Pairs() and "math" not in by_name["without-math"].tasks
    assert by_name["random-graph"].pairs == Pairs(random=True)
    assert by_name["matched-lens"].pairs == by_name["generic-lens"].pairs == Pairs()
    quick = plans(96, second="luar", query_form="description", generic=True, quick=True)
    assert [p.name for p in quick] == ["no-pairs", "pairs", "random-graph", "without-writing"]


def test_systems_differ_in_the_rows_that_their_names_say(grid: Grid) -> None:
    wanted = {"no-pairs", "pairs", "random-graph", "replace", "without-writing", "k-1"}
    chosen = chosen_plans(wanted)
    made = {c.system.name: c for c in cells(grid, chosen, "obliq-minilm", 1, [])}
    rows = {name: cell.rows.triplets for name, cell in made.items()}
    sizes = {"no-pairs": 468, "pairs": 756, "random-graph": 756, "replace": 660, "without-writing": 372, "k-1": 564}
    assert {name: len(r) for name, r in rows.items()} == sizes
    assert set(rows["without-writing"]["task"]) == set(TASKS) - {"writing"}

    def style(name: str, *columns: str) -> list[tuple[Any, ...]]:
        found = zip(rows[name]["lens"], *(rows[name][c] for c in columns), strict=True)
        return [tuple(row[1:]) for row in found if row[0] == "style"]

    same = ("anchor_id", "query", "negatives")  # O H.1: identical anchors and negatives, other positives
    assert [str(r) for r in style("random-graph", *same)] == [str(r) for r in style("pairs", *same)]
    assert style("random-graph", "positive_id") != style("pairs", "positive_id")
    anchors = [a for (a,) in style("k-1", "anchor_id")]
    assert len(anchors) == len(set(anchors)) == 96
    assert made["replace"].system.overrides[-1].endswith("(writing), replace")


def test_seeds_draw_other_edges_and_come_after_the_systems_of_the_main_question(grid: Grid) -> None:
    chosen = chosen_plans({*CENTRAL, "dose-48"})
    made = cells(grid, chosen, "obliq-minilm", 2, ["learning_rate=1e-4"])
    assert [c.name for c in made] == [
        "no-pairs-seed0", "pairs-seed0", "random-graph-seed0", "no-pairs-seed1", "pairs-seed1", "random-graph-seed1",
        "dose-48-seed0", "dose-48-seed1",
    ]  # fmt: skip
    assert all(c.recipe.learning_rate == 1e-4 and c.recipe.seed == int(c.name[-1]) for c in made)
    drawn = [c.rows.triplets["positive_id"][468:] for c in made[-2:]]
    assert len(drawn[0]) == len(drawn[1]) == 48 and drawn[0] != drawn[1]


def test_pairs_ask_in_words_or_with_their_anchor(grid: Grid) -> None:
    own = {d.document_id: d for d in documents()}
    chosen = [p for p in plans(96, second="x", query_form="passage", generic=False, quick=False)]
    by_name = {p.name: p for p in chosen}
    assert by_name["described"].pairs == Pairs() and all(
        p.pairs is None or p.pairs.query_form == "passage" for p in chosen if p.name != "described"
    )
    both = cells(grid, [by_name["pairs"], by_name["described"]], "obliq-minilm", 1, [])
    for cell, form in zip(both, ("text", "description"), strict=True):
        rows = [r for r in cell.rows.triplets if r["lens"] == "style"]
        assert len(rows) == 288 and all(r["query"] == getattr(own[r["anchor_id"]], form) for r in rows)


def test_rows_are_built_once(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    first = grid.pairs(Pairs(), 0)
    monkeypatch.setattr(builds, "prepare", lambda *_, **__: pytest.fail("built again"))
    assert grid.pairs(Pairs(), 0) == first


def test_a_specialist_of_the_wrong_size_fails_before_anything_is_trained(tmp_path: Path) -> None:
    np.save(tmp_path / "short.npy", np.ones((95, 4), np.float32))
    grid = Grid(tmp_path / "data", documents(), {"short": tmp_path / "short.npy"})
    with pytest.raises(ValueError, match=r"numbers of shape \[95, 4\] for 96 documents"):
        cells(grid, [Plan("by-short", Pairs(specialist="short"))], "obliq-minilm", 1, [])


def test_the_second_specialist_is_encoded_once_and_by_its_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[list[str]] = []

    def encode(texts: list[str], _: Any) -> Any:
        called.append(texts)
        return np.eye(len(texts), dtype=np.float32)

    monkeypatch.setattr(study_obliq_grid, "encode_corpus", encode)
    loaded: list[Any] = []
    monkeypatch.setattr(study_obliq_grid, "load", lambda *args, **pins: loaded.append((args, pins)))
    two = documents()[:2]
    some, newer = (load_recipe("obliq-minilm", ["base=some/model", f"base_revision={sha * 40}"]) for sha in "ab")
    path = study_obliq_grid.vectors_of(some, two, tmp_path)
    assert study_obliq_grid.vectors_of(some, two, tmp_path) == path
    assert called == [[d.text for d in two]] and np.load(path).tolist() == [[1, 0], [0, 1]]
    assert loaded == [(("some/model",), {"revision": "a" * 40, "trust_remote_code": None})]
    assert study_obliq_grid.vectors_of(newer, two, tmp_path) != path
    assert study_obliq_grid.vectors_of(load_recipe("obliq-minilm", ["base=other/model"]), two, tmp_path) != path


# -- the specialist itself -----------------------------------------------------------------------------------------


def test_the_specialist_as_retriever_finds_its_hand_and_keeps_to_the_exclusions() -> None:
    """Two hands that differ in every mark: a perfect ranking, but for the query's own document, which is excluded."""
    loud = [f"No! Stop, {w}! Not now; not here! Why, {w}? Because!" for w in ("tea", "rain", "wool", "maps")]
    calm = [f"It was said of {w} that it would have been as it had always been and would be" for w in ("a", "b", "c")]
    texts = {f"l{i}": t for i, t in enumerate(loud)} | {f"c{i}": t for i, t in enumerate(calm)}
    task = oblique_task(texts, {"q": loud[0]}, {"q": {"l1": 1, "l2": 1, "l3": 1}}, {"q": {"l0"}}, task="writing")
    judged = oblique.judge(task, "mine")
    found = study_obliq_results.direct(judged, "mine")
    assert found.metrics["ndcg_at_10_gold"] == 1.0 and found.low is None  # one group: nothing to resample


def test_a_corpus_is_labelled_by_what_is_relevant_together() -> None:
    judged = oblique.judge(topical_task(2, 3), "mine")
    probe = study_obliq._probe(judged)
    assert len(probe.ids) == 6 and len(set(probe.labels.values())) == 2
    assert "cars-0" not in probe.labels and probe.labels["cars-1"] == probe.labels["cars-2"]  # 0 is excluded
    assert probe.sources == {}  # a document that is excluded alone has no siblings
    texts = {i: f"text {i}" for i in "abcd"}
    task = oblique_task(texts, {"q": "what"}, {"q": {"c": 1, "d": 1}}, {"q": {"b", "a"}}, task="writing")
    assert study_obliq._probe(oblique.judge(task, "mine")).sources == {"a": "a", "b": "a"}


# -- cells ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    fixed = ("global_batch=8", "epochs=0.1", "precision=fp32", "learning_rate=1e-3", "loss={name: mnrl, scale: 50.0}")
    path = tmp_path / "tiny.yaml"
    path.write_text(tiny("stance-bge-large", "data=data/sample-obliq-queries", *fixed).to_yaml(), encoding="utf-8")
    return path


def test_a_killed_study_has_said_what_it_knew_and_goes_on(
    tmp_path: Path, recipe: Path, grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "gate", lambda *_, **__: None)
    chosen = chosen_plans({"no-pairs", "replace"})
    made = cells(grid, chosen, str(recipe), 1, [])
    own: Tasks = {WRITING: oblique.judge(topical_task(), "sample")}
    others: Tasks = {"other-obliq-writing": oblique.judge(topical_task(3), "other")}
    out, train = tmp_path / "out", training.train
    trained: list[str] = []

    def dies(cell: Any, folder: Path) -> Path:
        if trained:
            raise KeyboardInterrupt
        trained.append(folder.name)
        return train(cell, folder)

    known: dict[str, Any] = {"documents": 96, "query_form": "description", "graphs": [], "found": []}
    run = functools.partial(study_obliq.run_study, made, own, others, out, **known)
    monkeypatch.setattr(training, "train", dies)
    with pytest.raises(KeyboardInterrupt):
        run()
    first = ObliqueStudyResults.read(out / RESULTS_NAME)
    assert [t.system for t in first.trainings] == ["no-pairs"] and first.planned == 2
    assert "Not finished: 1 of 2 trainings" in (out / "report.md").read_text(encoding="utf-8")

    monkeypatch.setattr(training, "train", train)
    adapter = (out / "runs" / "no-pairs-seed0" / "adapter_model.safetensors").stat().st_mtime_ns
    assert [p.name for p in run()] == ["systems.png"]
    results = ObliqueStudyResults.read(out / RESULTS_NAME)
    assert (out / "runs" / "no-pairs-seed0" / "adapter_model.safetensors").stat().st_mtime_ns == adapter
    assert [(t.system, t.rows) for t in results.trainings] == [("no-pairs", 468), ("replace", 660)]
    assert [run.system for run in results.tasks["other-obliq-writing"].runs if run.strategy == "dense"] == [
        ZERO_SHOT, "no-pairs",
    ]  # fmt: skip
    page = (out / "report.md").read_text(encoding="utf-8")
    assert "Not finished" not in page
    (pair,) = [p for p in results.tasks[WRITING].pairs if (p.system, p.against) == ("replace", "no-pairs")]
    found, base = (
        results.tasks[WRITING].dense(s).value("overall", "ndcg_at_10_gold") for s in ("replace", "no-pairs")
    )
    delta = pair.difference("overall", "ndcg_at_10_gold")
    assert found is not None and base is not None and delta is not None
    assert found.mean is not None and base.mean is not None
    assert delta.delta == pytest.approx(found.mean - base.mean) and delta.unit == "query group"
    assert results.tasks[WRITING].dense("replace").first[0] is not None


def test_the_two_lenses_are_trained_alike_and_held_against_each_other(
    tmp_path: Path, recipe: Path, grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "gate", lambda *_, **__: None)
    # At full length the instruction is all that the tiny model sees of a query.
    built = [asdict(row) | {"instruction": "Find:"} for row in read_oblique_rows(grid.queries())]
    sides = {
        "generic": [
            r | {"lens": "generic", "query": f"Which hides {r['query'][:9]}?", "generator": "m"} for r in built
        ],
        "matched": [r | {"generator": "m"} for r in built],
    }
    files = {name: tmp_path / f"{name}.jsonl" for name in sides}
    for name, kept in (("generic", slice(20, 60)), ("matched", slice(40))):
        files[name].write_text("".join(json.dumps(r) + "\n" for r in sides[name][kept]), encoding="utf-8")
    held = read_lenses(files["generic"], files["matched"])
    lenses = replace(grid, lenses=held.write(tmp_path / "data"))
    made = cells(lenses, [Plan(name, Pairs(dose=20)) for name in (MATCHED, GENERIC)], str(recipe), 1, ["epochs=0.5"])
    matched, generic = (cell.rows.triplets.to_list() for cell in made)
    assert [r["positive_id"] for r in matched] == [r["positive_id"] for r in generic]
    assert matched[20:] == generic[20:] and {r["lens"] for r in matched[20:]} == {"style"}
    assert [r["query"] for r in matched[:20]] == [r["query"] for r in built[20:40]]
    assert all(r["lens"] == "generic" and r["query"].startswith("Which hides") for r in generic[:20])

    own: Tasks = {WRITING: oblique.judge(topical_task(), "sample")}
    known: dict[str, Any] = {"documents": 96, "query_form": "description", "graphs": [], "found": []}
    study_obliq.run_study(made, own, {}, tmp_path / "out", lenses=held.facts, **known)
    results = ObliqueStudyResults.read(tmp_path / "out" / RESULTS_NAME)
    assert [(t.system, t.rows) for t in results.trainings] == [(MATCHED, 40), (GENERIC, 40)]
    assert results.trainings[0].adapter_sha256 != results.trainings[1].adapter_sha256
    assert results.lenses == held.facts and sum(held.facts.rows.values()) == 20
    pair = results.tasks[WRITING].pair(GENERIC, MATCHED)
    assert pair is not None and (delta := pair.difference("overall", "ndcg_at_10_gold")) is not None
    means = [results.tasks[WRITING].dense(s).slices["overall"]["ndcg_at_10_gold"].mean for s in (MATCHED, GENERIC)]
    assert delta.delta == pytest.approx(means[1] - means[0]) and delta.unit == "query group"
    page = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert f"| writing | {held.facts.rows.get('writing', 0)} | {means[0]:.3f} | {means[1]:.3f} | " in page
    assert "Written by: matched m, generic m." in page


# -- the report ----------------------------------------------------------------------------------------------------


def run_of(system: str, mean: float, first: tuple[int, float] = (15, 0.1)) -> StudyRun:
    spread = Spread(mean=mean, spread=0.01, std=0.2, n=15, seeds=[mean - 0.01, mean, mean + 0.01])
    found = FirstDocuments(distinct=first[0], largest_share=first[1])
    return StudyRun(
        system=system, strategy="dense", params={}, slices={"overall": {"ndcg_at_10_gold": spread}}, first=[found]
    )


def pair_of(system: str, against: str, delta: float, low: float, high: float) -> Pair:
    found = Comparison(
        baseline=against, slice="overall", metric="ndcg_at_10_gold", delta=delta, low=low, high=high, level=0.95,
        unit="query group", n_units=5, resamples=10_000, seed=0, p=0.01,
    )  # fmt: skip
    return Pair(system=system, against=against, compare=[found])


def made_study(**changes: Any) -> ObliqueStudyResults:
    scores = {ZERO_SHOT: 0.15, "no-pairs": 0.3, "pairs": 0.4, "random-graph": 0.2, "dose-96": 0.35, "k-1": 0.33}
    scores |= {"without-writing": 0.18}
    pairs = [
        pair_of("pairs", "no-pairs", 0.1, 0.02, 0.18),
        pair_of("random-graph", "no-pairs", -0.1, -0.2, 0.01),
        pair_of("without-writing", ZERO_SHOT, 0.03, -0.01, 0.07),
    ]
    runs = [run_of(s, v, (2, 0.8) if s == "random-graph" else (15, 0.1)) for s, v in scores.items()]
    counts = {"queries": 15, "groups": 5, "documents": 144, "task": "writing"}
    tasks = {
        f"sample-obliq-{task}": StudyTask(
            dataset="sample", revision="0" * 64, counts=counts, runs=runs, pairs=pairs if task == "writing" else []
        )
        for task in TASKS
    }
    known = {
        "recipe": "obliq-minilm", "base": "some/base", "base_revision": None, "quick": False, "split": "test",
        "seeds": [0, 1, 2], "systems": list(scores), "command": "python -m hub_models study obliq --out x",
        "environment": {}, "trainings": [], "tasks": tasks, "planned": 3, "documents": 96, "query_form": "description",
        "left_to_say": ["No generic lens."], "graphs": [], "direct": [],
    }  # fmt: skip
    return ObliqueStudyResults(**(known | changes))


def test_the_report_says_what_the_intervals_allow() -> None:
    page = report(made_study())
    assert "- The pairs on writing: lifted, +0.100 [+0.020, +0.180]." in page
    assert "- The random graph on writing: no clear difference, -0.100 [-0.200, +0.010]." in page
    assert "No generic lens." in page and "python -m hub_models study obliq --out x" in page
    assert "**Not finished: 0 of 3 trainings" in page
    worse = [pair_of("random-graph", "no-pairs", -0.1, -0.2, -0.01)]
    tasks = made_study().tasks
    tasks[WRITING] = tasks[WRITING].model_copy(update={"pairs": worse})
    assert "The random graph on writing: lowered" in report(made_study(tasks=tasks))


def test_the_tables_have_their_rows() -> None:
    page = report(made_study())
    lines = page.splitlines()
    assert "| pairs, k = 3, whole graph | 0.400 ± 0.010 | 0.390, 0.400, 0.410 |  | +0.100 [+0.020, +0.180] |" in lines
    doses = page.partition("## How many pairs")[2].partition("##")[0]
    assert [line.split(" |")[0] for line in doses.splitlines() if line.startswith("| ")][1:] == [
        "| no pairs", "| 96 pairs, k = 3", "| pairs, k = 3, whole graph",
    ]  # fmt: skip
    neighbours = page.partition("## How many neighbours")[2].partition("##")[0]
    assert "| pairs, k = 1 | 0.330 ± 0.010" in neighbours and "| 96 pairs, k = 3 | 0.350" in neighbours
    assert "| writing | 0.150 ± 0.010 | 0.180 ± 0.010 | 0.400 ± 0.010 | +0.030 [-0.010, +0.070] |  |" in lines
    assert f"| random graph | {' | '.join(['2.0 of 15, 80%'] * 5)} |" in lines


def lens_study(**changes: Any) -> ObliqueStudyResults:
    facts: dict[str, Any] = {
        "rows": {"writing": 90, "math": 1_200}, "matched_left_out": 6, "generic_left_out": 11,
        "matched_by": ["one"], "generic_by": ["one"], "authored": False,
    }  # fmt: skip
    runs = [run_of(MATCHED, 0.4), run_of(GENERIC, 0.3)]
    pairs = [pair_of(GENERIC, MATCHED, -0.1, -0.2, -0.02)]
    study = made_study(lenses=LensRows(**(facts | changes)), systems=[*made_study().systems, MATCHED, GENERIC])
    tasks = study.tasks
    tasks[WRITING] = tasks[WRITING].model_copy(update={"runs": [*tasks[WRITING].runs, *runs], "pairs": pairs})
    return study.model_copy(update={"tasks": tasks})


def test_the_lenses_have_a_section_with_their_rows_and_the_difference() -> None:
    section = report(lens_study()).partition("## Lens\n")[2].partition("\n## ")[0]
    assert "1,290 written queries of the same documents" in section
    assert "6 through the tasks' lenses, 11 generic." in section
    assert "| writing | 90 | 0.400 ± 0.010 | 0.300 ± 0.010 | -0.100 [-0.200, -0.020] |" in section
    assert "| twitter | 0 | n/a | n/a |  |" in section
    assert "## Lens" not in report(made_study())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "Written by: matched one, generic one."),
        (
            {"generic_by": ["a|b"]},
            "**The writer differs too**: matched by one, generic by a&#124;b, so the difference",
        ),
        ({"generic_by": []}, "Written by: matched one, generic nobody named."),
        (
            {"authored": True, "matched_by": ["authored"]},
            "**The writer differs too**: the matched rows are the sample's own (authored), the generic ones a "
            "language model's (one), so the difference is not the lens's alone.",
        ),
    ],
)
def test_who_wrote_the_queries_of_the_lenses_is_said(changes: dict[str, Any], words: str) -> None:
    page = report(lens_study(**changes))
    assert words in page and ("The writer differs too" in page) == words.startswith("**")


def test_the_published_teacher_rows_stand_beside_ours_and_are_those_of_the_paper(external: Path) -> None:
    paper = (external.parent / "papers" / "obliq-ir.md").read_text(encoding="utf-8")
    rows = teacher_graph()
    assert len(rows) == 8
    for row in rows:
        assert row.text == "".join(f"{v:.3f}".removeprefix("0") for v in row.cells.values()) and row.text in paper
    assert "| Random graph (random positives) | 0.159 | 0.140 | 0.001 | 0.000 | n/a |" in report(made_study())


def test_results_can_be_read_back_and_those_of_the_other_study_cannot(tmp_path: Path) -> None:
    made_study().write(tmp_path / RESULTS_NAME)
    assert ObliqueStudyResults.read(tmp_path / RESULTS_NAME) == made_study()
    own = {"planned", "documents", "query_form", "left_to_say", "graphs", "direct"}
    other = made_study().model_dump(mode="json", exclude=own)
    (tmp_path / "other.json").write_text(json.dumps(other, allow_nan=False), encoding="utf-8")
    with pytest.raises(ValueError, match=r"no results file of a study .*planned"):
        ObliqueStudyResults.read(tmp_path / "other.json")


@pytest.mark.parametrize("name", ["", "as-it-stands"])
def test_the_committed_report_is_that_of_the_committed_results(name: str) -> None:
    folder = Path(__file__).parents[3] / "results" / "oblique-study" / name
    figures = [f"figures/{p.name}" for p in sorted((folder / "figures").glob("*.png"), reverse=True)]
    page = report(ObliqueStudyResults.read(folder / RESULTS_NAME), figures)
    assert (folder / "report.md").read_text(encoding="utf-8") == page


def test_tasks_of_another_split_are_found_by_their_own_names() -> None:
    tasks = {f"{name}:validation": task for name, task in made_study().tasks.items()}
    study = made_study(tasks=tasks, split="validation")
    assert list(study.of_sample()) == list(TASKS)
    assert "lifted, +0.100" in report(study)


def test_the_curves_are_those_of_the_sweeps(tmp_path: Path) -> None:
    paths = draw(made_study(), tmp_path)
    assert [p.name for p in paths] == ["systems.png", "dose-and-neighbours.png"]
    assert "](figures/dose-and-neighbours.png)" in (tmp_path / "report.md").read_text(encoding="utf-8")
    figure = curves(made_study())
    assert figure is not None
    writing = figure.axes[0].lines[0]
    assert np.asarray(writing.get_xdata()).tolist() == [0, 96, 288]  # no pairs, an edge a document, the whole graph
    assert np.asarray(writing.get_ydata()).tolist() == pytest.approx([0.3, 0.35, 0.4])
    assert curves(made_study(systems=[ZERO_SHOT, "no-pairs", "pairs"])) is None


# -- what is wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--evaluate", "inaugural"], "got the evaluation set 'inaugural', wanted SOURCE=PATH"),
        (["--evaluate", "inaugural=absent"], "no such file"),
        (["--recipe", "obliq-minilim"], "neither a file nor one of"),
        (["--set", "learning_rat=1"], "unknown key 'learning_rat'"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_trained(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = CliRunner().invoke(app, ["study", "obliq", "--quick", "--out", str(tmp_path / "out"), *arguments])
    assert done.exit_code == 1 and words in " ".join(done.output.split())
    assert not (tmp_path / "out" / "runs").exists()


def test_the_results_of_another_study_are_not_written_over(tmp_path: Path) -> None:
    (tmp_path / RESULTS_NAME).write_text("{}", encoding="utf-8")
    done = CliRunner().invoke(app, ["study", "obliq", "--quick", "--out", str(tmp_path)])
    assert done.exit_code == 1 and "no study's results" in " ".join(done.output.split())


@pytest.mark.parametrize("name", ["stylometric.npy", "Base.npy"])
def test_a_specialist_is_not_called_like_one_of_the_studys_own(tmp_path: Path, name: str) -> None:
    np.save(tmp_path / name, np.ones((96, 4), np.float32))
    asked = ["study", "obliq", "--specialist", str(tmp_path / name), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, asked)
    said = f"got a specialist called '{name[:-4].lower()}', which the study has itself"
    assert done.exit_code == 1 and said in " ".join(done.output.split())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["--specialist", "--generic"])
def test_the_quick_study_takes_nothing_that_it_leaves_out(tmp_path: Path, option: str) -> None:
    np.save(tmp_path / "luar.npy", np.ones((96, 4), np.float32))
    asked = ["study", "obliq", "--quick", option, str(tmp_path / "luar.npy"), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 1 and "got --quick with --specialist or --generic" in " ".join(done.output.split())
    assert not (tmp_path / "out").exists()
