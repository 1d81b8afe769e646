"""A study on a tiny model: cells that resume, equal budgets, numbers over seeds, the report."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from hub_models import training
from hub_models.__main__ import app
from hub_models.evaluation import study, study_cells, study_figures
from hub_models.evaluation.named_tasks import load_tasks
from hub_models.evaluation.published import stance_rows
from hub_models.evaluation.results import RESULTS_NAME, Comparison, Metric, Results
from hub_models.evaluation.stance_table import COMPARED
from hub_models.evaluation.study_report import report, retrieval_table
from hub_models.evaluation.study_results import (
    ZERO_SHOT,
    Pair,
    Spread,
    StudyResults,
    StudyRun,
    StudyTask,
    Training,
    mean_table,
)
from tests.tiny import tiny

TOPICS = [
    "cars in cities",
    "school uniforms",
    "nuclear power",
    "homework",
    "zoos",
    "tea",
    "night trains",
    "lawns",
    "fireworks",
]


def claims(folder: Path) -> Path:
    """Six claims to train on, two to ask about and one for validation, in short form."""
    rows = [
        {
            "claim": f"We should ban {topic}.",
            "split": "train" if i < 6 else "test" if i < 8 else "validation",
            "support": [f"The claim is true because {topic} are a burden.", f"There is little good in {topic}."],
            "attack": [f"The claim is false because {topic} help.", f"Many people depend on {topic}."],
        }
        for i, topic in enumerate(TOPICS)
    ]
    path = folder / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A tiny recipe that takes a few steps."""
    data = claims(tmp_path)
    fixed = ("global_batch=4", "accumulation=1", "epochs=1", "data.0.dose=8", "precision=fp32", "learning_rate=1e-3")
    path = tmp_path / "tiny.yaml"
    path.write_text(tiny("stance-bge-large", f"data={data}", *fixed).to_yaml(), encoding="utf-8")
    return path


@pytest.fixture
def ungated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the fresh process in which a release is loaded."""
    monkeypatch.setattr(training, "gate", lambda *_, **__: None)


# -- numbers over seeds --------------------------------------------------------------------------------------------


def test_mean_and_spread_over_seeds_by_hand() -> None:
    found = Spread.over([Metric(mean=m, std=s, n=20) for m, s in ((0.1, 0.3), (0.2, 0.5), (0.6, 0.4))])
    assert found.mean == pytest.approx(0.3) and found.seeds == [0.1, 0.2, 0.6] and found.n == 20
    assert found.spread == pytest.approx((0.14 / 2) ** 0.5)  # .04 + .01 + .09 over n - 1
    assert found.std == pytest.approx(0.4)  # over queries: the mean of the seeds'


def test_one_seed_has_no_spread_and_a_seed_without_a_value_leaves_none() -> None:
    one = Spread.over([Metric(mean=0.5, std=0.1, n=3)])
    assert (one.mean, one.spread) == (0.5, None)
    gap = Spread.over([Metric(mean=0.5, std=0.1, n=3), Metric(mean=None, std=None, n=0, reason="none")])
    assert (gap.mean, gap.spread, gap.seeds) == (None, None, [0.5, None])


def test_queries_are_averaged_over_seeds_by_their_ids_and_not_by_their_places() -> None:
    def table(ids: list[str], values: list[float]) -> dict[str, Any]:
        metrics = {m: np.array(values) for m in COMPARED}
        return {"query_id": np.array(ids), "candidates": np.array(["all"] * 2), **metrics}

    found = mean_table([table(["a", "b"], [0.0, 1.0]), table(["b", "a"], [0.5, 0.2])])
    assert found["query_id"].tolist() == ["a", "b"]
    assert found["precision_at_r"] == pytest.approx([0.1, 0.75])
    with pytest.raises(ValueError, match="another seed answered 2 queries, this run 2, of which 1 are the same"):
        mean_table([table(["a", "b"], [0, 1]), table(["a", "c"], [0, 1])])


# -- the report ----------------------------------------------------------------------------------------------------


def spread(mean: float, spread: float | None = None) -> Spread:
    return Spread(mean=mean, spread=spread, std=0.25, n=10, seeds=[mean])


def run(system: str, precision: float, hard: float, strategy: str = "dense", **params: Any) -> StudyRun:
    metrics = {
        "ndcg_at_10": spread(0.5), "precision_at_r": spread(precision, 0.004), "hard_at_r": spread(hard),
        "semi_hard_at_r": spread(1 - precision - hard), "easy_at_r": spread(0.0),
        "stance_oracle_precision_at_r": spread(0.7), "topic_precision_at_r": spread(0.6),
        "precision_at_r_cap10": spread(precision), "hard_at_r_cap10": spread(hard),
        "semi_hard_at_r_cap10": spread(1 - precision - hard), "easy_at_r_cap10": spread(0.0),
    }  # fmt: skip
    slices = {name: dict(metrics) for name in ("overall", "support", "attack")}
    return StudyRun(system=system, strategy=strategy, params=params, slices=slices)  # type: ignore[arg-type]


def difference(metric: str, delta: float, low: float, high: float, against: str) -> Comparison:
    return Comparison(
        baseline=against, slice="overall", metric=metric, delta=delta, low=low, high=high, level=0.95, unit="claim",
        n_units=9, resamples=100, seed=0, p=0.5,
    )  # fmt: skip


def made_study(lexical: str = "slant", **changes: Any) -> StudyResults:
    pairs = [
        Pair(system="homogeneous", against=ZERO_SHOT,
             compare=[difference("semi_hard_at_r", 0.2, 0.15, 0.25, ZERO_SHOT)]),
        Pair(system="mixed_aug", against="homogeneous",
             compare=[difference("semi_hard_at_r", -0.03, -0.05, -0.01, "homogeneous"),
                      difference("hard_at_r", 0.01, -0.01, 0.03, "homogeneous")]),
    ]  # fmt: skip
    task = StudyTask(
        dataset="sample",
        revision="0" * 64,
        counts={"split": "test", "claims": 9, "queries": 90, "documents": 40, "left_out": {}, "style": {}},
        runs=[
            run(ZERO_SHOT, 0.4, 0.324), run("homogeneous", 0.597, 0.025), run("mixed_aug", 0.6, 0.044),
            run("mixed_aug", 0.6, 0.05, "hybrid", weight=0.1, lexical=lexical),
            run("mixed_aug", 0.61, 0.06, "hybrid", weight=0.2, lexical=lexical),
            run(ZERO_SHOT, 0.3, 0.3, "claim_only"), run("mixed_aug", 0.3, 0.3, "claim_only"),
        ],
        pairs=pairs,
    )  # fmt: skip
    fields: dict[str, Any] = {
        "recipe": "stance-minilm", "base": "org/base", "base_revision": None, "quick": False, "split": "test",
        "seeds": [0, 1, 2], "systems": [ZERO_SHOT, "homogeneous", "mixed_aug"], "command": "python -m …",
        "environment": {}, "tasks": {"sample-stance": task},
        "trainings": [Training(system="mixed_aug", seed=0, overrides=["a=b"], rows=1600, steps=100, tokens=12345,
                               train_loss=1.5, adapter_sha256="0" * 64)],
    }  # fmt: skip
    return StudyResults(**{**fields, **changes})


def test_the_best_of_a_column_is_bold_and_the_best_of_its_group_underlined() -> None:
    lines = list(retrieval_table(made_study().tasks["sample-stance"]))
    overall = {line.split(" | ")[0].strip("| "): line.split(" | ")[2:] for line in lines if "| overall |" in line}
    p, hard = ({name: cells[i] for name, cells in overall.items()} for i in (1, 2))
    assert p == {
        "Zero-Shot": "0.400 ± 0.004",
        "Homogeneous": "0.597 ± 0.004",
        "Mixed + Aug": "<ins>0.600 ± 0.004</ins>",
        "Mixed + Aug, hybrid (λ = 0.1, lexical = slant)": "0.600 ± 0.004",
        "Mixed + Aug, hybrid (λ = 0.2, lexical = slant)": "**0.610 ± 0.004**",
    }
    assert hard == {  # the lower the better
        "Zero-Shot": "0.324",
        "Homogeneous": "**0.025**",
        "Mixed + Aug": "0.044",
        "Mixed + Aug, hybrid (λ = 0.1, lexical = slant)": "<ins>0.050</ins>",
        "Mixed + Aug, hybrid (λ = 0.2, lexical = slant)": "0.060",
    }
    assert sum("**0.500**" in line for line in lines) == 15  # what is equal in print is equally good


def test_the_report_says_what_the_figures_say() -> None:
    page = report(made_study())
    assert "Of what the base finds first, 32.4% is on the claim and of the wrong stance" in page
    assert "by +0.200 [+0.150, +0.250]: more of it, as S reports" in page
    assert "semi-hard -0.030 [-0.050, -0.010] (better), hard +0.010 [-0.010, +0.030] (no clear difference)" in page
    assert "quick" not in page
    assert "**A quick study, of 100 steps and one seed" in report(made_study(quick=True))


def test_what_was_left_out_is_counted_where_something_was() -> None:
    study = made_study()
    (task,) = of_averitec(study).values()
    out = "Left out: 3 (claim, stance) pairs without a single right document."
    whole = "Left whole, being a single word: 40 instructions and 5 claims."
    page = report(study.model_copy(update={"tasks": {"x": task}}))
    assert "Left" not in page and "Word ablation" in page
    counts = task.counts | {"left_out": {"support": 1, "attack": 2}}
    task = task.model_copy(update={"counts": counts, "skipped": {"instruction": 40, "claim": 5}})
    lines = report(study.model_copy(update={"tasks": {"x": task}})).splitlines()
    assert f"9 claims of the split test, 90 queries, corpus of 40 arguments. {out}" in lines
    assert lines[lines.index(whole) - 2].startswith("| Mixed + Aug |")  # below the ablation's table


def beside(study: StudyResults) -> list[list[str]]:
    """The cells of the lines below the words that set the published numbers beside ours."""
    rest = report(study).partition("cut at min(R, 10)")[2]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in rest.splitlines() if line[:1] == "|"]


def of_averitec(study: StudyResults) -> dict[str, StudyTask]:
    """The study's one set, as if it were the corpus of S tables 17-19 and 25, ablated and with a reranked run."""
    (task,) = study.tasks.values()
    runs = [*task.runs, run(ZERO_SHOT, 0.41, 0.3, "rerank", policy="cross-encoder:ce")]
    ablated = {"ris": spread(0.3), "rcs": spread(0.7), "di_positive": spread(-0.1, 0.02), "di_hard": spread(0.2)}
    runs = [r.model_copy(update={"slices": {**r.slices, "overall": r.slices["overall"] | ablated}}) for r in runs]
    return {"averitec-stance": task.model_copy(update={"dataset": "averitec", "runs": runs})}


def test_the_published_numbers_stand_beside_ours() -> None:
    study = made_study("s")
    page = report(study.model_copy(update={"base": "hkunlp/instructor-xl", "tasks": of_averitec(study)}))
    assert "Beside S tables 18, 25, cut at min(R, 10):" in page and "--lexical s" not in page
    lines = beside(study.model_copy(update={"base": "hkunlp/instructor-xl", "tasks": of_averitec(study)}))
    theirs = {
        (r.table, r.system, r.slice): [f"{c.mean:.3f}" for c in r.cells.values()]
        for r in stance_rows()
        if (r.corpus, r.base) == ("averitec", "hkunlp/instructor-xl")
    }
    for stance in ("attack", "support", "overall"):
        for system, ours, wanted in [
            ("Zero-Shot", "Zero-Shot", "0.500 0.400 0.324 0.276 0.000"),
            ("Mixed + Aug", "Mixed + Aug", "0.500 0.600 0.044 0.356 0.000"),
            ("Hybrid λ=0.20", "Mixed + Aug, hybrid (λ = 0.2, lexical = s)", "0.500 0.610 0.060 0.330 0.000"),
        ]:
            at = lines.index([ours, stance, "here", *wanted.split()])
            assert lines[at + 1] == ["", "", "S, instructor-xl", *theirs["18", system, stance]]
    ablated = [line for line in lines if line[2:] == ["here", "0.300", "0.700", "-0.100 ± 0.020", "0.200"]]
    assert [line[:2] for line in ablated] == [[s, "overall"] for s in ("Zero-Shot", "Homogeneous", "Mixed + Aug")]
    assert lines[lines.index(ablated[0]) + 1] == ["", "", "S, instructor-xl", *theirs["25", "Zero-Shot", "overall"]]
    assert not any("rerank" in line[0] for line in lines)  # which S did with another base


def test_a_reranked_run_stands_beside_the_reranked_row() -> None:
    base, study = "Qwen/Qwen3-Embedding-8B", made_study()
    (row,) = [r for r in stance_rows() if (r.system, r.slice) == ("Zero-Shot + Reranker", "overall")]
    tasks = {"x-stance": of_averitec(study)["averitec-stance"].model_copy(update={"dataset": row.corpus})}
    lines = beside(study.model_copy(update={"base": base, "tasks": tasks}))
    name = "Zero-Shot, rerank (policy = cross-encoder:ce)"
    at = lines.index([name, "overall", "here", "0.500", "0.410", "0.300", "0.290", "0.000"])
    assert lines[at + 1] == ["", "", "S, Qwen3-Embedding-8B", *(f"{c.mean:.3f}" for c in row.cells.values())]


def test_another_base_or_set_gets_the_papers_for_orientation_and_our_own_words_no_hybrid_row() -> None:
    page = report(made_study())
    assert "S did not measure this base on these claims." in page and "(tables 2, 3, 4, 20)" in page
    assert "S's hybrid rows stand beside runs of `--lexical s` alone" in page
    lines = beside(made_study())
    assert not any("hybrid" in line[0] for line in lines)
    assert [line[2] for line in lines[2:6]] == [
        "here", "S, bge-large-en-v1.5", "S, instructor-xl", "S, Qwen3-Embedding-8B",
    ]  # fmt: skip
    assert lines[3][3:] == ["0.609", "0.419", "0.381", "0.112", "0.087"]  # S table 2
    assert {line[1] for line in lines if line[2:3] == ["here"]} == {"overall"}
    assert any("hybrid (λ = 0.1, lexical = s)" in line[0] for line in beside(made_study("s")))


def test_each_bm25_has_a_line_of_its_own_in_the_figure() -> None:
    study, other = (made_study(words).tasks["sample-stance"] for words in ("slant", "s"))
    both = study.model_copy(update={"runs": [*study.runs, *(r for r in other.runs if r.strategy == "hybrid")]})
    figure = study_figures.hybrid(made_study(tasks={"sample-stance": both}))
    assert figure is not None
    lines = {str(line.get_label()): line for line in figure.axes[0].get_lines()}  # of P@R
    assert list(lines) == ["Mixed + Aug, slant", "Mixed + Aug, s"]
    assert all(list(line.get_xdata()) == [0.0, 0.1, 0.2] for line in lines.values())
    assert study_figures.hybrid(made_study(tasks={"x": study.model_copy(update={"runs": study.runs[:3]})})) is None


def test_a_study_can_be_read_back_and_another_file_cannot(tmp_path: Path) -> None:
    made_study().write(tmp_path / "results.json")
    assert StudyResults.read(tmp_path / "results.json") == made_study()
    (tmp_path / "results.json").write_text('{"schema_version": 2}')
    with pytest.raises(ValueError, match=r"no results file of a study .*schema_version.*run the study anew"):
        StudyResults.read(tmp_path / "results.json")


# -- what is trained -----------------------------------------------------------------------------------------------


def test_a_system_is_a_curriculum_or_any_overrides() -> None:
    ours = "ours: data.0.config=mixed 'query_template={instruction} {claim}'"
    found = study.parse_systems("homogeneous, mixed", [ours])
    assert [s.name for s in found] == ["homogeneous", "mixed", "ours"]
    assert found[0].overrides == ("data.0.config=homogeneous",)
    assert found[2].overrides == ("data.0.config=mixed", "query_template={instruction} {claim}")
    for wrong in (["mixed: a=b"], ["zero-shot: a=b"], ["../up: a=b"]):
        with pytest.raises(ValueError, match="wanted names of their own"):
            study.parse_systems("mixed", wrong)
    for bare in ("ours", "ours:", "ours:  "):
        with pytest.raises(ValueError, match=f"got --also '{bare}' without overrides, wanted 'NAME: KEY=VALUE"):
            study.parse_systems("mixed", [bare])
    with pytest.raises(ValueError, match="wanted one at least"):
        study.parse_systems("")


def test_all_get_the_same_rows_unless_a_system_says_otherwise(recipe: Path) -> None:
    systems = study.parse_systems("homogeneous,mixed", ["less: data.0.config=mixed data.0.dose=4"])
    cells = study.plan_cells(str(recipe), systems, seeds=2)
    assert [c.name for c in cells] == [f"{s}-seed{n}" for n in (0, 1) for s in ("homogeneous", "mixed", "less")]
    assert [len(c.rows.triplets) for c in cells[:3]] == [8, 8, 4]
    whole = study.plan_cells(str(recipe), systems[:2], seeds=1, overrides=["data.0.dose=null"])
    assert len(whole[0].rows.triplets) == len(whole[1].rows.triplets) > 8
    with pytest.raises(ValueError, match=r"its claims give .*wanted .'mixed_aug'"):
        study.plan_cells(str(recipe), study.parse_systems("mixed_aug"), seeds=1)


def test_quick_is_one_hundred_steps(recipe: Path) -> None:
    (cell,) = study.plan_cells(str(recipe), study.parse_systems("mixed"), seeds=1, quick=True, overrides=["epochs=3"])
    assert cell.recipe.epochs == 1
    assert len(cell.rows.triplets) == min(400, cell.rows.parts[0].rows)


def test_tokens_are_counted_without_padding_and_for_each_epoch(recipe: Path) -> None:
    (cell,) = study.plan_cells(str(recipe), study.parse_systems("mixed"), seeds=1)
    once = study_cells.count_tokens(cell.recipe, cell.rows)
    assert study_cells.count_tokens(cell.recipe.model_copy(update={"epochs": 2.0}), cell.rows) == 2 * once
    short = cell.recipe.model_copy(update={"max_seq_length": 4})
    assert study_cells.count_tokens(short, cell.rows) == 4 * 3 * 8  # 8 rows of three texts, all longer than that


# -- cells ---------------------------------------------------------------------------------------------------------


def snapshot(out: Path) -> dict[str, tuple[int, str]]:
    """Time and hash of every file of the cells that are there."""
    files = [p for part in ("runs", "cells") for p in (out / part).rglob("*") if p.is_file()]
    return {str(p): (p.stat().st_mtime_ns, hashlib.sha256(p.read_bytes()).hexdigest()) for p in files}


@pytest.mark.usefixtures("ungated")
def test_a_killed_study_goes_on_and_repeats_nothing(
    tmp_path: Path, recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = study.plan_cells(str(recipe), study.parse_systems("homogeneous,mixed"), seeds=1)
    tasks = load_tasks(["mine-stance"], tmp_path / "mine.jsonl", "test")
    out, train = tmp_path / "out", training.train
    trained: list[str] = []

    def dies(made: Any, folder: Path) -> Path:
        if trained:
            raise KeyboardInterrupt  # as Ctrl-C does, between two cells
        trained.append(folder.name)
        return train(made, folder)

    monkeypatch.setattr(training, "train", dies)
    with pytest.raises(KeyboardInterrupt):
        study.run_study(cells, tasks, out)
    assert trained == ["homogeneous-seed0"] and not (out / RESULTS_NAME).exists()
    before = snapshot(out)
    assert any("cells/homogeneous-seed0" in name for name in before)

    monkeypatch.setattr(training, "train", train)
    results = study.run_study(cells, tasks, out)
    after = snapshot(out)
    runs = [name for name in before if "/runs/" in name and ".lock" not in name]
    assert runs and all(after[name] == before[name] for name in runs)
    per_query = [name for name in before if "per_query" in name]
    assert per_query and all(after[name][0] == before[name][0] for name in per_query)

    assert results.systems == [ZERO_SHOT, "homogeneous", "mixed"]
    assert [(t.system, t.rows) for t in results.trainings] == [("homogeneous", 8), ("mixed", 8)]
    task = results.tasks["mine-stance"]
    cell = Results.read(out / "cells" / "mixed-seed0" / RESULTS_NAME).tasks["mine-stance"].run("dense")
    found = task.dense("mixed").value("overall", "precision_at_r")
    assert cell is not None and found is not None
    assert (found.mean, found.spread) == (cell.mean("overall", "precision_at_r"), None)
    assert [(p.system, p.against) for p in task.pairs] == [
        ("homogeneous", ZERO_SHOT), ("mixed", ZERO_SHOT), ("mixed", "homogeneous"),
    ]  # fmt: skip
    delta = task.pairs[1].difference("overall", "precision_at_r")
    base = task.dense(ZERO_SHOT).value("overall", "precision_at_r")
    assert delta is not None and base is not None and base.mean is not None and found.mean is not None
    assert delta.delta == pytest.approx(found.mean - base.mean)
    assert StudyResults.read(out / RESULTS_NAME) == results


def test_the_sets_are_those_at_hand_the_sources_own_and_those_named(tmp_path: Path) -> None:
    data = claims(tmp_path)
    assert list(study.sets_at_hand(None, None, [], "test")) == ["sample-stance"]
    found = study.sets_at_hand("mine", data, [f"other={data}"], "validation")
    assert list(found) == ["sample-stance:validation", "mine-stance:validation", "other-stance:validation"]


@pytest.mark.usefixtures("ungated")
def test_the_command_writes_the_report_and_the_figures(
    tmp_path: Path, recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_word = {"claim": "Unfair!", "split": "test", "support": ["The claim is true because rules are."], "attack": []}
    with (tmp_path / "mine.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(one_word) + "\n")
    own = {"mine-stance": load_tasks(["mine-stance"], tmp_path / "mine.jsonl", "test")["mine-stance"]}
    monkeypatch.setattr(study, "sets_at_hand", lambda *_: own)  # the sample takes long
    out = tmp_path / "out"
    arguments = ["study", "stance", "--recipe", str(recipe), "--curricula", "mixed", "--seeds", "1", "--out", str(out)]
    arguments += ["--source", "mine", "--data", str(tmp_path / "mine.jsonl"), "--hybrid", "0.2", "--lexical", "s"]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    page = (out / "report.md").read_text(encoding="utf-8")
    assert "## mine-stance" in page and "DI (hard negative)" in page and "hybrid (λ = 0.2, lexical = s)" in page
    assert "Left out: 1 (claim, stance) pairs" in page and "being a single word: 10 claims." in page
    for name in (
        "composition",
        "trade-off",
        "hybrid",
        "mine-stance-ablation-direction",
        "mine-stance-ablation-sensitivity",
    ):
        assert f"](figures/{name}.png)" in page and (out / "figures" / f"{name}.svg").is_file()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--source", "mine"], "got --source mine without data"),
        (["--data", "."], "without its name, wanted --source NAME"),
        (["--evaluate", "mine"], "got the evaluation set 'mine', wanted SOURCE=PATH"),
        (["--hybrid", "1.5"], "--hybrid: got '1.5', wanted numbers from 0 to 1"),
        (["--also", "ours"], "got --also 'ours' without overrides"),
        (["--hybrid", "auto"], "'auto' is fitted model by model"),
        (["--recipe", "stance-minlm"], "neither a file nor one of"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_trained(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = CliRunner().invoke(app, ["study", "stance", "--out", str(tmp_path / "out"), *arguments])
    assert done.exit_code == 1 and words in done.output
    assert not (tmp_path / "out" / "runs").exists()


@pytest.mark.parametrize("content", ["{}", "no JSON", '{"schema_version": 1, "model": {}, "tasks": {}}'])
def test_a_file_that_is_no_study_is_not_written_over(tmp_path: Path, content: str) -> None:
    (tmp_path / "results.json").write_text(content)
    done = CliRunner().invoke(app, ["study", "stance", "--out", str(tmp_path), "--quick"])
    assert done.exit_code == 1 and "got a file that is no study's results" in done.output
    assert [p.name for p in tmp_path.iterdir()] == ["results.json"]
    assert (tmp_path / "results.json").read_text() == content
    made_study().write(tmp_path / "results.json")
    study_cells.check_own(tmp_path / "results.json")  # a study that was killed goes on
    study_cells.check_own(tmp_path / "none.json")


def test_another_commit_of_the_base_than_the_recipe_pins_is_no_baseline(tmp_path: Path, recipe: Path) -> None:
    (cell,) = study.plan_cells(str(recipe), study.parse_systems("mixed"), seeds=1)
    other = study_cells.Cell(cell.system, cell.recipe.model_copy(update={"base_revision": "2" * 40}), cell.rows)
    tasks = load_tasks(["mine-stance"], tmp_path / "mine.jsonl", "test")
    with pytest.raises(ValueError, match=f"was measured at {'1' * 40}.*pins {'2' * 40}: set base_revision"):
        study.run_study([other], tasks, tmp_path / "out", ablation=False)
    assert not (tmp_path / "out" / "runs").exists()
