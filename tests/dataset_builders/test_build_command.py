from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from builders import write_jsonl
from click.testing import Result
from datasets import load_dataset
from typer.testing import CliRunner

from dataset_builders.__main__ import app
from dataset_builders.folder import shards
from dataset_builders.sources import obliq_bench


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def claims(n: int) -> list[dict[str, Any]]:
    topics = ["tea", "chess", "rain", "jazz", "coal", "milk", "opera", "snow", "yoga", "rugby", "tulips", "ferries"]
    return [
        {
            "claim": f"{t} is good for cities",
            "support": [f"{t} pays", f"{t} heals"],
            "attack": [f"{t} costs", f"{t} kills"],
        }
        for t in topics[:n]
    ]


def test_the_sample_builds_loads_and_is_up_to_date(tmp_path: Path) -> None:
    result = run("build", "sample-stance-triplets", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "mixed_aug/train: 14,400 rows" in result.output and f"built: {tmp_path}" in result.output
    files = {f: f.read_bytes() for f in tmp_path.rglob("*") if f.is_file()}
    mixed_aug = load_dataset(str(tmp_path), "mixed_aug", split="train")
    assert len(mixed_aug) == 120 * 20 * 6
    assert load_dataset(str(tmp_path), split="train")[:] == mixed_aug[:]
    again = run("build", "sample-stance-triplets", "--out", tmp_path)
    assert again.exit_code == 0 and f"up to date: {tmp_path}" in again.output
    assert {f: f.read_bytes() for f in tmp_path.rglob("*") if f.is_file()} == files


@pytest.mark.parametrize(
    ("kind", "configs"),
    [
        ("arguments", ["claims", "arguments", "relations", "corpus", "queries", "qrels"]),
        ("inversions", ["inversions"]),
    ],
)
def test_arguments_and_inversions_build(tmp_path: Path, kind: str, configs: list[str]) -> None:
    result = run("build", f"sample-stance-{kind}", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert list(json.loads((tmp_path / "build.json").read_text())["configs"]) == configs
    for config in configs:
        assert len(load_dataset(str(tmp_path), config, split="test")) > 0


def test_two_processes_with_other_hash_seeds_give_the_same_bytes(tmp_path: Path) -> None:
    import os

    for seed in ("1", "2"):
        command = [
            sys.executable,
            "-m",
            "dataset_builders",
            "build",
            "sample-stance-triplets",
            "--out",
            tmp_path / seed,
        ]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": seed})
    one, two = ({f.name: f.read_bytes() for f in (tmp_path / s).rglob("*") if f.is_file()} for s in ("1", "2"))
    assert one == two


def test_own_claims_build_under_an_own_name(tmp_path: Path) -> None:
    rows = [*claims(12), {"claim": "Bread is old", "support": ["yes it is"], "attack": []}]
    source = write_jsonl(tmp_path / "my.jsonl", rows)
    result = run("build", "my-stance-triplets", "--source", source, "--out", tmp_path / "t", "--triplets", 90)
    assert result.exit_code == 0, result.output
    manifest = json.loads((tmp_path / "t" / "build.json").read_text())
    assert manifest["configs"]["mixed"]["train"]["rows"] == 90
    assert manifest["arguments"] == {"triplets": 90, "source": "my.jsonl"}
    assert "default: true" in (tmp_path / "t" / "README.md").read_text()
    assert "mixed_aug" not in manifest["configs"]
    assert len(load_dataset(str(tmp_path / "t"), split="train")) == 90
    assert str(tmp_path) not in "".join(
        f.read_text(errors="replace") for f in (tmp_path / "t").rglob("*") if f.is_file()
    )


def test_one_sided_claims_are_reported(tmp_path: Path) -> None:
    rows = [{**row, "split": "train"} for row in claims(4)]
    rows.append({"claim": "Bread is old", "claim_id": "bread", "support": ["yes"], "attack": [], "split": "train"})
    result = run(
        "build", "my-stance-triplets", "--source", write_jsonl(tmp_path / "m.jsonl", rows), "--out", tmp_path / "t"
    )
    assert "train: 1 one-sided claims left out" in result.output
    assert json.loads((tmp_path / "t" / "build.json").read_text())["one_sided"] == {"train": ["bread"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sample-stance-triplet"], "Did you mean 'sample-stance-triplets'?"),
        (["smaple-stance-triplets"], "Did you mean 'sample'?"),
        (["triplets"], "wanted {source}-{kind} with a kind of ['stance-triplets', 'stance-arguments', "),
        (["my-stance-arguments"], "got the source 'my', wanted one of"),
        (["sample-stance-inversions", "--triplets", "9"], "--triplets is for sample-stance-triplets"),
        (["sample-stance-triplets", "--triplets", "0"], "got 0 triplets, wanted at least 1"),
        (["sample-stance-triplets", "--source", "."], "is made from the embedded sample alone"),
        (["my-stance-arguments", "--source", "absent.jsonl"], "absent.jsonl: no such file or folder"),
    ],
)
def test_wrong_arguments_are_one_line_and_leave_nothing(tmp_path: Path, arguments: list[str], message: str) -> None:
    result = run("build", *arguments, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert message in result.output and result.output.startswith("error: ") and result.output.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_inversions_of_data_that_has_none_are_refused(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "my.jsonl", claims(3))
    result = run("build", "my-stance-inversions", "--source", source, "--out", tmp_path / "out")
    assert result.exit_code == 1 and "my: there are no inversions to write" in result.output


def test_triplets_need_train_claims(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "test.jsonl", claims(3))
    result = run("build", "my-stance-triplets", "--source", source, "--out", tmp_path / "out")
    assert result.exit_code == 1 and "none of the 3 claims is in the split train" in result.output


def test_list_names_what_can_be_built() -> None:
    result = run("list")
    assert result.exit_code == 0
    for name in ("sample-stance-triplets", "sample-stance-inversions", "perspectrum-stance-arguments", "--source"):
        assert name in result.output


@pytest.mark.parametrize(
    "command", [["check", "sample"], ["purity", "--labels", "absent"], ["query-quality", "--queries", "absent"]]
)
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setattr("dataset_builders.quality.check", lambda *_: pytest.fail("measured"))
    absent = run(*command, "--out", tmp_path / "nope" / "x.json")
    assert absent.exit_code == 1 and f"error: --out: {tmp_path}/nope/x.json: the folder" in absent.output
    assert "is not there; make it or choose another one" in absent.output
    folder = run(*command, "--out", tmp_path)
    assert folder.exit_code == 1 and f"error: --out: got the folder {tmp_path}, wanted a file" in folder.output


def test_figures_are_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "x.json"
    out.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", full)
        result = run("check", "sample", "--out", out)
    assert result.exit_code == 1
    assert f"error: {out}: No space left on device: not written, what was there still stands" in result.output
    assert out.read_text() == "old" and list(tmp_path.iterdir()) == [out]
    assert run("check", "sample", "--out", out).exit_code == 0
    assert json.loads(out.read_text())


def test_the_oblique_benchmark_is_the_sample_split_by_split(tmp_path: Path) -> None:
    out = tmp_path / "bench"
    assert run("build", "sample-obliq-bench", "--out", out).exit_code == 0
    found = shards(out)
    origin = {"source": "sample", "licence": "cc-by-4.0"}
    for name in obliq_bench.TASKS:
        for split in ("validation", "test"):
            task = obliq_bench.read(name).restrict(split)
            rows = {
                part: pq.read_table(found[f"{name}-{part}"][split][0], partitioning=None).to_pylist()
                for part in ("corpus", "queries", "qrels", "excluded")
                if f"{name}-{part}" in found
            }
            assert {r["_id"]: r["text"] for r in rows["corpus"]} == {i: d.text for i, d in task.corpus.items()}
            assert {r["_id"]: r["group_id"] for r in rows["queries"]} == {
                i: q.attribute for i, q in task.queries.items()
            }
            assert [(r["query-id"], r["corpus-id"], r["score"]) for r in rows["qrels"]] == [
                (q, d, grade) for q, grades in task.qrels.items() for d, grade in grades.items()
            ]
            excluded: dict[str, set[str]] = {}
            for r in rows.get("excluded", []):
                excluded.setdefault(r["query-id"], set()).add(r["corpus-id"])
            assert excluded == {q: set(ids) for q, ids in task.excluded.items()}
            assert all(row.items() >= origin.items() for part in rows.values() for row in part)
    assert not [config for config in found if config.endswith("pooled")]  # the sample was not pooled
    assert "wanted sample-obliq-bench" in run("build", "my-obliq-bench", "--out", tmp_path / "other").output
