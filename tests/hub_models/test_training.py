"""A run of training on tiny models: from the first step to the gate, killed and resumed, damaged, refused."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import train as script
from hub_models import training, training_callbacks
from hub_models.base import load_base
from hub_models.manifest import Manifest
from hub_models.recipe import Recipe
from hub_models.training import train
from tests.training_runs import adapter, recipe, same

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.usefixtures("gate_in_process")
@pytest.mark.parametrize("name", ["stance-bge-large", "stance-instructor-xl", "stance-qwen3-8b"])
def test_a_run_of_each_class(tmp_path: Path, name: str) -> None:
    """Gradient checkpointing and accumulation as in the real recipes; the gate decides whether it loads."""
    made = recipe(tmp_path, "gradient_checkpointing=true", "accumulation=2", name=name)
    run = train(made, tmp_path / "run")
    manifest = Manifest.read(run)
    assert (manifest.status, manifest.steps, manifest.base_revision) == ("trained", 6, made.base_revision)
    assert manifest.prompts["attack"] == "Instruct: Find evidence refuting\nQuery: " or name == "stance-instructor-xl"
    files = {p.name for p in run.iterdir()}
    assert {"README.md", "recipe.yaml", "train.log", "modules.json", "tokenizer.json"} <= files
    assert "training_args.bin" not in files
    assert not list(tmp_path.glob(".*"))  # nothing is left beside it
    loaded = SentenceTransformer(str(run), device="cpu")
    assert loaded.max_seq_length == 64
    assert all("lora_" in n for n in adapter(run))


@pytest.mark.usefixtures("ungated")
def test_one_step_changes_the_adapter_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    real = training.attach_lora

    def attach(model: SentenceTransformer, made: Recipe) -> None:
        real(model, made)
        seen["model"], seen["before"] = model, {n: p.detach().clone() for n, p in model.named_parameters()}

    monkeypatch.setattr(training, "attach_lora", attach)
    made = recipe(tmp_path, "warmup=0", "data.0.dose=4", "global_batch=2")
    monkeypatch.setattr(training.DistinctClaimBatchSampler, "__len__", lambda self: 1)
    train(made, tmp_path / "run")
    after = dict(seen["model"].named_parameters())
    moved = {n for n, p in seen["before"].items() if not torch.equal(p, after[n])}
    assert moved == {n for n in after if "lora_B" in n}  # lora_A gets its first gradient once lora_B is not zero


@pytest.mark.usefixtures("ungated")
def test_a_run_that_is_done_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = recipe(tmp_path)
    run = train(made, tmp_path / "run")
    monkeypatch.setattr(training, "load_base", None)  # would raise
    assert train(made, run) == run
    with pytest.raises(FileExistsError, match="holds a run of another recipe or other data"):
        train(recipe(tmp_path, "seed=1"), run)
    with pytest.raises(FileExistsError, match="is no run of ours"):
        train(made, tmp_path)


@pytest.mark.usefixtures("ungated")
def test_a_run_that_was_damaged_is_not_done(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = recipe(tmp_path, "data.0.dose=16")
    run = train(made, tmp_path / "run")
    whole = (run / "adapter_model.safetensors").read_bytes()
    (run / "tokenizer.json").unlink()
    assert (train(made, run) / "tokenizer.json").exists()
    assert "run lacks tokenizer.json; training anew" in caplog.text
    (run / "adapter_model.safetensors").write_bytes(whole[:-4] + b"abcd")
    train(made, run)
    assert (run / "adapter_model.safetensors").read_bytes() == whole


@pytest.mark.usefixtures("ungated")
def test_what_stood_there_comes_back_if_the_swap_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = recipe(tmp_path, "data.0.dose=16")
    run = train(made, tmp_path / "run")
    (run / "tokenizer.json").unlink()
    real = Path.rename

    def rename(self: Path, target: Path) -> Path:
        if self.name == "release":
            raise OSError(5, "Input/output error")
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(OSError, match="Input/output error"):
        train(made, run)
    assert (run / "slant.json").exists() and not (tmp_path / ".run.old").exists()


def test_a_base_that_gives_nan_is_not_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(made: Recipe, **device: Any) -> SentenceTransformer:
        model = load_base(made, **device)
        next(model.parameters()).data.fill_(float("nan"))
        return model

    monkeypatch.setattr(training, "load_base", broken)
    monkeypatch.setattr(training, "attach_lora", None)
    with pytest.raises(ValueError, match=r"base slant-tests/tiny-bge-large: its vector of .* is not finite"):
        train(recipe(tmp_path), tmp_path / "run")


@pytest.mark.usefixtures("ungated")
def test_a_seed_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "RUNS", tmp_path / "runs")
    first = train(recipe(tmp_path))
    again = train(recipe(tmp_path), tmp_path / "again")
    other = train(recipe(tmp_path, "seed=1"))
    assert first.parent == tmp_path / "runs"
    assert first.name.startswith("stance-bge-large-") and first != other
    assert same(first, again) and not same(first, other)
    assert (first / "train.log").read_bytes() == (again / "train.log").read_bytes()
    entry = json.loads((first / "train.log").read_text().splitlines()[0])
    assert entry.keys() == {"step", "epoch", "loss", "learning_rate", "grad_norm"} and entry["step"] == 10


@pytest.mark.usefixtures("ungated")
def test_a_killed_run_resumes_to_the_same_adapter(tmp_path: Path) -> None:
    """Killed in the second epoch, three steps after a checkpoint, with half of another checkpoint on the disk."""
    made = recipe(tmp_path, "epochs=2", rows=6)  # 2 epochs of 18 steps, checkpoints at 10, 20, 30
    (tmp_path / "recipe.yaml").write_text(made.to_yaml())
    script = Path(__file__).parent / "killed_run.py"
    done = subprocess.run([sys.executable, str(script), tmp_path / "recipe.yaml", tmp_path / "run", "23"])
    assert done.returncode == -signal.SIGKILL
    partial = tmp_path / ".run.partial"
    assert not (tmp_path / "run").exists()
    assert training_callbacks.last_checkpoint(partial) == partial / "checkpoint-20"
    (partial / "checkpoint-30").mkdir()  # not marked as complete
    resumed = train(made, tmp_path / "run")
    unbroken = train(made, tmp_path / "unbroken")
    assert same(resumed, unbroken)
    assert (resumed / "train.log").read_bytes() == (unbroken / "train.log").read_bytes()


@pytest.mark.usefixtures("ungated")
def test_what_another_run_left_behind_is_not_resumed(tmp_path: Path) -> None:
    made = recipe(tmp_path)
    partial = tmp_path / ".run.partial"
    (partial / "checkpoint-10").mkdir(parents=True)
    (partial / "checkpoint-10" / "complete").touch()
    assert Manifest.read(train(made, tmp_path / "run")).steps == 12


@pytest.mark.usefixtures("gate_in_process")
def test_any_encoder_on_anybodys_claims_by_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the README shows: another base, a file of one's own; a base in a folder makes the run local."""
    made = recipe(tmp_path)
    base = tmp_path / "my-encoder"
    load_base(made).save_pretrained(str(base))
    overrides = [f"base={base}", f"data={tmp_path / 'triplets.jsonl'}", "lora.r=4", "global_batch=4", "epochs=1"]
    monkeypatch.setattr(sys, "argv", ["train.py", "--set", *overrides, "--out", str(tmp_path / "run")])
    assert script.main() == 0
    manifest = Manifest.read(tmp_path / "run")
    assert manifest.status == "local"
    assert manifest.data[0].name == "triplets.jsonl"
    assert str(tmp_path / "triplets") not in (tmp_path / "run" / "recipe.yaml").read_text()


def test_the_command_line_says_what_is_wrong(tmp_path: Path) -> None:
    command = [sys.executable, "train.py", "--set", "lora.rank=4", "--out", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and "unknown key 'lora.rank'" in done.stderr
    assert "Traceback" not in done.stderr


def test_faults_are_told_before_the_base_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "load_base", None)
    with pytest.raises(ValueError, match=r"16 rows of different claims.* has 12"):
        train(recipe(tmp_path, "global_batch=16"), tmp_path / "run")
    monkeypatch.setitem(training.PartialState._shared_state, "num_processes", 3)
    with pytest.raises(ValueError, match="global_batch 4 cannot be shared by 3 processes"):
        train(recipe(tmp_path), tmp_path / "run")
    assert not list(tmp_path.glob(".*"))


@pytest.mark.usefixtures("ungated")
def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = recipe(tmp_path)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(SentenceTransformer, "save_pretrained", full)
        with pytest.raises(OSError, match="No space left"):
            train(made, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert train(made, tmp_path / "run").exists()  # goes on from the last checkpoint


@pytest.mark.parametrize(
    ("units", "wanted", "precision"),
    [(True, "auto", "bf16"), (False, "auto", "fp32"), (True, "fp32", "fp32"), (False, "bf16", "bf16")],
)
def test_precision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, units: bool, wanted: str, precision: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: units)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    assert training.precision_of(recipe(tmp_path, f"precision={wanted}")) == precision


@pytest.mark.usefixtures("gate_in_process")
def test_half_precision_passes_the_gate(tmp_path: Path) -> None:
    """The trainer computes in bf16 under autocast; what is released is what plain loading gives."""
    run = train(recipe(tmp_path, "precision=bf16"), tmp_path / "run")
    assert Manifest.read(run).status == "trained"
    assert all(w.dtype == torch.float32 and np.isfinite(w.numpy()).all() for w in adapter(run).values())


def test_a_gradient_that_overflowed_is_null_in_the_log(tmp_path: Path) -> None:
    state = SimpleNamespace(is_world_process_zero=True, log_history=[{"step": 1, "loss": 0.5, "grad_norm": math.inf}])
    training_callbacks.RunLog(tmp_path).on_log(None, state, None)
    assert json.loads((tmp_path / "train.log").read_text()) == {"step": 1, "loss": 0.5, "grad_norm": None}
