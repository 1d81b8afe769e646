from __future__ import annotations

import json
from pathlib import Path

import pytest
from run_folders import fields

from dataset_builders import atomic
from hub_models.manifest import Manifest, TrainingData, is_machine_path


def test_what_is_written_is_read_back_and_bytes_repeat(tmp_path: Path) -> None:
    manifest = Manifest(**fields())
    manifest.write(tmp_path)
    first = (tmp_path / "slant.json").read_bytes()
    assert Manifest.read(tmp_path) == manifest
    Manifest.read(tmp_path).write(tmp_path)
    assert (tmp_path / "slant.json").read_bytes() == first
    assert list(json.loads(first))[:3] == ["schema_version", "name", "repo_id"]


@pytest.mark.parametrize(
    "path",
    ["/srv/base", "./ckpt/base", "../base", "~/ckpt/base", "C:\\ckpt\\base", "c:/base", "\\\\host\\base", ".", ".."],
)
def test_a_machine_path_is_one(path: str) -> None:
    assert is_machine_path(path)
    with pytest.raises(ValueError, match="is a path of this machine"):
        Manifest(**fields(base=path))
    with pytest.raises(ValueError, match="give the file's name or a Hub id"):
        TrainingData(**{**fields()["data"][0], "name": path})
    assert Manifest(**fields(base=path, status="local")).base == path


@pytest.mark.parametrize("name", ["org/base", "my.jsonl", ".hidden", "a/b/c", "sample"])
def test_a_hub_id_is_no_machine_path(name: str) -> None:
    assert not is_machine_path(name)


def test_a_misspelt_key_is_named_with_the_right_one(tmp_path: Path) -> None:
    content = {**fields(), "pooling_": "mean"}
    (tmp_path / "slant.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"slant\.json: pooling_: .*Did you mean 'pooling'\?"):
        Manifest.read(tmp_path)
    content = fields()
    content["data"][0]["row"] = content["data"][0].pop("rows")
    (tmp_path / "slant.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"data\.0\.row: .*Did you mean 'rows'\?"):
        Manifest.read(tmp_path)


def test_a_folder_without_one_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no run folder of train\.py"):
        Manifest.read(tmp_path)


def test_a_broken_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "slant.json").write_text('{"name": ')
    with pytest.raises(ValueError, match="is no JSON"):
        Manifest.read(tmp_path)


@pytest.mark.parametrize("changes", [{"status": "failed"}, {"failure": "adapter is zero"}])
def test_failed_and_its_reason_go_together(changes: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="a failed run says why, no other does"):
        Manifest(**fields(**changes))


def test_a_loss_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="finite number"):
        Manifest(**fields(train_loss=float("nan")))


def test_changes_by_model_copy_are_checked_when_written(tmp_path: Path) -> None:
    manifest = Manifest(**fields()).model_copy(update={"results_sha256": "short"})
    with pytest.raises(ValueError, match="results_sha256"):
        manifest.write(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "card.md"
    atomic.write_text(path, "old\n")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        atomic.write_text(path, "new\n")
    assert path.read_text() == "old\n"
    assert [p.name for p in tmp_path.iterdir()] == ["card.md"]
