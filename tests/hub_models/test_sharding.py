"""Parameters that no process holds whole: gathered, put back, and refused where they could not be saved."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from hub_models import sharding, training, training_callbacks
from hub_models.adapter import attach_lora
from hub_models.base import load_base
from hub_models.manifest import Manifest
from hub_models.training import train
from tests.tiny import tiny
from tests.training_runs import check_learnt_alike, recipe

ROOT = Path(__file__).parents[2]


def encoder() -> SentenceTransformer:
    made = tiny("stance-qwen3-8b")
    model = load_base(made, device="cpu")
    attach_lora(model, made)
    return model


@pytest.fixture
def process_group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("process_group")
def test_whole_weights_go_into_a_sharded_encoder_and_come_back() -> None:
    model, wanted = encoder(), {}
    for i, (name, weight) in enumerate(sharding.of_adapter(model.state_dict()).items()):
        wanted[name] = torch.full_like(weight, i + 1)
    assert len(wanted) == 2 * 2 * 7  # A and B of seven modules in two layers
    for layer in model.transformers_model.layers:
        fully_shard(layer)
    fully_shard(model)
    assert all(isinstance(p, DTensor) for p in model.parameters())
    base = model.state_dict()["0.model.embed_tokens.weight"].full_tensor().clone()
    sharding.load_adapter(model, wanted)

    options = StateDictOptions(full_state_dict=True)
    accelerator: Any = SimpleNamespace(get_state_dict=lambda m: get_model_state_dict(m, options=options))
    found = sharding.adapter_weights(accelerator, model)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], weight) for name, weight in wanted.items())
    assert torch.equal(model.state_dict()["0.model.embed_tokens.weight"].full_tensor(), base)


def test_a_process_that_gathered_nothing_has_no_weights() -> None:
    for nothing in ({}, None):  # FSDP2 and DeepSpeed, each but the main process
        accelerator: Any = SimpleNamespace(get_state_dict=lambda _, nothing=nothing: nothing)
        assert sharding.adapter_weights(accelerator, None) == {}


def test_weights_of_another_adapter_are_refused() -> None:
    model = encoder()
    weights = sharding.of_adapter(model.state_dict())
    name = next(iter(weights))
    missing = {k: v for k, v in weights.items() if k != name}
    with pytest.raises(ValueError, match=rf"got 27 adapter matrices, wanted 28, which differ in \['{name}'\]"):
        sharding.load_adapter(model, missing)


def accelerator(**state: Any) -> Any:
    return SimpleNamespace(state=SimpleNamespace(num_processes=2, device=torch.device("cpu"), **state))


def fsdp(version: int = 2, kept: str = "FULL_STATE_DICT", layers: Any = None) -> SimpleNamespace:
    return SimpleNamespace(fsdp_version=version, state_dict_type=kept, transformer_cls_names_to_wrap=layers)


def test_layers_are_named_unless_the_user_has_named_them() -> None:
    plugin, model = fsdp(), encoder()
    sharding.prepare(accelerator(fsdp_plugin=plugin), model)
    assert plugin.transformer_cls_names_to_wrap == ["Qwen3DecoderLayer"]
    own = fsdp(layers=["Qwen3MLP"])
    sharding.prepare(accelerator(fsdp_plugin=own), model)
    assert own.transformer_cls_names_to_wrap == ["Qwen3MLP"]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({}, r"was told to shard the model and does not on 2 process\(es\) of cpu, .* start with torchrun instead"),
        ({"fsdp_plugin": fsdp(version=1)}, "got FSDP1 with FULL_STATE_DICT, wanted fsdp_version: 2"),
        ({"fsdp_plugin": fsdp(kept="SHARDED_STATE_DICT")}, "got FSDP2 with SHARDED_STATE_DICT, wanted .*fsdp2_8.yaml"),
    ],
)
def test_what_could_not_be_saved_is_refused_before_training(state: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        sharding.prepare(accelerator(**state), encoder())


def test_on_cpus_a_launch_that_shards_is_refused_and_not_turned_into_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(ValueError, match=r"does not on 1 process\(es\) of cpu"):
        train(recipe(tmp_path), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def launched(topology: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Two processes on CPUs, by accelerate and a topology that is committed for GPUs."""
    file = f"hub_models/accelerate/{topology}.yaml"
    command = ["-m", "accelerate.commands.launch", "--config_file", file, "--num_processes", "2"]
    command += ["--main_process_port", "0", str(Path(__file__).parent / "sharded_run.py"), *map(str, arguments)]
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=ROOT)


LAYERS = ["FSDPQwen3DecoderLayer", "FSDPQwen3DecoderLayer", "FSDPQwen3RMSNorm", "FSDPSentenceTransformer"]


@pytest.mark.slow
@pytest.mark.parametrize(("topology", "units"), [("fsdp2_8", LAYERS), ("deepspeed_zero3_8", [])])
def test_two_processes_that_share_a_model_learn_what_one_learns(
    topology: str, units: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in the second epoch, resumed, gathered, through the gate; each process holds half."""
    if topology.startswith("deepspeed"):
        pytest.importorskip("deepspeed")
    made = recipe(tmp_path, "lora.dropout=0", "epochs=2", name="stance-qwen3-8b")  # 24 steps, checkpoints at 10 and 20
    (tmp_path / "recipe.yaml").write_text(made.to_yaml())
    assert launched(topology, tmp_path / "recipe.yaml", tmp_path / "run", "13").returncode != 0
    checkpoint = training_callbacks.last_checkpoint(tmp_path / ".run.partial")
    assert checkpoint == tmp_path / ".run.partial" / "checkpoint-10"
    assert len(load_file(checkpoint / "adapter_model.safetensors")) == 28
    assert not list(checkpoint.glob("pytorch_model*"))  # the base is not in it
    for rank in (0, 1):
        record = json.loads((tmp_path / f"run.rank{rank}.json").read_text())
        assert record == {"world_size": 2, "share": pytest.approx(0.5, abs=0.01), "units": units}

    done = launched(topology, tmp_path / "recipe.yaml", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("2 process(es), sharded") == 1 and "resuming at checkpoint-10" in done.stderr
    manifest = Manifest.read(tmp_path / "run")
    assert (manifest.status, manifest.steps) == ("trained", 24)

    monkeypatch.setattr(training, "gate", lambda *_, **__: None)
    check_learnt_alike(tmp_path / "run", train(made, tmp_path / "alone"), share=1 / 1000)
    losses = [
        [json.loads(line)["loss"] for line in (tmp_path / run / "train.log").read_text().splitlines()]
        for run in ("run", "alone")
    ]
    assert len(losses[0]) == 2 and losses[0] == pytest.approx(losses[1], rel=1e-4)
