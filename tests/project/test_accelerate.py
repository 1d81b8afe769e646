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

FOLDER = Path(__file__).resolve().parents[2] / "hub_models" / "accelerate"
FILES = sorted(FOLDER.glob("*.yaml"))
FLAGS = {option.lstrip("-") for action in launch_command_parser()._actions for option in action.option_strings}


def environment(path: Path) -> dict[str, Any]:
    """What ``accelerate launch`` puts into the processes that it starts."""
    args = launch_command_parser().parse_args(["--config_file", str(path), "train.py"])
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


def unknown_nested_keys(content: dict[str, Any]) -> list[str]:
    nested = [key for part in ("fsdp_config", "deepspeed_config") for key in content.get(part) or {}]
    return [key for key in nested if key not in FLAGS]


def test_each_kind_of_topology_is_there() -> None:
    kinds = {"ddp_2x8.yaml", "ddp_8.yaml", "deepspeed_zero3_8.yaml", "fsdp2_8.yaml", "single_gpu.yaml"}
    assert kinds <= {p.name for p in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_no_key_is_unknown(path: Path) -> None:
    ClusterConfig.from_yaml_file(str(path))  # raises on an unknown key of the first level
    content = yaml.safe_load(path.read_text())
    assert unknown_nested_keys(content) == []
    assert content["mixed_precision"] == "no", "precision is the recipe's alone"


def test_the_check_sees_a_misspelt_key() -> None:
    assert unknown_nested_keys({"fsdp_config": {"fsdp_versionn": 2, "fsdp_version": 2}}) == ["fsdp_versionn"]
    assert unknown_nested_keys({"deepspeed_config": {"zero_stagee": 3, "zero_stage": 3}}) == ["zero_stagee"]


def test_accelerate_itself_refuses_a_misspelt_key_of_the_first_level(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text((FOLDER / "ddp_2x8.yaml").read_text().replace("num_machines", "num_machine"))
    with pytest.raises(ValueError, match="num_machine"):
        ClusterConfig.from_yaml_file(str(tmp_path / "x.yaml"))


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


def test_sharding_is_the_second_generation() -> None:
    got = environment(FOLDER / "fsdp2_8.yaml")
    assert got["ACCELERATE_USE_FSDP"] == "true"
    assert got["FSDP_VERSION"] == "2"
    assert got["FSDP_STATE_DICT_TYPE"] == "FULL_STATE_DICT"
    assert got["FSDP_CPU_RAM_EFFICIENT_LOADING"] == "false"


def test_copies_are_no_sharding() -> None:
    assert "ACCELERATE_USE_FSDP" not in environment(FOLDER / "ddp_8.yaml")
