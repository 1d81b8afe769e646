"""The benchmarks run at a tiny size, and the table says what they found. No test looks at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import benchmarks.__main__ as runner
from benchmarks import measure
from tests.hub_models.evaluation.helpers import write_run

ROOT = Path(__file__).resolve().parents[2]

SIZES = {
    "bootstrap": ["--resamples", "200", "--units", "16"],
    "graph": ["--small", "300", "--large", "400", "--width", "8", "--of-scikit-learn", "350"],
    "negatives": ["--documents", "200", "--queries", "4", "--of-rank-bm25", "1"],
    "curricula": ["--triplets", "60", "--many", "500", "--claims", "12"],
}
OF_A_MODEL = {
    "hybrid": ["--documents", "60", "--width", "384", "--queries", "3"],
    "evaluation": ["--encoded", "1", "--claims", "2", "--documents", "0"],
    "ablation": ["--claims", "1"],
    "startup": ["--commands", "1"],
}


def measured(name: str, options: list[str], out: Path) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", f"benchmarks.{name}", "--repeats", "2", "--out", str(out), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": "."})
    assert done.returncode == 0, done.stderr[-3000:]
    rows: list[dict[str, Any]] = json.loads(out.read_text())
    assert [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")] == rows
    return rows


def check(rows: list[dict[str, Any]]) -> None:
    assert rows
    for row in rows:
        assert {"name", "against", "ours", "theirs", "unit", "ratio", "bound"} <= set(row)
        if row["theirs"] is None:
            assert row["ours"] > 0 and row["ratio"] is row["bound"] is None
            continue
        better = row["bound"] is None or measure.bound_of(row["bound"])[0] == ">="
        quotient = row["theirs"] / row["ours"] if better else row["ours"] / row["theirs"]
        assert row["ratio"] == pytest.approx(quotient, rel=2e-3)
        if "spread" in row:
            assert 0 < row["spread"][0] <= row["spread"][1]


@pytest.mark.parametrize("name", SIZES)
def test_a_script_gives_its_rows(name: str, tmp_path: Path) -> None:
    if name == "negatives":
        pytest.importorskip("rank_bm25")
    rows = measured(name, SIZES[name], tmp_path / "rows.json")
    check(rows)
    # what has taken turns says how far they were apart, and what has taken one that it was measured once
    assert all("spread" in row or "once" in row.get("note", "") for row in rows if row["unit"] == "s"), rows


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_A_MODEL)
def test_a_script_with_a_model_gives_its_rows(name: str, tmp_path: Path) -> None:
    check(measured(name, OF_A_MODEL[name], tmp_path / "rows.json"))


@pytest.mark.slow
def test_the_space_is_timed_with_the_model_that_it_opens_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLANT_MODEL", str(write_run(tmp_path / "run")))
    rows = measured("space", ["--documents", "60", "--questions", "1"], tmp_path / "rows.json")
    check(rows)
    assert [row["against"] for row in rows] == ["150 ms", "300 ms", "", "", ""]


def test_a_ratio_is_read_by_its_bound() -> None:
    assert measure.row("a", 2.0, 10.0, ">= 5", against="b")["ratio"] == 5
    assert measure.row("a", 2.0, 10.0, "<= 1.1", against="b")["ratio"] == 0.2
    assert measure.row("a", None, 10.0, "<= 1.1", against="b")["ratio"] is None
    assert measure.row("a", 2.0, None, None, against="")["ratio"] is None
    assert measure.row("a", 2.0, 10.0, None, against="b")["ratio"] == 5
    assert measure.holds(5, ">= 5") and not measure.holds(4.9, ">= 5")
    assert measure.holds(1.1, "<= 1.1") and not measure.holds(1.2, "<= 1.1")
    with pytest.raises(ValueError, match=r"got the bound '5', wanted one like '>= 5' or '<= 1\.1'"):
        measure.bound_of("5")


def test_calls_take_turns_and_the_first_turn_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    clock = iter(range(1, 100))
    monkeypatch.setattr(measure, "seconds", lambda call, _: call() or next(clock))
    took = measure.in_turns({"a": lambda: called.append("a"), "b": lambda: called.append("b")}, 3)
    assert "".join(called) == "baabbaab"
    assert took == {"a": [3, 6, 7], "b": [4, 5, 8]}


def test_a_row_of_turns_has_medians_and_the_spread_of_the_turns_ratios() -> None:
    ours, theirs = [1.0, 2.0, 4.0], [6.0, 4.0, 4.0]
    at_least = measure.row("a", ours, theirs, ">= 2", against="b")
    assert (at_least["ours"], at_least["theirs"], at_least["ratio"], at_least["spread"]) == (2, 4, 2, [1, 6])
    assert measure.row("a", ours, theirs, "<= 1.1", against="b")["spread"] == [0.1667, 1]
    assert measure.row("a", ours, 8, "<= 1", against="8 s")["spread"] == [0.125, 0.5]
    assert measure.row("a", measure.scaled(ours, 2), theirs, ">= 2", against="b")["spread"] == [0.5, 3]
    for alone in (measure.row("a", [1.0], [6.0], ">= 2", against="b"), measure.row("a", ours, None, None, against="")):
        assert "spread" not in alone


def test_the_page_marks_what_misses_and_what_is_not_measured(tmp_path: Path) -> None:
    rows = [
        measure.row("one", [1.0, 1.0, 3.0], [30.0, 45.0, 30.0], ">= 20", against="x", share=0.5, share_of="the rate"),
        measure.row("two", 3.0, 1.0, "<= 1.1", against="y", note="of few."),
        measure.row("three", None, 1.0, "<= 1.1", against="z"),
        measure.row("four", 1.0, None, "<= 1.1", against="z"),
        measure.row("five", 1.0, None, None, against="", unit="ms"),
    ]
    kept = {"seconds": 1, "others": 0.3, "machine": {"cores": 2}, "versions": {"numpy": "2"}, "rows": rows}
    (tmp_path / "graph.json").write_text(json.dumps(kept))
    page = runner.page(tmp_path).splitlines()
    assert "| one | x | 1 s | 30 s | 30 (10 to 45) | ≥ 20 | ✓ |" in page
    assert "| two | y | 3 s | 1 s | 3 | ≤ 1.1 | **✗** |" in page
    assert "| three | z | n/a | 1 s | n/a | ≤ 1.1 | **✗** |" in page  # it never got there
    assert "| four | z | 1 s | n/a | n/a | ≤ 1.1 | not run |" in page
    assert "| five |  | 1 ms | n/a | n/a | none |  |" in page
    assert "| paired bootstrap | | n/a | n/a | n/a | | not run |" in page
    assert "- one: 50% of the rate." in page and "- two: of few." in page
    assert "- graph: cores 2" in page and "- graph: numpy 2" in page
    assert "Cores that other work kept busy meanwhile, on average, where it was counted: graph 0.3." in page
    assert runner._missing(tmp_path) == [name for name in runner.SCRIPTS if name != "graph"]


def test_a_script_that_fails_leaves_the_rows_that_were_there(tmp_path: Path) -> None:
    (tmp_path / "bootstrap.json").write_text("{}")
    assert not runner.run("bootstrap", tmp_path, "--resamples", "none")
    assert (tmp_path / "bootstrap.json").read_text() == "{}"
    assert runner.run("bootstrap", tmp_path, "--resamples", "100", "--units", "8", "--repeats", "1")
    kept = json.loads((tmp_path / "bootstrap.json").read_text())
    assert len(kept["rows"]) == 3 and set(kept["versions"]) == set(runner.PACKAGES)


def test_the_committed_page_ends_with_the_section_on_toughness() -> None:
    assert (
        (ROOT / "benchmarks" / "README.md")
        .read_text(encoding="utf-8")
        .endswith("\n\n" + runner.TOUGHNESS.read_text(encoding="utf-8"))
    )
