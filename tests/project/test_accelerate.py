"""accelerate ignores a misspelt nested key in silence, so every shipped topology is parsed and checked key by key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from accelerate.commands.config.config_args import ClusterConfig
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_multi_gpu_env, prepare_simple_launcher_cmd_env

FOLDER = Path(__file__).resolve().parents[2] / "hub_models" / "accelerate"
FILES = sorted(FOLDER.glob("*.yaml"))
FLAGS = {option.lstrip("-") for action in launch_command_parser()._actions for option in action.option_strings}


def environment(path: Path) -> dict[str, Any]:
    """What ``accelerate launch`` puts into the processes that it starts."""
    args = launch_command_parser().parse_args(["--config_file", str(path), "train.py"])
    args, _, _ = _validate_launch_command(args)
    prepare = (
        prepare_multi_gpu_env if args.multi_gpu or args.use_fsdp else lambda a: prepare_simple_launcher_cmd_env(a)[1]
    )
    return {**prepare(args), "processes": args.num_processes}


def unknown_nested_keys(content: dict[str, Any]) -> list[str]:
    return [key for key in content.get("fsdp_config") or {} if key not in FLAGS]


def test_the_three_topologies_are_there() -> None:
    assert [p.name for p in FILES] == ["ddp_8.yaml", "fsdp2_8.yaml", "single_gpu.yaml"]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_no_key_is_unknown(path: Path) -> None:
    ClusterConfig.from_yaml_file(str(path))  # raises on an unknown key of the first level
    content = yaml.safe_load(path.read_text())
    assert unknown_nested_keys(content) == []
    assert content["mixed_precision"] == "no", "precision is the recipe's alone"


def test_the_check_sees_a_misspelt_key() -> None:
    assert unknown_nested_keys({"fsdp_config": {"fsdp_versionn": 2, "fsdp_version": 2}}) == ["fsdp_versionn"]


@pytest.mark.parametrize(("name", "processes"), [("single_gpu", 1), ("ddp_8", 8), ("fsdp2_8", 8)])
def test_as_many_processes_start_as_the_name_says(name: str, processes: int) -> None:
    assert environment(FOLDER / f"{name}.yaml")["processes"] == processes


def test_sharding_is_the_second_generation() -> None:
    got = environment(FOLDER / "fsdp2_8.yaml")
    assert got["ACCELERATE_USE_FSDP"] == "true"
    assert got["FSDP_VERSION"] == "2"
    assert got["FSDP_STATE_DICT_TYPE"] == "FULL_STATE_DICT"
    assert got["FSDP_CPU_RAM_EFFICIENT_LOADING"] == "false"


def test_copies_are_no_sharding() -> None:
    assert "ACCELERATE_USE_FSDP" not in environment(FOLDER / "ddp_8.yaml")
