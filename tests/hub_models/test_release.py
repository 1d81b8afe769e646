"""The gate on a tiny run, and on that run with one fault at a time."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer

from hub_models import training
from hub_models.adapter import attach_lora
from hub_models.base import load_base
from hub_models.manifest import Manifest
from hub_models.release import GateError, Probe, gate, machine_paths, probe
from tests.tiny import tiny
from tests.training_runs import recipe


def save_run(folder: Path) -> Probe:
    """A model with a random adapter, saved; its probe."""
    made = tiny("stance-qwen3-8b")
    model = load_base(made)
    attach_lora(model, made)
    torch.manual_seed(1)
    for name, matrix in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(matrix, std=0.2)
    model.save_pretrained(str(folder), create_model_card=False)
    return probe(model)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Probe]:
    folder = tmp_path_factory.mktemp("release") / "run"
    return folder, save_run(folder)


def edit(path: Path, change: Callable[[Any], None]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def scale_adapter(run: Path, part: str, factor: float) -> None:
    path = run / "adapter_model.safetensors"
    save_file({n: w * factor if part in n else w for n, w in load_file(path).items()}, path)


def test_a_good_run_passes(saved: tuple[Path, Probe]) -> None:
    gate(*saved)


def _other_weights(run: Path) -> None:
    scale_adapter(run, "lora_B", 1.2)


def _zero(run: Path) -> None:
    scale_adapter(run, "lora_B", 0.0)


def _no_effect(run: Path) -> None:
    scale_adapter(run, "lora_A", 0.0)


def _prompt(run: Path) -> None:
    edit(run / "config_sentence_transformers.json", lambda c: c["prompts"].update(attack="Find "))


def _length(run: Path) -> None:
    edit(run / "tokenizer_config.json", lambda c: c.update(model_max_length=32))


def _pooling(run: Path) -> None:
    path = next(run.glob("*_Pooling/config.json"))
    edit(path, lambda c: c.update(pooling_mode="mean"))


def _path(run: Path) -> None:
    (run / "README.md").write_text("---\nbase_model: ./ckpt/base\n---\n")


@pytest.mark.usefixtures("gate_in_process")
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (_other_weights, r"an embedding has cosine 0\.\d+ to the trained one, wanted above 0.9999"),
        (_zero, r"adapter matrices are zero.*the adapter has no effect"),
        (_no_effect, "the adapter has no effect"),
        (_prompt, r"prompts was .*Find evidence refuting.* and is .*'attack': 'Find '"),
        (_length, "max_seq_length was 64 in training and is 32 when loaded"),
        (_pooling, "pooling was .*lasttoken.* and is .*mean"),
        (_path, "README.md names a path of this machine: './ckpt/base'"),
    ],
)
def test_a_fault_does_not_pass(
    saved: tuple[Path, Probe], tmp_path: Path, fault: Callable[[Path], None], message: str
) -> None:
    run, trained = saved
    broken = tmp_path / "run"
    shutil.copytree(run, broken)
    fault(broken)
    with pytest.raises(GateError, match=f"(?s){message}"):
        gate(broken, trained)


def test_a_base_that_cannot_be_reached_does_not_pass(saved: tuple[Path, Probe], tmp_path: Path) -> None:
    run, trained = saved
    shutil.copytree(run, tmp_path / "run")
    edit(tmp_path / "run" / "adapter_config.json", lambda c: c.update(base_model_name_or_path="nobody/nothing"))
    with pytest.raises(GateError, match=r"base nobody/nothing\) does not load in a fresh process, offline: OSError: "):
        gate(tmp_path / "run", trained)


@pytest.mark.usefixtures("gate_in_process")
def test_without_modules_json_it_does_not_pass_case_11(saved: tuple[Path, Probe], tmp_path: Path) -> None:
    """Plain loading then builds a mean-pooling model with a mere warning."""
    run, trained = saved
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "modules.json").unlink()
    with pytest.raises(GateError, match="pooling was"):
        gate(tmp_path / "run", trained)


@pytest.mark.parametrize("text", ["./ckpt/base", "~/ckpt/base", "/srv/ckpt/base", "C:\\ckpt\\base"])
def test_machine_paths_case_10(tmp_path: Path, text: str) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps({"deep": [{"base_model_name_or_path": text}]}))
    (tmp_path / "README.md").write_text(f"---\nbase_model: {json.dumps(text)}\n---\nbody\n")
    (tmp_path / "recipe.yaml").write_text(json.dumps({"base": text}))
    found = list(machine_paths(tmp_path))
    assert found == [("README.md", text), ("adapter_config.json", text), ("recipe.yaml", text)]


def test_known_folders_are_found_in_any_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    run.mkdir()
    monkeypatch.setenv("HF_HOME", "/srv/cache")
    (run / "README.md").write_text("no path: and/or, 1/2, https://huggingface.co/tmpx, ~ 5")
    (run / "tokenizer.json").write_text(json.dumps({"/": 0, "./": 1, "~": 2, "vocab": ["/"]}))
    assert list(machine_paths(run)) == []
    (run / "weights.bin").write_bytes(b"\x00" + str(Path.home()).encode() + b"/x\x00 /srv/cache/hub")
    assert dict(machine_paths(run)).keys() == {"weights.bin"}
    assert {found for _, found in machine_paths(run)} == {f"{Path.home()}/", "/srv/cache/"}


@pytest.mark.usefixtures("gate_in_process")
def test_a_failed_run_is_marked_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trained model is not the one that was saved; the second try starts anew."""
    made = recipe(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(training, "probe", lambda model: _turned(probe(model)))
        with pytest.raises(GateError, match=r"run did not pass the gate and is marked as failed: .*cosine -1\.0"):
            training.train(made, tmp_path / "run")
    manifest = Manifest.read(tmp_path / "run")
    assert manifest.status == "failed"
    assert manifest.failure is not None and "cosine -1.0" in manifest.failure
    assert Manifest.read(training.train(made, tmp_path / "run")).status == "trained"
    assert not list(tmp_path.glob(".*"))


@pytest.mark.usefixtures("gate_in_process")
def test_a_bit_that_turns_between_save_and_gate_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last bit of one weight: far too little for an embedding to show."""

    def spoil(run_dir: Path, trained: Probe, *, check_paths: bool = True) -> None:
        path = run_dir / "adapter_model.safetensors"
        content = bytearray(path.read_bytes())
        content[-4] ^= 1
        path.write_bytes(content)
        gate(run_dir, trained, check_paths=check_paths)

    monkeypatch.setattr(training, "gate", spoil)
    with pytest.raises(GateError, match=r"adapter_model\.safetensors does not hold the weights that were trained"):
        training.train(recipe(tmp_path), tmp_path / "run")


def test_a_probe_is_read_as_it_was_written(saved: tuple[Path, Probe], tmp_path: Path) -> None:
    _, trained = saved
    trained.write(tmp_path)
    first = (tmp_path / "probe.safetensors").read_bytes()
    again = Probe.read(tmp_path)
    assert again.faults(trained.embeddings, trained.description) == [] and again.weights == trained.weights
    again.write(tmp_path)
    assert (tmp_path / "probe.safetensors").read_bytes() == first
    (tmp_path / "probe.safetensors").write_bytes(first[:-9])
    with pytest.raises(ValueError, match="is damaged"):
        Probe.read(tmp_path)


def _turned(trained: Probe) -> Probe:
    return dataclasses.replace(trained, embeddings=-trained.embeddings)


@pytest.mark.usefixtures("gate_in_process")
def test_a_base_in_a_folder_skips_the_paths_alone(tmp_path: Path) -> None:
    made = tiny("stance-bge-large")
    base = tmp_path / "base"
    load_base(made).save_pretrained(str(base))
    local = made.model_copy(update={"base": str(base), "base_revision": None})
    model = load_base(local)
    attach_lora(model, local)
    for name, matrix in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(matrix, std=0.2)
    run = tmp_path / "run"
    model.save_pretrained(str(run), create_model_card=False)
    gate(run, probe(model), check_paths=False)
    with pytest.raises(GateError, match=r"adapter_config.json names a path of this machine"):
        gate(run, probe(model))
    assert isinstance(SentenceTransformer(str(run)), SentenceTransformer)
    assert np.isfinite(probe(model).embeddings).all()
