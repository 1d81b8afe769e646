"""`docs/scaling.md` says what is so: its paths, flags, snippet and figures."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from accelerate.commands.launch import launch_command_parser

from benchmarks import __main__ as table
from benchmarks import growth, scale
from hub_models.recipe import load_recipe
from hub_models.retrieval.milvus import TOKEN
from hub_models.retrieval.text_search import INDEXES

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "scaling.md").read_text()
COMMANDS = [
    line.split("#")[0].strip() for block in re.findall(r"```bash\n(.*?)```", PAGE, re.S) for line in block.split("\n")
]


def test_paths_exist_and_every_topology_is_named() -> None:
    named = re.findall(r"`((?:\w[\w.-]*/)+[\w.-]+)`", PAGE) + re.findall(r"--config_file (\S+)", PAGE)
    missing = [path for path in named if not path.startswith("Qwen/") and not (ROOT / path).exists()]
    assert len(named) > 10 and missing == []
    files = {str(p.relative_to(ROOT)) for p in (ROOT / "hub_models" / "accelerate").glob("*.yaml")}
    assert {path for path in named if path.endswith(".yaml")} == files
    assert "docs/scaling.md" in (ROOT / "README.md").read_text()


def test_every_flag_of_accelerate_exists_and_the_recipes_fit() -> None:
    known = {option for action in launch_command_parser()._actions for option in action.option_strings}
    launched = [line for line in COMMANDS if line.startswith("accelerate launch")]
    flags = {f for line in launched for f in re.findall(r"--\w+", re.split(r"train\.py|evaluate\.py", line)[0])}
    assert len(launched) == 4 and flags <= known
    for line, processes in ((launched[0], 8), (launched[1], 8), (launched[2], 16)):
        overrides = re.findall(r"--set (\S+)", line)
        recipe = load_recipe(re.findall(r"--recipe (\S+)", line)[0], overrides)
        assert recipe.per_device_batch(processes) >= 1


def test_the_indexes_are_those_that_there_are() -> None:
    named = re.findall(r"^\| `([^`]+)`(?:, with `cache_dir=`)? \|", PAGE, re.M)
    assert {name.split(":")[0] for name in named if ".yaml" not in name and name != "index="} == {
        name.rstrip(":") for name in INDEXES
    }
    assert f"`{TOKEN}`" in PAGE


def test_the_recall_table_is_that_of_the_results_file() -> None:
    found = json.loads((ROOT / "benchmarks" / "results" / "quantised.json").read_text())
    assert set(found["versions"]) == set(table.PACKAGES) and set(found["machine"]) == set(table.machine())
    for row in found["rows"]:
        label = row["index"] + (f", {row['candidates']:,} candidates" if row["candidates"] else "")
        said = (f"{row['vectors']}, {row['documents']:,}", label, *(f"{row[f'recall_at_{k}']:.3f}" for k in (10, 100)))
        assert f"| {' | '.join(said)} |" in PAGE
    assert "benchmarks.quantised" in PAGE


# -- the growth figure ---------------------------------------------------------------------------------------------


def points(power: float) -> list[dict[str, object]]:
    return [
        {"stage": "bm25", "n": n, "seconds": {"BM25 index": 2e-5 * n**power}, "mib": 0.5 * n / 1000}
        for n in (1_000, 10_000, 100_000, 1_000_000)
    ]


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_the_slope_of_a_power_is_its_exponent(power: float) -> None:
    time, memory = growth.fitted(points(power))
    assert (time["name"], memory["name"]) == ("BM25 index, time", "bm25, memory")
    assert time["ours"] == time["ratio"] == pytest.approx(power) and memory["ours"] == pytest.approx(1.0)
    assert (time["theirs"], time["bound"]) == (1.0, "<= 1.15")


def test_fixed_costs_of_small_sizes_are_not_fitted_where_larger_ones_are_known() -> None:
    values = [9.0, 1.0, 10.0, 100.0]
    assert growth.slope([1_000, 10_000, 100_000, 1_000_000], values) == pytest.approx(1.0)
    assert growth.slope([1_000, 3_000, 10_000], [1.0, 3.0, 10.0]) == pytest.approx(1.0)  # not measured beyond
    assert growth.slope([10_000], [1.0]) is None


def kept(found: list[dict[str, object]]) -> dict[str, object]:
    return {"machine": table.machine(), "versions": table.versions(), "points": found}


def test_points_of_another_machine_or_other_libraries_are_measured_anew(tmp_path: Path) -> None:
    file, whole = tmp_path / "scale.json", kept(points(1.0))
    assert scale.found_before(file) == []
    for change, expected in (
        ({}, whole["points"]),
        ({"machine": table.machine() | {"date": "2020-01-01"}}, whole["points"]),
        ({"machine": table.machine() | {"processor": "another"}}, []),
        ({"versions": table.versions() | {"numpy": "0.1"}}, []),
    ):
        file.write_text(json.dumps({**whole, **change}))
        assert scale.found_before(file) == expected


def test_the_page_of_the_benchmarks_shows_growth_once_it_is_measured(tmp_path: Path) -> None:
    assert "## Growth" not in table.page(tmp_path)
    (tmp_path / "scale.json").write_text(json.dumps(kept(points(2.0))))
    page = table.page(tmp_path).splitlines()
    assert "| BM25 index, time | 2 | ≤ 1.15 | **✗** | 20,000,000 s of 1,000,000 |" in page
    assert "| bm25, memory | 1 | ≤ 1.15 | ✓ | 500 MiB of 1,000,000 |" in page
    assert "![Time and memory over the number of documents](figures/scale.png)" in page
    assert any(line.startswith("- scale: processor") for line in page)


def test_the_committed_page_is_that_of_the_committed_results() -> None:
    folder = ROOT / "benchmarks"
    assert (folder / "README.md").read_text() == table.page(folder / "results")
    assert "(../benchmarks/README.md)" in PAGE
    found = json.loads(scale.POINTS.read_text())["points"]
    assert {point["n"] for point in found} == set(scale.SIZES)
    assert (folder / "figures" / "scale.png").exists() and (folder / "figures" / "scale.svg").exists()
    late = [(n, mib) for n, mib in zip(*growth.series(found)["sampler", "MiB"], strict=True) if n >= 100_000]
    assert growth.slope(*map(list, zip(*late, strict=True))) == pytest.approx(1, abs=0.05)  # as the page says


def test_the_figure_says_what_is_synthetic_and_repeats(tmp_path: Path) -> None:
    found = points(1.0)
    for folder in (tmp_path / "a", tmp_path / "b"):
        scale.draw(found, growth.fitted(found), folder)
    assert (tmp_path / "a" / "scale.svg").read_bytes() == (tmp_path / "b" / "scale.svg").read_bytes()
    assert (tmp_path / "a" / "scale.png").exists()


def test_drawn_vectors_and_texts_are_seeded_and_of_the_size_asked_for() -> None:
    vectors = scale.drawn(25, seed=3)
    assert vectors.shape == (25, scale.WIDTH) and (vectors == scale.drawn(25, seed=3)).all()
    assert abs((vectors**2).sum(axis=1) - 1).max() < 1e-5
    texts = scale.texts(7)
    assert texts == scale.texts(7) != scale.texts(7, seed=1) and {len(t.split()) for t in texts} == {scale.WORDS}


def test_a_point_is_measured_in_a_process_of_its_own() -> None:
    point = scale.in_a_child("bm25", 1_000)
    assert point["seconds"]["BM25 index"] > 0 and point["mib"] > 0
    with pytest.raises(RuntimeError, match="--point nothing 1000 failed"):
        scale.in_a_child("nothing", 1_000)
