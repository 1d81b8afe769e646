"""What both pages say of the oblique study is what its results, and those on other corpora, say."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataset_builders.sources.obliq_bench import TASKS
from hub_models.evaluation.diagnostics import Table, contrast, describe
from hub_models.evaluation.oblique_metrics import MAIN
from hub_models.evaluation.results import RESULTS_NAME, Results, TaskResult, read_per_query
from hub_models.evaluation.study_obliq_results import ObliqueStudyResults
from hub_models.evaluation.study_text import difference_text, spread_text

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "results" / "oblique-study"
README, PAGE = (
    " ".join((ROOT / name).read_text(encoding="utf-8").split()) for name in ("README.md", "results/README.md")
)
STUDY = ObliqueStudyResults.read(FOLDER / RESULTS_NAME)
CORPORA = ("inaugural", "theoremqa")


def value(task: str, system: str) -> str:
    return spread_text(STUDY.of_sample()[task].dense(system).value("overall", MAIN))


def difference(task: str, system: str, against: str) -> str:
    return difference_text(STUDY.of_sample()[task].pair(system, against).difference("overall", MAIN))


def transferred(model: str, corpus: str) -> tuple[TaskResult, Table]:
    folder = FOLDER / "transfer" / f"{model}-{corpus}"
    (task,) = Results.read(folder / RESULTS_NAME).tasks.values()
    table = read_per_query(folder, task.run("dense", {}).per_query)
    return task, {name: table.column(name).to_numpy() for name in table.column_names}


def interval(found: dict[str, float], sign: str = "") -> str:
    return f"[{found['low']:{sign}.3f}, {found['high']:{sign}.3f}]"


def test_the_main_question() -> None:
    assert f"{len(STUDY.trainings)} of {STUDY.planned} trainings are done" in PAGE
    counts = STUDY.of_sample()["writing"].counts
    assert (counts["queries"], counts["groups"], counts["documents"]) == (15, 5, 144)
    rows = {"no pairs": "no-pairs", "with pairs": "pairs", "with a random graph": "random-graph"}
    assert f"| MiniLM, not trained | | {value('writing', 'zero-shot')} | | |" in PAGE
    for label, system in rows.items():
        against = difference("writing", system, "no-pairs") if system != "no-pairs" else ""
        row = (
            f"| {label} | 3 | {value('writing', system)} | {difference('writing', system, 'zero-shot')} | {against} |"
        )
        assert " ".join(row.split()) in PAGE
    congress = value("congress", "pairs"), value("congress", "no-pairs"), difference("congress", "pairs", "no-pairs")
    assert "({}, {} without: {})".format(*congress) in PAGE
    for task in ("twitter", "math", "wildchat"):
        assert f"{task} {difference(task, 'pairs', 'no-pairs')}" in PAGE


def test_doses_neighbours_and_the_other_graphs() -> None:
    doses = {"none": "no-pairs", "48": "dose-48", "96": "dose-96", "192": "dose-192", "288, the whole graph": "pairs"}
    for label, system in {**doses, "288, in place of the written queries": "replace"}.items():
        gain = difference("writing", system, "no-pairs") if system != "no-pairs" else ""
        row = f"| {label} | {value('writing', system)} | {gain} | {value('congress', system)} |"
        assert " ".join(row.split()) in PAGE
    for k, system in {"1": "k-1", "3": "dose-96", "5": "k-5", "10": "k-10"}.items():
        row = f"| {k} | {value('writing', system)} | {difference('writing', system, 'no-pairs')} |"
        assert f"{row} {value('congress', system)} |" in PAGE
    for task, rises in (("writing", True), ("congress", False)):
        means = [STUDY.of_sample()[task].dense(system).value("overall", MAIN).mean for system in doses.values()]
        assert means == sorted(means, reverse=not rises)
    for system, words in (("by-base", "on writing (seed 0), "), ("described", "")):
        said = f"{value('writing', system)}{' ' if words else ', '}{words}{difference('writing', system, 'no-pairs')}"
        assert f"give {said} against no pairs" in PAGE


@pytest.mark.parametrize(
    ("file", "row"),
    [
        ("as-it-stands/results.json", "test, as it stands"),
        ("validation/as-it-stands.json", "validation, as it stands"),
        ("validation/passages.json", "validation, passages at 5e-4"),
    ],
)
def test_the_recipe_as_it_stands(file: str, row: str) -> None:
    study = ObliqueStudyResults.read(FOLDER / file)
    assert study.quick and study.split == row.split(",")[0] and study.seeds == [0]
    found = study.of_sample()["writing"]
    base, *cells = (
        spread_text(found.dense(system).value("overall", MAIN)) if system in study.systems else ""
        for system in ("zero-shot", "no-pairs", "pairs", "random-graph")
    )
    cells.insert(2, difference_text(found.pair("pairs", "no-pairs").difference("overall", MAIN)))
    assert " ".join(f"| {row}; base {base} | {' | '.join(cells)} |".split()) in PAGE
    if row.startswith("test"):
        assert f"({cells[0]} without pairs, {cells[1]} with them, seed 0)" in README


def test_tasks_left_out() -> None:
    for task in TASKS:
        differences = [difference(task, f"without-{task}", other) for other in ("zero-shot", "pairs")]
        cells = [value(task, "zero-shot"), value(task, f"without-{task}"), *differences]
        assert f"| {task} | {' | '.join(cells)} |" in PAGE


def test_the_specialist() -> None:
    (direct,) = STUDY.direct
    assert f"{direct.metrics[MAIN]:.3f} [{direct.low:.3f}, {direct.high:.3f}] on writing" in PAGE
    rows = {(graph.specialist, graph.documents): graph for graph in STUDY.graphs if graph.k == 3}
    assert len(rows) == 3
    purity = [g.rate for g in STUDY.graphs if (g.specialist, g.documents) == ("stylometric", "training documents")]
    assert f"Purity of the graph falls with k: {', '.join(f'{rate:.3f}' for rate in purity)}." in PAGE
    for graph in rows.values():
        assert f"{graph.rate:.3f} [{graph.low:.3f}, {graph.high:.3f}], {graph.lift:.1f} times" in PAGE


def test_other_corpora() -> None:
    found = {(m, c): transferred(m, c) for m in ("base", "no-pairs", "pairs") for c in CORPORA}
    for corpus in CORPORA:
        counts = found["base", corpus][0].counts
        assert f"({counts['queries']} queries, {counts['groups']} groups, {counts['documents']} documents)" in PAGE
    for label, model in (("MiniLM, not trained", "base"), ("no pairs", "no-pairs"), ("with pairs", "pairs")):
        runs = [describe(found[model, corpus][1], MAIN) for corpus in CORPORA]
        cells = [f"{r['mean']:.3f} {interval(r['interval'])}" for r in runs]
        assert f"| {label} | {' | '.join(cells)} |" in PAGE
        assert [r["mean"] for r in runs] == pytest.approx(
            [found[model, corpus][0].run("dense", {}).mean("overall", MAIN) for corpus in CORPORA], abs=1e-9
        )
    for label, model, other in (
        ("no pairs − MiniLM", "no-pairs", "base"),
        ("pairs − MiniLM", "pairs", "base"),
        ("pairs − no pairs", "pairs", "no-pairs"),
    ):
        runs = [contrast(found[model, corpus][1], found[other, corpus][1], MAIN) for corpus in CORPORA]
        cells = [f"{r['delta']:+.3f} {interval(r['interval'], '+')}" for r in runs]
        assert f"| {label} | {' | '.join(cells)} |" in PAGE


def test_the_readme() -> None:
    found = STUDY.of_sample()["writing"]
    means = [found.dense(system).value("overall", MAIN).mean for system in ("no-pairs", "pairs")]
    gain = found.pair("pairs", "no-pairs").difference("overall", MAIN)
    assert "from {:.3f} to {:.3f} over three seeds".format(*means) in README
    assert f"(+{gain.delta:.3f}; 15 queries of five authors" in README
    assert f"the interval by author, {gain.low:.3f} to {gain.high:.3f}," in README
    cost = STUDY.of_sample()["congress"].pair("pairs", "no-pairs").difference("overall", MAIN)
    assert f"congress ({cost.delta:.3f} against no pairs)" in README
    theorems = [
        transferred(m, "theoremqa")[0].run("dense", {}).mean("overall", MAIN) for m in ("base", "no-pairs", "pairs")
    ]
    assert "TheoremQA ({:.3f} untrained, {:.3f} without pairs, {:.3f} with them".format(*theorems) in README
