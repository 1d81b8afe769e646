"""Who may write a folder: one process at a time, and what a killed one has left is removed by the next."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from dataset_builders import atomic
from dataset_builders.lock import locked
from dataset_builders.reply_cache import ReplyCache
from hub_models import hub_cache, merge, onnx_parity, training
from hub_models.evaluation.places import alone
from hub_models.evaluation.study import study_stance
from hub_models.manifest import Manifest
from tests.run_folders import manifest


def test_results_of_a_folder_are_written_by_one(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "evaluation"
    with (
        alone(folder),
        pytest.raises(BlockingIOError, match=r"evaluation: another process writes its results there; wait until"),
        alone(folder),
    ):
        pass
    assert not list(folder.parent.iterdir())  # neither the folder nor its lock


def test_for_a_baseline_one_waits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    order = []
    waits = threading.Event()

    class Told(threading.Thread):
        def run(self) -> None:
            with alone(tmp_path / "base", wait=True):
                order.append("second")

    second = Told()
    with alone(tmp_path / "base"):
        second.start()
        while not any("waiting for another process" in r.message for r in caplog.records):
            waits.wait(0.01)
        order.append("first")
    second.join()
    assert order == ["first", "second"]


def test_a_study_keeps_the_next_one_out(tmp_path: Path) -> None:
    with alone(tmp_path / "study"), pytest.raises(BlockingIOError, match="wait until it is done, or give another"):
        study_stance(
            tmp_path / "study", "stance-minilm", [], seeds=1, source=None, data=None, further=[], split="test",
            hybrid="", lexical="slant", quick=True, overrides=[], command="",
        )  # fmt: skip


def test_two_changes_of_slant_json_are_both_kept(tmp_path: Path) -> None:
    manifest().write(tmp_path)
    inside = threading.Event()
    other = threading.Thread(target=lambda: Manifest.update(tmp_path, lambda _: {"anchor_weight": 0.25}))

    def slow(_: Manifest) -> dict[str, Any]:
        other.start()
        inside.wait(0.2)  # the other one has every chance to read what this one is about to replace
        return {"adapter_scale": 0.5}

    Manifest.update(tmp_path, slow)
    other.join()
    found = Manifest.read(tmp_path)
    assert (found.adapter_scale, found.anchor_weight) == (0.5, 0.25)
    assert [p.name for p in tmp_path.iterdir()] == ["slant.json"]


def test_a_folder_that_is_no_run_gets_no_lock(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="this is no run folder"):
        Manifest.update(tmp_path, lambda _: {})
    assert not list(tmp_path.iterdir())


def test_a_merge_keeps_the_next_one_out(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    manifest().write(tmp_path / "run")
    with locked(tmp_path / ".run-merged.lock"), pytest.raises(BlockingIOError, match="another process merges run"):
        merge.merged(tmp_path / "run")


def test_a_graph_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Program:
        def save(self, path: Path) -> None:
            path.write_bytes(b"half")
            raise OSError(28, "No space left on device")

    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")
    (tmp_path / ".model.onnx.partial").mkdir()  # of a process that was killed
    monkeypatch.setattr(onnx_parity, "_program", lambda _: Program())
    with pytest.raises(OSError, match="No space left"):
        onnx_parity.export(None, path)  # type: ignore[arg-type]
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["model.onnx"]
    with locked(tmp_path / ".model.onnx.lock"), pytest.raises(BlockingIOError, match="another process writes this"):
        onnx_parity.export(None, path)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError, match="nothing can be written there; choose another folder"):
        onnx_parity.export(None, tmp_path / "no" / "model.onnx")  # type: ignore[arg-type]


@pytest.mark.parametrize("old", [{}, {"model.onnx": b"old"}, {"model.onnx": b"old", "model.onnx.data": b"old"}])
@pytest.mark.parametrize("new", [["model.onnx"], ["model.onnx", "model.onnx.data"]])
def test_a_graph_never_stands_beside_weights_of_another(
    old: dict[str, bytes], new: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever it is killed: the old pair, the new pair, or weights without a graph, which nobody loads."""

    class Program:
        def save(self, path: Path) -> None:
            for name in new:
                path.with_name(name).write_bytes(b"new")

    def there() -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in tmp_path.glob("model.onnx*")}

    seen = []
    real = os.replace
    for name, content in old.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(onnx_parity, "_program", lambda _: Program())
    monkeypatch.setattr(onnx_parity.os, "replace", lambda a, b: (seen.append(there()), real(a, b)))
    onnx_parity.export(None, tmp_path / "model.onnx")  # type: ignore[arg-type]
    assert there() == dict.fromkeys(new, b"new")
    for state in seen:
        assert state == old or "model.onnx" not in state


def test_what_a_killed_install_left_goes_and_a_failed_one_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    snapshots = tmp_path / "cache" / "models--made-up--killed" / "snapshots"
    (snapshots / f".{'c' * 8}-left").mkdir(parents=True)
    with monkeypatch.context() as full, pytest.raises(OSError, match="No space left"):
        full.setattr(
            hub_cache.shutil, "copytree", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space left"))
        )
        hub_cache.install_snapshot("made-up/killed", "c" * 40, model)
    assert not list(snapshots.iterdir())
    hub_cache.install_snapshot("made-up/killed", "c" * 40, model)
    assert [p.name for p in snapshots.iterdir()] == ["c" * 40]
    assert not list(snapshots.parent.glob(".*.lock"))


def test_a_checkpoint_on_a_full_disk_says_what_to_do(tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match=r"writing a checkpoint into .* failed; the one before is kept: free some space"),
        training._full_disk_named(tmp_path),
    ):
        raise RuntimeError("[enforce fail at inline_container.cc:664] . unexpected pos 64 vs 0")
    with pytest.raises(RuntimeError, match="another"), training._full_disk_named(tmp_path):
        raise RuntimeError("another one")
    with (
        pytest.raises(
            OSError, match="No space left on device: the one before is kept: free some space and run this ag"
        ),
        training._full_disk_named(tmp_path),
    ):
        raise OSError(28, "No space left on device")


def test_a_folder_that_cannot_be_written_is_refused_before_work(tmp_path: Path) -> None:
    atomic.check_folder(tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError, match="No such file or directory: nothing can be written there; choose"):
        atomic.check_folder(tmp_path / "no")
    with (
        pytest.raises(FileNotFoundError, match="nothing can be written there; choose another folder"),
        locked(tmp_path / "no" / "x.lock"),
    ):
        pass


def test_turns_of_a_killed_process_are_removed_and_those_of_a_living_one_stay(tmp_path: Path) -> None:
    path = tmp_path / "replies[1].sqlite"
    (tmp_path / ".replies[1].sqlite.0123456789abcdef.lock").touch()
    taken = tmp_path / ".replies[1].sqlite.fedcba9876543210.lock"
    with locked(taken):
        ReplyCache(path).close()
        assert sorted(p.name for p in tmp_path.iterdir()) == [taken.name, path.name]
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_what_a_killed_write_staged_goes_with_the_next_and_that_of_a_living_one_stays(tmp_path: Path) -> None:
    path, dead = tmp_path / "a[1].json", tmp_path / ".a[1].json.1-1.partial"
    dead.write_text("half")
    living = tmp_path / ".a[1].json.2-2.partial"
    with atomic._hold(living):
        atomic.write_text(path, "whole")
        assert sorted(p.name for p in tmp_path.iterdir()) == [living.name, path.name]
    atomic.write_text(path, "again")
    assert [p.name for p in tmp_path.iterdir()] == [path.name] and path.read_text() == "again"
