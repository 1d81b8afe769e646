"""The tables on reranking in results/README.md are those of the committed files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hub_models.evaluation.oblique_metrics import MAIN
from hub_models.evaluation.results import Results, RunResult, read_per_query

FOLDER = Path(__file__).resolve().parents[2] / "results"
SAMPLE = FOLDER / "reranking-sample"
TASKS = ("twitter", "math", "writing", "congress", "wildchat")
JUDGES = {"oracle": "oracle", "noisy oracle": "noisy-oracle", "topical judge": "topical"}


def run(judge: str, task: str, policy: str | None, depth: int = 100) -> RunResult:
    """A reranked run, or the first stage."""
    runs = Results.read(SAMPLE / judge / "results.json").tasks[f"sample-obliq-{task}"].runs
    if policy is None:
        return runs[0]
    (found,) = [r for r in runs if (r.params.get("policy"), r.params.get("depth")) == (policy, depth)]
    return found


def table(head: str, rows: dict[str, Callable[[str], str]]) -> list[str]:
    lines = [f"| {head} | {' | '.join(TASKS)} |", f"|---|{'---|' * len(TASKS)}"]
    return lines + [f"| {label} | {' | '.join(cell(task) for task in TASKS)} |" for label, cell in rows.items()]


def number(found: RunResult) -> str:
    return f"{found.mean('overall', MAIN):.3f}"


def interval(found: RunResult) -> str:
    said = found.diagnostics["against_first_stage"]
    return f"{number(found)} ({said['delta']:+.3f} [{said['interval']['low']:+.3f}, {said['interval']['high']:+.3f}])"


def policies() -> list[str]:
    rows: dict[str, Callable[[str], str]] = {
        "MiniLM, not reranked": lambda t: number(run("oracle", t, None)),
        "best order of its first 100": lambda t: f"{run('oracle', t, 'listwise').diagnostics['pool_ceiling']:.3f}",
    }
    for label, judge in JUDGES.items():
        rows |= {
            f"{label}, TourRank Y = 5": lambda t, j=judge: number(run(j, t, "tourrank:5")),
            f"{label}, listwise": lambda t, j=judge: number(run(j, t, "listwise")),
        }
    return table("NDCG@10", rows)


def chosen() -> list[str]:
    def cell(judge: str) -> Callable[[str], str]:
        return lambda t: f"{(found := run(judge, t, 'auto')).diagnostics['policy']}: {interval(found)}"

    return table("chosen", {label: cell(judge) for label, judge in JUDGES.items()})


def changed() -> list[str]:
    def cell(judge: str) -> Callable[[str], str]:
        keys = ("helped", "hurt", "tied", "zero_in_both")
        return lambda t: " / ".join(
            str(run(judge, t, "tourrank:5").diagnostics["against_first_stage"][key]) for key in keys
        )

    return table("helped / hurt / tied / zero in both", {label: cell(judge) for label, judge in JUDGES.items()})


def sweeps() -> list[str]:
    names = [*(f"tourrank:{y}" for y in (1, 3, 5, 10)), *(f"listwise:{k}" for k in (10, 20, 50, 100)), "sliding:20"]
    rows: dict[str, Callable[[str], str]] = {n: lambda t, n=n: number(run("noisy-oracle", t, n)) for n in names}
    rows["tourrank:5, pool of 200"] = lambda t: number(run("noisy-oracle", t, "tourrank:5", 200))
    return table("noisy oracle", rows)


def costs() -> list[str]:
    lines = ["| per query | calls | prompt tokens | completion tokens |", "|---|---|---|---|"]
    for name, depth in [*((f"tourrank:{y}", 100) for y in (1, 3, 5, 10)), ("tourrank:5", 200), ("listwise:20", 100)]:
        found = [run("noisy-oracle", t, name, depth).diagnostics["cost"] for t in TASKS]
        cells = [
            [f"{cost[f'{what}_per_query']:.0f}" for cost in found]
            for what in ("calls", "prompt_tokens", "completion_tokens")
        ]
        shown = [c[0] if len(set(c)) == 1 else f"{min(c, key=int)} to {max(c, key=int)}" for c in cells]
        lines.append(f"| {name}{', pool of 200' if depth == 200 else ''} | {' | '.join(shown)} |")
    return lines


def replies() -> list[str]:
    counts = json.loads((SAMPLE / "replies.json").read_text())
    lines = ["| 1,200 made-up replies each | parsed | repaired | fallback |", "|---|---|---|---|"]
    for kind, found in counts.items():
        lines.append(f"| {kind} | {' | '.join(str(found.get(o, 0)) for o in ('parsed', 'repaired', 'fallback'))} |")
    return lines


def pages() -> Iterator[Callable[[], list[str]]]:
    yield from (policies, chosen, changed, sweeps, costs, replies)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.__name__)
def test_the_tables_of_the_page_are_those_of_the_files(page: Callable[[], list[str]]) -> None:
    assert "\n".join(page()) in (FOLDER / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("judge", JUDGES.values())
def test_the_files_are_whole(judge: str) -> None:
    results = Results.read(SAMPLE / judge / "results.json")
    assert list(results.tasks) == [f"sample-obliq-{task}" for task in TASKS]
    for task in results.tasks.values():
        for found in task.runs:
            assert read_per_query(SAMPLE / judge, found.per_query).num_rows == task.counts["queries"]


@pytest.mark.parametrize("task", TASKS)
def test_what_the_machinery_must_do_with_judges_of_known_quality(task: str) -> None:
    whole = run("noisy-oracle", task, "listwise:100")
    assert run("oracle", task, "tourrank:5").mean("overall", MAIN) > 0.8 * whole.diagnostics["pool_ceiling"]
    assert run("oracle", task, "auto").diagnostics["policy"] != "identity"
    for judge in JUDGES.values():
        assert run(judge, task, "tourrank:5").diagnostics["cost"]["calls_per_query"] == 13 * 5
