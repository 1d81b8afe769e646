"""Training by several processes: one run, one folder, and what one process learns."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hub_models import training, training_callbacks
from hub_models.manifest import Manifest
from hub_models.training import train
from tests.training_runs import check_learnt_alike, recipe, same

ROOT = Path(__file__).parent.parent.parent


def test_two_processes_do_not_train_into_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "load_base", None)
    partial = tmp_path / ".run.partial"
    partial.mkdir()
    with training._lock(tmp_path / "run"), pytest.raises(FileExistsError, match="another process trains into run;"):
        train(recipe(tmp_path), tmp_path / "run")
    assert partial.exists() and not (tmp_path / ".run.lock").exists()


def test_a_killed_process_lets_go_of_the_folder(tmp_path: Path) -> None:
    script = "import sys, time\nfrom pathlib import Path\nfrom hub_models.training import _lock\n"
    script += "with _lock(Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(600)"
    command = [sys.executable, "-c", script, str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(FileExistsError, match="another process trains into run"), training._lock(tmp_path / "run"):
            pass
        holder.kill()
    with training._lock(tmp_path / "run"):
        pass
    assert not list(tmp_path.glob(".*"))


def torchrun(*arguments: str | Path, processes: int = 2) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    return subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, cwd=ROOT)


def test_two_processes_write_one_run_and_learn_what_one_learns_case_29(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With gathered negatives two processes of two rows are one of four. The base has no dropout, which each process
    would draw for itself."""
    made = recipe(tmp_path, "lora.dropout=0", name="stance-qwen3-8b", rows=2)
    (tmp_path / "recipe.yaml").write_text(made.to_yaml())
    done = torchrun("train.py", "--recipe", tmp_path / "recipe.yaml", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("2 process(es)") == 1  # one rank speaks
    manifest = Manifest.read(tmp_path / "run")
    assert (manifest.status, manifest.steps) == ("trained", 6)
    assert not list(tmp_path.glob(".*"))
    monkeypatch.setattr(training, "gate", lambda *_, **__: None)
    check_learnt_alike(tmp_path / "run", train(made, tmp_path / "alone"), share=1 / 100)


@pytest.mark.slow
def test_all_ranks_end_where_the_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(recipe(tmp_path).to_yaml())
    with training._lock(tmp_path / "run"):
        done = torchrun("train.py", "--recipe", tmp_path / "recipe.yaml", "--out", tmp_path / "run")
    assert done.returncode != 0
    assert "error: " in done.stderr and "another process trains into run" in done.stderr
    assert not (tmp_path / ".run.partial").exists()


@pytest.mark.slow
def test_two_processes_resume_to_the_same_adapter(tmp_path: Path) -> None:
    made = recipe(tmp_path, "epochs=2", rows=6)
    (tmp_path / "recipe.yaml").write_text(made.to_yaml())
    arguments = ["--recipe", tmp_path / "recipe.yaml", "--out"]
    script = Path(__file__).parent / "killed_run.py"
    assert torchrun(script, tmp_path / "recipe.yaml", tmp_path / "run", "23").returncode != 0
    assert training_callbacks.last_checkpoint(tmp_path / ".run.partial") is not None
    for run in ("run", "unbroken"):
        done = torchrun("train.py", *arguments, tmp_path / run)
        assert done.returncode == 0, done.stderr
    assert same(tmp_path / "run", tmp_path / "unbroken")
