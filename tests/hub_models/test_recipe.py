"""Recipes: what comes with the package, what is refused, what the command line may change."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModel, T5EncoderModel

from hub_models.adapter import add_lora
from hub_models.recipe import LORA_TARGETS, Recipe, load_recipe, recipe_names

SPACED = "Instruct: {instruction}\nQuery: {claim}"
BERT = ["attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"]
BERT += ["intermediate.dense", "output.dense"]
PROJECTIONS = [f"self_attn.{p}_proj" for p in "qkvo"] + [f"mlp.{p}_proj" for p in ("gate", "up", "down")]


def test_the_recipes_that_come_with_the_package() -> None:
    stance = ["stance-bge-large", "stance-instructor-xl", "stance-minilm", "stance-qwen3-8b"]
    assert recipe_names() == ["obliq-3b", "obliq-minilm", *stance]


@pytest.mark.parametrize(
    ("name", "pooling", "template", "revision"),
    [
        ("stance-bge-large", "cls", SPACED, "d4aa6901d3a41ba39fb536a557fa166f842b0e09"),
        ("stance-instructor-xl", "mean", "{instruction} {claim}", None),
        ("stance-qwen3-8b", "lasttoken", SPACED, "4e423935c619ae4df87b646a3ce949610c66241c"),
    ],
)
def test_large_recipes_hold_the_papers_settings(name: str, pooling: str, template: str, revision: str | None) -> None:
    recipe = load_recipe(name)
    assert (recipe.pooling, recipe.query_template, recipe.base_revision) == (pooling, template, revision)
    assert (recipe.lora.r, recipe.lora.alpha, recipe.lora.dropout) == (64, 128, 0.05)
    assert (recipe.epochs, recipe.global_batch, recipe.accumulation) == (2, 8, 2)
    assert (recipe.learning_rate, recipe.warmup, recipe.precision) == (2e-5, 0.1, "bf16")
    assert (recipe.loss.name, recipe.loss.scale, recipe.gradient_checkpointing) == ("mnrl", 20, True)
    assert sum(entry.dose or 0 for entry in recipe.data) == 31_800


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_names_itself_its_pins_and_no_evaluation_split(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.base_revision is not None or name in ("stance-instructor-xl", "obliq-3b")
    assert recipe.architecture is not None
    assert recipe.lora_targets(recipe.architecture.model_type) == LORA_TARGETS[recipe.architecture.model_type]
    assert {entry.split for entry in recipe.data} == {"train"}


@pytest.mark.parametrize("name", recipe_names())
def test_the_resolved_recipe_reads_back_equal(name: str, tmp_path: Path) -> None:
    recipe = load_recipe(name, ["lora.r=8", "learning_rate=1e-4"])
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml(), encoding="utf-8")
    again = load_recipe(tmp_path / "recipe.yaml")
    assert again == recipe
    assert again.hash == recipe.hash != load_recipe(name).hash


def test_the_hash_does_not_depend_on_the_order_of_keys(tmp_path: Path) -> None:
    lines = load_recipe("stance-minilm").model_dump(mode="json")
    reordered = Recipe.model_validate(dict(reversed(lines.items())))
    assert reordered.hash == load_recipe("stance-minilm").hash


def test_overrides_reach_nested_keys_lists_and_numbers_without_a_dot() -> None:
    recipe = load_recipe(
        "stance-minilm", ["lora.r=8", "data.0.config=homogeneous", "learning_rate=2e-5", "loss.scale=50", "seed=7"]
    )
    assert (recipe.lora.r, recipe.data[0].config, recipe.learning_rate) == (8, "homogeneous", 2e-5)
    assert (recipe.loss.scale, recipe.seed) == (50, 7)


def test_data_as_a_path_replaces_the_list() -> None:
    (entry,) = load_recipe("stance-minilm", ["data=mine/claims.jsonl"]).data
    assert (entry.path, entry.config, entry.dose, entry.split) == ("mine/claims.jsonl", None, None, "train")


def test_another_base_inherits_nothing_of_the_old_one() -> None:
    old = load_recipe("stance-qwen3-8b")
    new = load_recipe("stance-qwen3-8b", ["base=org/other"])
    assert (new.base, new.base_revision, new.architecture, new.pooling) == ("org/other", None, None, None)
    assert (new.end_token, new.lora.target_modules, new.query_template) == (None, None, "{instruction} {claim}")
    assert (new.lora.r, new.learning_rate, new.data) == (old.lora.r, old.learning_rate, old.data)


def test_another_base_keeps_what_is_given_with_it() -> None:
    given = ["pooling=cls", "base=org/other", f"base_revision={'a' * 40}", "lora.target_modules=x"]
    recipe = load_recipe("stance-qwen3-8b", given)
    assert (recipe.pooling, recipe.base_revision, recipe.lora.target_modules) == ("cls", "a" * 40, "x")


def test_the_same_base_keeps_its_pin() -> None:
    same = load_recipe("stance-minilm", ["base=sentence-transformers/all-MiniLM-L6-v2"])
    assert same == load_recipe("stance-minilm")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("lerning_rate=1", r"unknown key 'lerning_rate'\. Did you mean 'learning_rate'\?"),
        ("lora.alhpa=1", r"unknown key 'lora\.alhpa'\. Did you mean 'alpha'\?"),
        ("data.0.confg=mixed", r"unknown key 'data\.0\.confg'\. Did you mean 'config'\?"),
        ("loss.nmae=mnrl", r"unknown key 'loss\.nmae'\. Did you mean 'name'\?"),
        ("lora.r=0", r"lora\.r = 0: Input should be greater than 0"),
        ("warmup=1.5", r"warmup = 1\.5: Input should be less than 1"),
        ("base_revision=main", r"base_revision = 'main'"),
        ("query_template='{claim} {instruction}'", r"wanted \{instruction\} somewhere and \{claim\} once"),
        ("loss.name=cached_mnrl", r"cached_mnrl wants one, mnrl none"),
        ("loss.mini_batch=4", r"cached_mnrl wants one, mnrl none"),
        ("data=[]", r"data = \[\]: wanted at least one entry"),
        ("data=[{config: mixed}]", r"got repo None and path None, wanted exactly one"),
        ("data=[{path: x, revision: main}]", r"a `path` is pinned by `sha256`"),
        (f"data=[{{repo: a/b, sha256: {'a' * 64}}}]", r"a `repo` is pinned by `revision`"),
        ("data.1.config=mixed", r"got '1', wanted a position from 0 to 0"),
        ("seed.x=1", r"'seed' is a single value and has no keys"),
        ("learning_rate", r"wanted key=value"),
        ("lora=null", r"lora = None"),
        ("lora={", r"override lora=\{: the value is no YAML .*quote it twice"),
        ("epochs=.inf", r"epochs = inf: Input should be a finite number"),
        ("learning_rate=.inf", r"learning_rate = inf: Input should be a finite number"),
        ("loss.scale=.inf", r"loss\.scale = inf: Input should be a finite number"),
        ("lora.target_modules='layers.(q'", r"lora\.target_modules = 'layers.\(q': wanted a regular expression"),
        (f"seed={2**32}", r"seed = 4294967296: Input should be less than 4294967296"),
        ("query_template=5", r"query_template = '5': .*wanted \{instruction\}"),
    ],
)
def test_a_bad_override_says_what_was_meant(override: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_recipe("stance-minilm", [override])


def test_all_faults_of_a_file_are_listed_at_once(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nbase: org/x\nlorra: {r: 8, alpha: 16}\nglobal_batch: 1\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"key 'lora' is missing.*global_batch = 1.*unknown key 'lorra'"):
        load_recipe(path)


def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    (tmp_path / "list.yaml").write_text("- 1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="got list, wanted the keys and values of a recipe"):
        load_recipe(tmp_path / "list.yaml")


def test_a_file_that_is_no_yaml_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("name: [\nbase: x\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"broken\.yaml is no YAML \(.*line 3.*\); repair it"):
        load_recipe(tmp_path / "broken.yaml")


@pytest.mark.parametrize(
    "template", ["{instruction}: {claim}", "{instruction} {claim}", "Query: {instruction}: {claim}"]
)
def test_a_template_needs_no_quotes_of_its_own(template: str) -> None:
    assert load_recipe("stance-minilm", [f"query_template={template}"]).query_template == template


def test_a_misspelt_recipe_name_is_suggested() -> None:
    with pytest.raises(FileNotFoundError, match=r"Did you mean 'stance-minilm'\?"):
        load_recipe("stance-mini-lm")


@pytest.mark.parametrize(("world_size", "rows"), [(1, 16), (2, 8), (4, 4), (16, 1)])
def test_the_global_batch_is_shared_evenly(world_size: int, rows: int) -> None:
    assert load_recipe("stance-minilm").per_device_batch(world_size) == rows


@pytest.mark.parametrize("world_size", [3, 5, 32, 0])
def test_a_world_size_that_does_not_divide_is_an_error(world_size: int) -> None:
    with pytest.raises(ValueError, match=f"global_batch 16 cannot be shared by {world_size} processes; use one of"):
        load_recipe("stance-minilm").per_device_batch(world_size)


def test_an_unknown_architecture_asks_for_target_modules() -> None:
    recipe = load_recipe("stance-minilm", ["base=org/x"])
    with pytest.raises(ValueError, match=r"architecture 'rwkv'.*set lora.target_modules"):
        recipe.lora_targets("rwkv")
    assert load_recipe("stance-minilm", ["base=org/x", "lora.target_modules=abc"]).lora_targets("rwkv") == "abc"


@pytest.mark.parametrize(
    ("model_type", "layer", "modules"),
    [
        ("bert", "encoder.layer.{}.", BERT),
        ("roberta", "encoder.layer.{}.", BERT),
        ("xlm-roberta", "encoder.layer.{}.", BERT),
        (
            "distilbert",
            "transformer.layer.{}.",
            [*(f"attention.{p}_lin" for p in ("q", "k", "v", "out")), "ffn.lin1", "ffn.lin2"],
        ),
        (
            "mpnet",
            "encoder.layer.{}.",
            [*(f"attention.attn.{p}" for p in "qkvo"), "intermediate.dense", "output.dense"],
        ),
        ("modernbert", "layers.{}.", ["attn.Wqkv", "attn.Wo", "mlp.Wi", "mlp.Wo"]),
        ("t5", "encoder.block.{}.layer.0.SelfAttention.", ["q", "k", "v", "o"]),
        ("llama", "layers.{}.", PROJECTIONS),
        ("mistral", "layers.{}.", PROJECTIONS),
        ("qwen2", "layers.{}.", PROJECTIONS),
        ("qwen3", "layers.{}.", PROJECTIONS),
    ],
)
def test_lora_goes_on_every_intended_module_and_no_other(model_type: str, layer: str, modules: list[str]) -> None:
    config = AutoConfig.for_model(model_type)
    config.num_hidden_layers = 2
    if model_type == "t5":
        config.num_layers = 2
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:2]
    with torch.device("meta"):
        transformer = T5EncoderModel(config) if model_type == "t5" else AutoModel.from_config(config)
    add_lora(transformer, load_recipe("stance-minilm", ["base=org/x"]))
    got = {name.partition(".lora_")[0] for name, _ in transformer.named_parameters() if ".lora_" in name}
    assert got == {layer.format(i) + module for i in range(2) for module in modules}


def test_every_known_architecture_is_proved_above() -> None:
    (mark,) = (m for m in test_lora_goes_on_every_intended_module_and_no_other.pytestmark)  # type: ignore[attr-defined]
    assert {case[0] for case in mark.args[1]} == set(LORA_TARGETS)
