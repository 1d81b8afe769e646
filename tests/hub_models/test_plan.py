"""The plan of a run: counts that are known exactly, and how they move."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

from hub_models.__main__ import app
from hub_models.adapter import attach_lora
from hub_models.base import load_base
from hub_models.plan import plan
from hub_models.recipe import LORA_TARGETS, load_recipe
from tests.tiny import SHRUNK, tiny


@pytest.mark.parametrize(
    ("name", "trainable", "base"),
    [
        ("stance-qwen3-8b", 174_587_904, 7_567_295_488),
        ("stance-bge-large", 28_311_552, 335_141_888),
        # By hand: 24 × (4 × 1024 × 4096 + 2 × 1024 × 16384 + 2 × 1024) + 32128 × 1024 + 32 × 32 + 1024.
        ("stance-instructor-xl", 31_457_280, 1_240_909_824),
        # 28 layers × 16 × (q, o: 2 × 6144; k, v: 2 × 4096; gate, up, down: 3 × 11264).
        ("obliq-3b", 24_313_856, 3_212_749_824),
        ("obliq-minilm", 6 * 16 * (4 * 768 + 2 * 1920), 22_713_216),
        # MiniLM by hand: 6 layers × 64 × (4 × (384 + 384) + 2 × (384 + 1536)).
        ("stance-minilm", 6 * 64 * (4 * 768 + 2 * 1920), 22_713_216),
    ],
)
def test_parameters_are_counted_exactly(name: str, trainable: int, base: int) -> None:
    made = plan(load_recipe(name))
    assert (made.trainable, made.base) == (trainable, base)
    assert made.total == base + trainable + (1024 * 768 if name == "stance-instructor-xl" else 0)


@pytest.mark.parametrize("model_type", sorted(LORA_TARGETS))
def test_every_known_architecture_can_be_planned(model_type: str) -> None:
    overrides = ["base=org/x", f"architecture.model_type={model_type}"]
    made = plan(load_recipe("stance-minilm", overrides))
    assert 0 < made.trainable < made.base
    assert all(size > 0 for size in made.memory.values())


def test_a_misspelt_dimension_is_an_error() -> None:
    recipe = load_recipe("stance-minilm", ["architecture.hiden_size=12"])
    with pytest.raises(ValueError, match=r"a bert configuration has no hiden_size\. Did you mean 'hidden_size'\?"):
        plan(recipe)


@pytest.mark.parametrize("dimension", ["hidden_size=abc", "hidden_size=-4", "num_attention_heads=0", "hidden_act=foo"])
def test_an_architecture_that_cannot_be_built_is_an_error(dimension: str) -> None:
    with pytest.raises(
        ValueError, match=r"no model can be built from its architecture .*as in the base's config\.json"
    ):
        plan(load_recipe("stance-minilm", [f"architecture.{dimension}"]))


def test_the_recipes_architecture_is_that_of_the_real_base() -> None:
    # Without the block the plan comes from the base's own config.json.
    assert plan(load_recipe("stance-minilm", ["architecture=null"])) == plan(load_recipe("stance-minilm"))


def test_another_rank_scales_the_adapter() -> None:
    assert (
        plan(load_recipe("stance-minilm", ["lora.r=16"])).trainable * 4 == plan(load_recipe("stance-minilm")).trainable
    )


@pytest.mark.parametrize("name", list(SHRUNK))
def test_the_plan_counts_what_training_moves(name: str) -> None:
    recipe = tiny(name)
    model = load_base(recipe, device="cpu")
    attach_lora(model, recipe)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    made = plan(recipe)  # no architecture in the recipe: from the base's config.json
    assert made.trainable == trained
    assert made.total == sum(p.numel() for p in model[0].parameters())


def test_steps_tokens_and_negatives_of_the_paper() -> None:
    made = plan(load_recipe("stance-qwen3-8b"))
    # 31,800 / 8 = 3,975 batches an epoch, two of them a step, the last one alone.
    assert (made.rows, made.batches, made.steps) == (31_800, 2 * 3_975, 2 * 1_988)
    assert made.tokens == 2 * 31_800 * 3 * 512
    assert made.negatives == 7 + 8  # the other rows' positives, and all rows' hard negatives


def test_processes_share_the_batch_and_drop_the_partial_step() -> None:
    recipe = load_recipe("stance-minilm", ["data.0.dose=100", "negatives_per_anchor=2"])
    one, two = plan(recipe), plan(recipe, 2)
    assert (one.per_device_batch, one.steps, one.negatives) == (16, 7, 47)
    assert (two.per_device_batch, two.steps, two.negatives) == (8, 6, 47)
    assert two.memory["activations"] * 2 == one.memory["activations"]
    assert two.memory["frozen weights"] == one.memory["frozen weights"]


def test_without_a_dose_the_rows_of_a_built_folder_count(tmp_path: Path) -> None:
    readme = ["---", "configs:"]
    for config, rows in [("homogeneous", 33), ("mixed", 40)]:
        path = f"{config}/train-0.parquet"
        (tmp_path / config).mkdir()
        pq.write_table(pa.table({"claim": ["x"] * rows}), tmp_path / path)
        readme += [f"- config_name: {config}", f"  data_files: [{{split: train, path: {path}}}]"]
    (tmp_path / "README.md").write_text("\n".join([*readme, "---", ""]))
    data = f"data={tmp_path}"
    made = plan(load_recipe("stance-minilm", [data]))
    assert (made.rows, made.steps) == (40, 3)
    assert plan(load_recipe("stance-minilm", [data, "data.0.config=homogeneous"])).rows == 33
    assert plan(load_recipe("stance-minilm", [data, "data.0.dose=7"])).rows == 7
    assert plan(load_recipe("stance-minilm", [data, "data.0.split=validation"])).rows is None


def test_rows_that_nobody_knows_are_said_to_be_unknown(tmp_path: Path) -> None:
    for data in ("nowhere.jsonl", str(tmp_path)):
        made = plan(load_recipe("stance-minilm", [f"data={data}"]))
        assert (made.rows, made.steps, made.tokens) == (None, None, None)
        assert "unknown: build the data first, or set data.0.dose=ROWS" in made.table()


def test_memory_by_part() -> None:
    made = plan(load_recipe("stance-qwen3-8b"))
    assert made.memory["frozen weights"] == 2 * 7_567_295_488
    assert made.memory["adapter (float32)"] == 4 * 174_587_904
    assert made.memory["AdamW moments (float32)"] == 8 * 174_587_904
    # 24 texts of 512 tokens in 16 bits: 36 boundaries of 4096, one layer of 9 × 4096 and 4 × 12288.
    assert made.memory["activations"] == 2 * 24 * 512 * (36 * 4096 + 9 * 4096 + 4 * 12288)


def test_memory_moves_as_it_should() -> None:
    def activations(*overrides: str) -> int:
        return plan(load_recipe("stance-bge-large", overrides)).memory["activations"]

    whole = activations("gradient_checkpointing=false")
    assert activations() < whole / 5
    assert activations("gradient_checkpointing=false", "precision=fp32") == 2 * whole
    cached = ["loss.name=cached_mnrl", "loss.mini_batch=4", "gradient_checkpointing=false"]
    assert math.isclose(activations(*cached), whole / 6)
    cached[1] = "loss.mini_batch=8"  # the whole batch of a device: nothing is cached
    assert activations(*cached) == whole


def test_planning_makes_no_weights() -> None:
    before = torch.get_rng_state()
    plan(load_recipe("stance-bge-large"))
    assert torch.equal(torch.get_rng_state(), before)


def test_the_command_prints_the_plan() -> None:
    result = CliRunner().invoke(app, ["plan", "stance-qwen3-8b", "--world-size", "4", "--set", "seed=3"])
    assert result.exit_code == 0, result.output
    for figure in ("174,587,904", "7,567,295,488", "8 (2 per device)", "estimated", "frozen weights", "14.10 GiB"):
        assert figure in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["stance-qwen3-8b", "--world-size", "3"], "cannot be shared by 3 processes"),
        (["obliq-3b", "--world-size", "7"], "cannot be shared by 7 processes"),
        (["stance-qwen-8b"], "Did you mean 'stance-qwen3-8b'"),
        (["stance-minilm", "--set", "lerning_rate=1"], "Did you mean 'learning_rate'"),
    ],
)
def test_the_command_refuses_with_a_reason(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(app, ["plan", *arguments])
    assert result.exit_code == 1
    assert words in result.output
