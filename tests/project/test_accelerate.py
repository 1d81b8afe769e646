"""accelerate ignores a misspelt nested key in silence, so every shipped topology is parsed and checked key by key."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from accelerate.commands.config.config_args import ClusterConfig
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import (
    prepare_deepspeed_cmd_env,
    prepare_multi_gpu_env,
    prepare_simple_launcher_cmd_env,
)
from typer.testing import CliRunner

from hub_models.__main__ import app
from hub_models.plan import plan, processes_of
from hub_models.recipe import load_recipe

FOLDER = Path(__file__).resolve().parents[2] / "hub_models" / "accelerate"
FILES = sorted(FOLDER.glob("*.yaml"))
FLAGS = {option.lstrip("-") for action in launch_command_parser()._actions for option in action.option_strings}


def environment(path: Path) -> dict[str, Any]:
    """What ``accelerate launch`` puts into the processes that it starts."""
    where = ["--machine_rank", "3", "--main_process_ip", "10.0.0.1"] if "10x4" in path.stem else []
    args = launch_command_parser().parse_args(["--config_file", str(path), *where, "train.py"])
    args, _, _ = _validate_launch_command(args)
    if args.use_deepspeed:
        nested = yaml.safe_load(path.read_text())["deepspeed_config"]
        args.deepspeed_fields_from_accelerate_config = ",".join(nested)  # as launch does before this
        prepared = prepare_deepspeed_cmd_env(args)[1]
    elif args.multi_gpu or args.use_fsdp:
        prepared = prepare_multi_gpu_env(args)
    else:
        prepared = prepare_simple_launcher_cmd_env(args)[1]
    return {**prepared, "processes": args.num_processes, "machines": args.num_machines}


def test_each_kind_of_topology_is_there() -> None:
    kinds = {"ddp_10x4", "ddp_2x8", "ddp_8", "deepspeed_zero3_8", "fsdp2_10x4", "fsdp2_8", "single_gpu"}
    assert kinds <= {p.stem for p in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_no_key_is_unknown(path: Path) -> None:
    ClusterConfig.from_yaml_file(str(path))  # raises on an unknown key of the first level
    assert processes_of(path) >= 1  # raises on one of fsdp_config or deepspeed_config
    content = yaml.safe_load(path.read_text())
    assert content["mixed_precision"] == "no", "precision is the recipe's alone"


def keys_of(path: Path) -> list[list[str]]:
    """Every key of a file as the way to it: its own name, or that of its part and its own."""
    content = yaml.safe_load(path.read_text())
    return [[key] for key in content] + [[k, key] for k, v in content.items() if isinstance(v, dict) for key in v]


KEYS = [(path, keys) for path in FILES for keys in keys_of(path)]


def renamed(content: dict[str, Any], keys: list[str], name: str) -> dict[str, Any]:
    """The content with one key under another name."""
    key, *rest = keys
    return {
        (name if k == key and not rest else k): (renamed(v, rest, name) if k == key and rest else v)
        for k, v in content.items()
    }


@pytest.mark.parametrize(("path", "keys"), KEYS, ids=[f"{path.stem}-{'.'.join(keys)}" for path, keys in KEYS])
def test_a_misspelt_key_is_refused_by_its_name(path: Path, keys: list[str], tmp_path: Path) -> None:
    content, wrong = yaml.safe_load(path.read_text()), tmp_path / "wrong.yaml"
    for name in (f"{keys[-1]}s", keys[-1][:-1]):
        wrong.write_text(yaml.safe_dump(renamed(content, keys, name)))
        # Of all keys accelerate misses this one before it looks at those that are there.
        said = "A `distributed_type` must be specified" if keys == ["distributed_type"] else f"'{name}'"
        with pytest.raises(ValueError, match=re.escape(said)):
            processes_of(wrong)


def test_no_nested_key_is_left_out_above() -> None:
    assert {tuple(keys) for path, keys in KEYS if path.stem == "fsdp2_10x4"} >= {
        ("mixed_precision",), ("fsdp_config",), ("fsdp_config", "fsdp_version"),
        ("fsdp_config", "fsdp_activation_checkpointing"),
    }  # fmt: skip
    assert (FOLDER / "deepspeed_zero3_8.yaml", ["deepspeed_config", "zero_stage"]) in KEYS


@pytest.mark.parametrize("name", ["fsdp2_8", "deepspeed_zero3_8"])
def test_the_plan_names_a_misspelt_key_that_accelerate_would_ignore(name: str, tmp_path: Path) -> None:
    content = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    part = name.split("2")[0].split("_")[0] + "_config"
    for key in content[part]:
        wrong = tmp_path / f"{key}.yaml"
        wrong.write_text(
            yaml.safe_dump({**content, part: {k + "x" * (k == key): v for k, v in content[part].items()}})
        )
        ClusterConfig.from_yaml_file(str(wrong))  # silence
        told = CliRunner().invoke(app, ["plan", "stance-qwen3-8b", "--config-file", str(wrong)])
        assert told.exit_code == 1
        said = f"knows no '{key}x' in {part} and would ignore it. Did you mean '{key}'?"
        assert said in " ".join(told.output.split())


def test_a_key_of_fsdp_may_lack_its_prefix_as_accelerate_takes_it(tmp_path: Path) -> None:
    content = yaml.safe_load((FOLDER / "fsdp2_8.yaml").read_text())
    bare = {key.removeprefix("fsdp_"): value for key, value in content["fsdp_config"].items()}
    (tmp_path / "bare.yaml").write_text(yaml.safe_dump({**content, "fsdp_config": bare}))
    assert processes_of(tmp_path / "bare.yaml") == 8


def test_a_topology_without_a_number_of_processes_is_refused(tmp_path: Path) -> None:
    content = yaml.safe_load((FOLDER / "ddp_8.yaml").read_text())
    del content["num_processes"]
    (tmp_path / "none.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(ValueError, match="got num_processes: -1, wanted how many all machines start together"):
        processes_of(tmp_path / "none.yaml")


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_as_many_processes_start_as_the_name_says(path: Path) -> None:
    """``ddp_2x8``: two machines of eight processes, which accelerate wants as sixteen."""
    machines, each = re.fullmatch(r"(?:single_gpu|.+?_(?:(\d+)x)?(\d+))", path.stem).groups(default="1")  # type: ignore[union-attr]
    got = environment(path)
    assert (got["machines"], got["processes"]) == (int(machines), int(machines) * int(each))


def test_a_topology_of_several_machines_names_where_they_meet() -> None:
    content = yaml.safe_load((FOLDER / "ddp_2x8.yaml").read_text())
    assert {"machine_rank", "main_process_ip", "main_process_port"} <= content.keys()
    assert {"machine_rank", "main_process_ip"} <= FLAGS, "what the file's header sets on each machine"


def test_deepspeed_shards_everything_and_leaves_the_rest_to_the_recipe() -> None:
    got = environment(FOLDER / "deepspeed_zero3_8.yaml")
    assert got["ACCELERATE_USE_DEEPSPEED"] == "true"
    assert got["ACCELERATE_DEEPSPEED_ZERO_STAGE"] == "3"
    assert got["ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL"] == "true"
    assert got["ACCELERATE_DEEPSPEED_ZERO3_INIT"] == "false"
    assert got["ACCELERATE_GRADIENT_ACCUMULATION_STEPS"] == got["ACCELERATE_GRADIENT_CLIPPING"] == "auto"


@pytest.mark.parametrize("name", ["ddp_10x4", "fsdp2_10x4"])
def test_each_of_ten_machines_starts_four_and_finds_the_first(name: str) -> None:
    args = launch_command_parser().parse_args(
        ["--config_file", str(FOLDER / f"{name}.yaml"), "--machine_rank", "3", "--main_process_ip", "10.0.0.1", "x.py"]
    )
    args, _, _ = _validate_launch_command(args)
    prepare_multi_gpu_env(args)
    assert (args.nnodes, args.nproc_per_node, args.node_rank) == ("10", "4", 3)
    assert args.rdzv_endpoint == "10.0.0.1:29500"


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_plan_refuses_any_topology_that_does_not_divide_the_batch(path: Path) -> None:
    processes = processes_of(path)
    told = CliRunner().invoke(app, ["plan", "stance-qwen3-8b", "--config-file", str(path)])
    if 8 % processes == 0:
        assert told.exit_code == 0 and f"8 ({8 // processes} per device)" in told.output
    else:
        assert told.exit_code == 1
        assert f"global_batch 8 cannot be shared by {processes} processes" in " ".join(told.output.split())


@pytest.mark.parametrize("name", ["obliq-3b", "stance-qwen3-8b"])
def test_a_topology_that_does_not_divide_the_batch_fails_in_plan(name: str) -> None:
    eight, forty = (processes_of(FOLDER / f"ddp_{size}.yaml") for size in ("8", "10x4"))
    recipe = load_recipe(name)
    assert plan(recipe, eight).per_device_batch * 8 == recipe.global_batch
    if name == "obliq-3b":
        assert (plan(recipe, forty).per_device_batch, plan(recipe, forty).steps) == (8, 482)
    else:
        with pytest.raises(ValueError, match="global_batch 8 cannot be shared by 40 processes"):
            plan(recipe, forty)


@pytest.mark.parametrize("name", ["fsdp2_8", "fsdp2_10x4"])
def test_sharding_is_the_second_generation(name: str) -> None:
    got = environment(FOLDER / f"{name}.yaml")
    assert got["ACCELERATE_USE_FSDP"] == "true"
    assert got["FSDP_VERSION"] == "2"
    assert got["FSDP_STATE_DICT_TYPE"] == "FULL_STATE_DICT"
    assert got["FSDP_CPU_RAM_EFFICIENT_LOADING"] == "false"


@pytest.mark.parametrize("name", ["ddp_8", "ddp_10x4"])
def test_copies_are_no_sharding(name: str) -> None:
    assert "ACCELERATE_USE_FSDP" not in environment(FOLDER / f"{name}.yaml")
