"""Encoders built from recipes, and loaded again: pooling, padding, end token, prompts, pins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from huggingface_hub.errors import GatedRepoError
from sentence_transformers import SentenceTransformer

from hub_models.adapter import adapter_scaled, attach_lora
from hub_models.base import load_base, prompts
from hub_models.encoder import identity, load
from hub_models.hub_cache import SAMPLE_BASE, SAMPLE_BASE_REVISION, ensure_base, install_snapshot
from hub_models.model_files import max_query_length_of, query_template_of
from hub_models.recipe import load_recipe, recipe_names
from tests.hub_models.evaluation.helpers import write_run
from tests.tiny import DENSE, REVISION, SHRUNK, build, install_tiny, tiny

QWEN3, BGE, INSTRUCTOR = "stance-qwen3-8b", "stance-bge-large", "stance-instructor-xl"
SHORT, LONG = "No.", "No. " + "word " * 60


def tokens(model: SentenceTransformer, texts: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    features = model.preprocess(texts)
    return features["input_ids"], features["attention_mask"]


def hidden(model: SentenceTransformer, text: str) -> torch.Tensor:
    """float32[tokens, width] of one text alone."""
    features = model.preprocess([text])
    with torch.no_grad():
        output = model.transformers_model(input_ids=features["input_ids"], attention_mask=features["attention_mask"])
    vectors: torch.Tensor = output.last_hidden_state[0]
    return vectors


def unit(vector: torch.Tensor) -> np.ndarray[Any, Any]:
    return torch.nn.functional.normalize(vector, dim=-1).numpy()


def saved(model: SentenceTransformer, folder: Path) -> Path:
    model.save_pretrained(str(folder))
    return folder


def pad_on(model: SentenceTransformer, side: str) -> None:
    model.tokenizer.padding_side = model.tokenizer.init_kwargs["padding_side"] = side


def perturb(model: SentenceTransformer, seed: int = 1) -> None:
    """Give a fresh adapter, which starts without effect, an effect."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data = 0.5 * torch.randn(parameter.shape, generator=generator)


# Last token (Qwen3)


def test_every_text_ends_with_one_end_token_however_it_is_cut() -> None:
    model = load_base(tiny(QWEN3, "max_seq_length=8"), device="cpu")
    end = model.tokenizer.convert_tokens_to_ids("<|endoftext|>")
    ids, mask = tokens(model, [SHORT, LONG])
    assert ids.shape[1] == 8
    for row, kept in zip(ids.tolist(), mask.tolist(), strict=True):
        text = [token for token, keep in zip(row, kept, strict=True) if keep]
        assert text[-1] == end
        assert text.count(end) == 1


def test_last_token_pads_on_the_left() -> None:
    model = load_base(tiny(QWEN3), device="cpu")
    _, mask = tokens(model, [SHORT, LONG])
    assert mask[0].tolist() == sorted(mask[0].tolist())
    assert mask[0, 0] == 0


def test_last_token_pooling_reads_the_end_token() -> None:
    model = load_base(tiny(QWEN3), device="cpu")
    for text in (SHORT, LONG):
        np.testing.assert_allclose(model.encode(text), unit(hidden(model, text)[-1]), atol=1e-6)


def test_a_tokenizer_that_appends_the_end_token_gets_no_second_one(tmp_path: Path) -> None:
    folder = saved(load_base(tiny(QWEN3), device="cpu"), tmp_path / "base")
    given = [f"base={folder}", "base_revision=null", "pooling=lasttoken", "end_token='<|endoftext|>'"]
    model = load_base(load_recipe(QWEN3, given), device="cpu")
    assert tokens(model, [SHORT])[0].tolist() == tokens(load_base(tiny(QWEN3), device="cpu"), [SHORT])[0].tolist()


def test_the_end_token_reaches_plain_loading(tmp_path: Path) -> None:
    recipe = tiny(QWEN3, "max_seq_length=8")
    model = load_base(recipe, device="cpu")
    attach_lora(model, recipe)
    perturb(model)
    plain = SentenceTransformer(str(saved(model, tmp_path / "run")), device="cpu")
    assert plain.tokenizer.padding_side == "left"
    assert tokens(plain, [SHORT, LONG])[0].tolist() == tokens(model, [SHORT, LONG])[0].tolist()
    np.testing.assert_allclose(plain.encode([SHORT, LONG]), model.encode([SHORT, LONG]), atol=1e-6)


def test_probing_the_end_token_leaves_no_length_behind() -> None:
    assert load_base(tiny(QWEN3), device="cpu").tokenizer.backend_tokenizer.truncation is None


def test_an_end_token_that_the_tokenizer_lacks_is_an_error() -> None:
    with pytest.raises(ValueError, match="end_token '<eot>' is not in the vocabulary"):
        load_base(tiny(QWEN3, "end_token=<eot>"), device="cpu")


def test_an_end_token_after_which_the_tokenizer_appends_its_own_is_an_error() -> None:
    with pytest.raises(ValueError, match="appends tokens of its own"):
        load_base(tiny(BGE, "end_token='[CLS]'"), device="cpu")


# CLS (BGE), mean and Dense (T5)


def test_cls_pooling_reads_the_first_token() -> None:
    model = load_base(tiny(BGE), device="cpu")
    np.testing.assert_allclose(model.encode(LONG), unit(hidden(model, LONG)[0]), atol=1e-6)


def test_t5_takes_the_mean_and_projects_it() -> None:
    model = load_base(tiny(INSTRUCTOR), device="cpu")
    assert type(model.transformers_model).__name__ == "T5EncoderModel"
    weight = model[2].linear.weight.detach()
    assert weight.shape == (DENSE, 32)
    np.testing.assert_allclose(model.encode(LONG), unit(hidden(model, LONG).mean(dim=0) @ weight.T), atol=1e-6)


def test_the_instruction_is_pooled_like_the_claim() -> None:
    model = load_base(tiny(INSTRUCTOR), device="cpu")
    prompt = model.prompts["attack"]
    np.testing.assert_allclose(
        model.encode("Cars are safe.", prompt_name="attack"), model.encode(prompt + "Cars are safe."), atol=1e-6
    )


# Padding (all classes)


@pytest.mark.parametrize("include_prompt", [True, False], ids=["prompt-pooled", "prompt-left-out"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "lasttoken"])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", list(SHRUNK))
def test_alone_equals_batched(name: str, side: str, pooling: str, include_prompt: bool, tmp_path: Path) -> None:
    base = build(name)
    pad_on(base, side)
    base[1].pooling_mode = pooling
    base.set_pooling_include_prompt(include_prompt)
    model = load(saved(base, tmp_path / "base"), device="cpu")
    assert (model[1].pooling_mode, model[1].include_prompt) == (pooling, include_prompt)
    assert model.tokenizer.padding_side == ("right" if name == BGE else side)
    prompt = "Find evidence refuting "
    batched = model.encode([SHORT, LONG], prompt=prompt)
    for text, vector in zip([SHORT, LONG], batched, strict=True):
        np.testing.assert_allclose(model.encode([text], prompt=prompt)[0], vector, atol=1e-5)
    if (name, pooling) != (QWEN3, "cls"):  # there the first token sees nothing but itself
        assert np.abs(batched[0] - batched[1]).max() > 1e-2


def test_left_padding_is_taken_from_absolute_positions_only(tmp_path: Path) -> None:
    sides = {}
    for name in SHRUNK:
        base = build(name)
        pad_on(base, "left")
        sides[name] = load(saved(base, tmp_path / name), device="cpu").tokenizer.padding_side
    assert sides == {BGE: "right", INSTRUCTOR: "left", QWEN3: "left"}


# What the recipe sets


@pytest.mark.parametrize("name", list(SHRUNK))
def test_the_recipe_sets_prompts_length_and_similarity(name: str) -> None:
    recipe = tiny(name, "max_seq_length=20")
    model = load_base(recipe, device="cpu")
    assert model.prompts == prompts(recipe.query_template)
    assert (model.max_seq_length, model.similarity_fn_name, model.default_prompt_name) == (20, "cosine", None)
    assert model.transformers_model.name_or_path == recipe.base
    assert tokens(model, [LONG])[0].shape[1] == 20


def test_prompts_are_the_first_seen_instruction_as_a_prefix() -> None:
    assert prompts("Instruct: {instruction}\nQuery: {claim}") == {
        "support": "Instruct: Find evidence backing\nQuery: ",
        "attack": "Instruct: Find evidence refuting\nQuery: ",
        "query": "",
        "document": "",
    }


def test_the_length_never_exceeds_the_bases() -> None:
    ensure_base(SAMPLE_BASE)
    assert load_base(load_recipe("stance-minilm", ["max_seq_length=5000"]), device="cpu").max_seq_length == 256


def test_a_plain_transformer_gets_the_recipes_pooling(tmp_path: Path) -> None:
    base = build(BGE)
    base.transformers_model.save_pretrained(tmp_path)
    base.tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"its pooling is not known.*set pooling=cls, mean or lasttoken"):
        load_base(load_recipe(BGE, [f"base={tmp_path}"]), device="cpu")
    model = load_base(load_recipe(BGE, [f"base={tmp_path}", "pooling=cls"]), device="cpu")
    np.testing.assert_allclose(model.encode([SHORT, LONG]), base.encode([SHORT, LONG]), atol=1e-6)


def test_a_pooling_that_contradicts_the_base_is_an_error() -> None:
    with pytest.raises(ValueError, match="its files say pooling 'cls', recipe stance-bge-large says 'mean'"):
        load_base(tiny(BGE, "pooling=mean"), device="cpu")


def test_a_projection_that_contradicts_the_base_is_an_error() -> None:
    with pytest.raises(ValueError, match="its Dense is 24 wide, recipe stance-instructor-xl says None"):
        load_base(tiny(INSTRUCTOR, "architecture.model_type=t5"), device="cpu")


def test_a_base_without_a_transformer_is_an_error(tmp_path: Path) -> None:
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    static = StaticEmbedding(build(BGE).tokenizer.backend_tokenizer, embedding_dim=8)
    folder = saved(SentenceTransformer(modules=[static]), tmp_path / "static")
    with pytest.raises(ValueError, match=r"got the modules \['StaticEmbedding'\], wanted a Transformer and a Pooling"):
        load_base(load_recipe(BGE, [f"base={folder}"]), device="cpu")


def test_a_base_with_its_own_modules_answers_as_if_plainly_loaded(minilm: SentenceTransformer) -> None:
    model = load_base(load_recipe("stance-minilm"), device="cpu")
    np.testing.assert_array_equal(model.encode([SHORT, LONG]), minilm.encode([SHORT, LONG]))


# Loading


def test_without_modules_json_loading_is_refused(tmp_path: Path) -> None:
    recipe = tiny(BGE)
    model = load_base(recipe, device="cpu")
    attach_lora(model, recipe)
    perturb(model)
    folder = saved(model, tmp_path / "run")
    again = load(folder, device="cpu")
    np.testing.assert_allclose(again.encode([SHORT, LONG]), model.encode([SHORT, LONG]), atol=1e-6)
    assert (again[1].pooling_mode, again.max_seq_length, again.similarity_fn_name) == ("cls", 64, "cosine")
    (folder / "modules.json").unlink()
    with pytest.raises(ValueError, match=r"no modules\.json, so its pooling is not known"):
        load(folder, device="cpu")


def adapter_folder(folder: Path, **pins: Any) -> Path:
    recipe = tiny(BGE)
    model = load_base(recipe, device="cpu")
    attach_lora(model, recipe)
    saved(model, folder)
    (folder / "slant.json").write_text(json.dumps({"base": recipe.base, "base_revision": REVISION, **pins}))
    return folder


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "adapter_model.safetensors"])
def test_an_adapter_that_lacks_a_file_is_refused(tmp_path: Path, name: str) -> None:
    folder = adapter_folder(tmp_path / "run")
    (folder / name).unlink()
    with pytest.raises(ValueError, match=f"model .*run: it has no {name}; restore"):
        load(folder, device="cpu")


def test_an_adapter_that_was_exchanged_is_refused(tmp_path: Path) -> None:
    folder = adapter_folder(tmp_path / "run", adapter_sha256="0" * 64)
    with pytest.raises(ValueError, match=f"adapter_model.safetensors: got SHA-256 .*, wanted {'0' * 64}"):
        load(folder, device="cpu")
    install_snapshot("slant-tests/exchanged", "c" * 40, folder)
    with pytest.raises(ValueError, match=f"adapter_model.safetensors: got SHA-256 .*, wanted {'0' * 64}"):
        load("slant-tests/exchanged", device="cpu")


@pytest.mark.parametrize("pins", [{}, {"base_revision": None}], ids=["pinned", "unpinned"])
def test_weights_that_are_cut_off_are_named(tmp_path: Path, pins: dict[str, Any]) -> None:
    folder = adapter_folder(tmp_path / "run", **pins)
    weights = folder / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"model .*run: its weights or its base's are cut off or damaged"):
        load(folder, device="cpu")


@pytest.mark.parametrize("name", ["slant.json", "adapter_config.json"])
@pytest.mark.parametrize(("content", "fault"), [("{", "is no JSON"), ("[]", "got list, wanted an object")])
def test_a_broken_json_is_named(tmp_path: Path, name: str, content: str, fault: str) -> None:
    folder = adapter_folder(tmp_path / "run")
    (folder / name).write_text(content)
    with pytest.raises(ValueError, match=rf"{name}.*{fault}"):
        load(folder, device="cpu")


def test_a_pinned_base_that_is_not_cached_is_named(tmp_path: Path) -> None:
    folder = adapter_folder(tmp_path / "run", base="org/absent", base_revision="d" * 40)
    with pytest.raises(FileNotFoundError, match=f"its base org/absent at commit {'d' * 40} is not in the Hub's local"):
        load(folder, device="cpu")


def test_an_adapter_is_no_base(tmp_path: Path) -> None:
    folder = adapter_folder(tmp_path / "run")
    with pytest.raises(
        ValueError, match=f"got an adapter on {install_tiny(BGE)}, wanted a whole encoder.*; set base="
    ):
        load_base(load_recipe("stance-minilm", [f"base={folder}"]), device="cpu")


def test_an_empty_folder_is_told_from_an_absent_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"the folder has neither modules\.json nor config\.json, wanted"):
        load_base(load_recipe("stance-minilm", [f"base={tmp_path}"]), device="cpu")


def test_a_path_that_does_not_exist_names_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "stance-minilm-5f3a").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no such folder.*Did you mean 'stance-minilm-5f3a'\?"):
        load(tmp_path / "stance-minilm-5f3b")


@pytest.mark.parametrize("source", ["nobody/nothing", "nothing", "./nothing", "a/b/c", "~/nothing"])
def test_what_is_neither_folder_nor_model_is_an_error(source: str) -> None:
    with pytest.raises(FileNotFoundError, match="no such folder, and neither the Hub nor its local cache"):
        load(source)


def test_a_revision_that_is_not_cached_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=f"model 'slant-tests/tiny-bge-large' at {'9' * 40}"):
        load(install_tiny(BGE), revision="9" * 40)


def test_a_gated_model_speaks_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **options: Any) -> str:
        raise GatedRepoError("ask for access", response=Mock())

    monkeypatch.setattr("hub_models.model_files.hf_hub_download", refuse)
    with pytest.raises(GatedRepoError, match="ask for access"):
        load("org/gated")


def test_a_base_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match="no such folder, and neither the Hub nor its local cache"):
        load_base(load_recipe("stance-minilm", ["base=nobody/nothing", "pooling=mean"]))


def test_adapter_and_base_are_loaded_at_their_pinned_commits(tmp_path: Path) -> None:
    """The base's and the adapter's `main` move on after the release; plain loading follows them, `load` does not."""
    base_id, adapter_id, old, new = "slant-tests/moving-base", "slant-tests/moving-lora", "a" * 40, "b" * 40
    for seed, commit in enumerate([old, new]):
        install_snapshot(base_id, commit, saved(build(BGE, seed=seed), tmp_path / f"base-{seed}"))
    recipe = load_recipe(BGE, [f"base={base_id}", f"base_revision={old}", "lora.r=4"])
    expected = {}
    for seed, commit in enumerate([old, new]):
        model = load_base(recipe, device="cpu")
        attach_lora(model, recipe)
        perturb(model, seed)
        folder = saved(model, tmp_path / f"run-{seed}")
        pins = {"base": base_id, "base_revision": old, "query_template": f"{seed} {{instruction}} {{claim}}"}
        (folder / "slant.json").write_text(json.dumps(pins))
        install_snapshot(adapter_id, commit, folder)
        expected[commit] = model.encode([LONG])
    move_main(base_id, new)
    move_main(adapter_id, new)

    plain = SentenceTransformer(str(tmp_path / "run-0"), device="cpu")
    assert np.abs(plain.encode([LONG]) - expected[old]).max() > 0.1
    for commit, revision in [(old, old), (new, new), (new, None)]:
        model = load(adapter_id, revision=revision, device="cpu")
        np.testing.assert_allclose(model.encode([LONG]), expected[commit], atol=1e-6)
        assert model.transformers_model.name_or_path == base_id
        assert model.prompts == prompts(recipe.query_template)
        named = identity(model, adapter_id, revision=revision)
        assert (named.id, named.revision, named.base, named.base_revision) == (adapter_id, commit, base_id, old)
    assert query_template_of(adapter_id, revision=old) == "0 {instruction} {claim}"
    assert query_template_of(adapter_id) == "1 {instruction} {claim}"

    resaved = saved(load(adapter_id, device="cpu"), tmp_path / "resaved")
    assert json.loads((resaved / "adapter_config.json").read_text())["base_model_name_or_path"] == base_id


def move_main(repo_id: str, commit: str) -> None:
    from huggingface_hub import constants

    repo = Path(constants.HF_HUB_CACHE) / f"models--{repo_id.replace('/', '--')}"
    (repo / "refs" / "main").write_text(commit)


# Identity and template


def test_identity_of_a_hub_model() -> None:
    ensure_base(SAMPLE_BASE)
    named = identity(load(SAMPLE_BASE, device="cpu"), SAMPLE_BASE)
    assert (named.id, named.revision) == (SAMPLE_BASE, SAMPLE_BASE_REVISION)
    assert (named.base, named.base_revision, named.adapter_sha256) == (None, None, None)


def test_identity_of_a_folder_names_no_path(tmp_path: Path) -> None:
    recipe = tiny(QWEN3)
    model = load_base(recipe, device="cpu")
    attach_lora(model, recipe)
    folder = saved(model, tmp_path / "my-run")
    named = identity(load(folder, device="cpu"), folder)
    assert (named.id, named.revision, named.base, named.base_revision) == ("my-run", None, recipe.base, REVISION)
    before = named.adapter_sha256
    perturb(model)
    saved(model, folder)
    assert identity(model, folder).adapter_sha256 not in (before, None)


def test_identity_of_an_adapter_on_a_folder_names_no_path(tmp_path: Path) -> None:
    base = saved(build(BGE), tmp_path / "my-base")
    recipe = load_recipe(BGE, [f"base={base}", "lora.r=4"])
    model = load_base(recipe, device="cpu")
    attach_lora(model, recipe)
    folder = saved(model, tmp_path / "run")
    assert identity(load(folder, device="cpu"), folder).base == "my-base"


def test_the_template_of_a_folder_without_manifest_is_the_default(tmp_path: Path) -> None:
    assert query_template_of(saved(build(BGE), tmp_path / "any")) == "{instruction} {claim}"
    assert query_template_of("nobody/nothing") == "{instruction} {claim}"


@pytest.mark.parametrize("name", recipe_names())
def test_the_base_of_a_recipe_is_asked_with_the_recipes_template(name: str) -> None:
    recipe = load_recipe(name)
    assert query_template_of(recipe.base) == recipe.query_template


@pytest.mark.parametrize("name", recipe_names())
def test_an_adapter_trained_elsewhere_is_asked_as_its_base_is(name: str, tmp_path: Path) -> None:
    """As the stance paper's adapters are, which bring no slant.json."""
    recipe = load_recipe(name)
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": recipe.base}))
    assert query_template_of(tmp_path) == recipe.query_template
    assert max_query_length_of(tmp_path) == recipe.max_query_length


def test_a_loaded_adapter_can_be_scaled_and_a_bad_scale_is_refused_before_anything_is_read(tmp_path) -> None:
    run = write_run(tmp_path / "run", strength=0.3)
    half, model = load(run, adapter_scale=0.5), load(run)
    with adapter_scaled(model, 0.5):
        np.testing.assert_allclose(half.encode(["No."]), model.encode(["No."]), atol=1e-6)
    assert np.abs(half.encode(["No."]) - model.encode(["No."])).max() > 1e-3
    with pytest.raises(ValueError, match="got the adapter scale 3, wanted a number from 0"):
        load(tmp_path / "absent", adapter_scale=3)
