"""The adapter: where it goes, what it leaves alone, how it is switched off."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from hub_models.adapter import adapter_layers, adapter_off, adapter_scaled, attach_lora, scale_adapter
from hub_models.base import load_base
from hub_models.recipe import load_recipe
from tests.tiny import SHRUNK, build, tiny

TEXTS = ["No.", "Cities should ban cars."]


def with_adapter(name: str, *overrides: str) -> SentenceTransformer:
    recipe = tiny(name, *overrides)
    model = load_base(recipe, device="cpu")
    attach_lora(model, recipe)
    return model


def state(model: SentenceTransformer) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def step(model: SentenceTransformer) -> None:
    """One optimiser step over whatever is trainable."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.SGD(parameters, lr=1.0)
    model.train()
    embeddings = model(model.preprocess(TEXTS))["sentence_embedding"]
    (embeddings[0] - embeddings[1]).square().sum().backward()
    optimiser.step()
    model.eval()


@pytest.mark.parametrize("name", list(SHRUNK))
def test_one_step_changes_the_adapter_and_nothing_else(name: str) -> None:
    model = with_adapter(name)
    before = state(model)
    step(model)
    changed = {key for key, tensor in state(model).items() if not torch.equal(tensor, before[key])}
    # lora_A gets no gradient in the first step, because lora_B starts at zero.
    assert changed == {key for key in before if "lora_B" in key}
    step(model)
    changed = {key for key, tensor in state(model).items() if not torch.equal(tensor, before[key])}
    assert changed == {key for key in before if "lora_" in key}


def test_the_projection_after_pooling_is_frozen() -> None:
    model = with_adapter("stance-instructor-xl")
    assert not model[2].linear.weight.requires_grad


def test_the_adapter_starts_the_same_for_one_seed_and_without_effect() -> None:
    torch.manual_seed(99)
    one = with_adapter("stance-qwen3-8b")
    torch.manual_seed(7)
    two, other = with_adapter("stance-qwen3-8b"), with_adapter("stance-qwen3-8b", "seed=1")
    a, b, c = (state(m) for m in (one, two, other))
    assert all(torch.equal(a[key], b[key]) for key in a)
    assert any(not torch.equal(a[key], c[key]) for key in a)
    np.testing.assert_array_equal(one.encode(TEXTS), build_and_encode("stance-qwen3-8b"))


def build_and_encode(name: str) -> np.ndarray:  # type: ignore[type-arg]
    return np.asarray(load_base(tiny(name), device="cpu").encode(TEXTS))


def test_the_adapter_is_float32_on_a_bfloat16_base() -> None:
    recipe = tiny("stance-qwen3-8b")
    model = load_base(recipe, device="cpu").to(torch.bfloat16)
    attach_lora(model, recipe)
    dtypes = {("lora_" in name, parameter.dtype) for name, parameter in model.named_parameters()}
    assert dtypes == {(True, torch.float32), (False, torch.bfloat16)}
    step(model)
    assert np.isfinite(model.encode(TEXTS)).all()


def test_rank_alpha_and_dropout_are_the_recipes() -> None:
    for layer in adapter_layers(with_adapter("stance-bge-large")):
        assert (layer.r, layer.scaling) == ({"default": 4}, {"default": 2.0})
        assert layer.lora_dropout["default"].p == 0.05


def test_targets_that_match_nothing_are_an_error() -> None:
    recipe = tiny("stance-bge-large", "lora.target_modules=q_proj")
    with pytest.raises(ValueError, match=re.escape("lora.target_modules 'q_proj' matches no module of slant-tests/")):
        attach_lora(load_base(recipe, device="cpu"), recipe)


def test_inside_adapter_off_the_model_is_its_base() -> None:
    model = with_adapter("stance-instructor-xl")
    base = model.encode(TEXTS)
    step(model)
    tuned = model.encode(TEXTS)
    assert np.abs(tuned - base).max() > 1e-3
    trainable = {name: p.requires_grad for name, p in model.named_parameters()}
    with adapter_off(model):
        np.testing.assert_array_equal(model.encode(TEXTS), base)
        with adapter_off(model):
            np.testing.assert_array_equal(model.encode(TEXTS), base)
        np.testing.assert_array_equal(model.encode(TEXTS), base)
    np.testing.assert_array_equal(model.encode(TEXTS), tuned)
    assert {name: p.requires_grad for name, p in model.named_parameters()} == trainable


def test_adapter_off_leaves_a_frozen_adapter_frozen_and_survives_an_error() -> None:
    model = with_adapter("stance-bge-large").requires_grad_(False)
    with pytest.raises(RuntimeError, match="inside"), adapter_off(model):
        raise RuntimeError("inside")
    assert not any(layer.disable_adapters for layer in adapter_layers(model))
    assert not any(p.requires_grad for p in model.parameters())


def test_adapter_off_without_an_adapter_changes_nothing() -> None:
    model = build("stance-bge-large")
    expected = model.encode(TEXTS)
    with adapter_off(model):
        np.testing.assert_array_equal(model.encode(TEXTS), expected)


def test_an_unknown_architecture_is_an_error() -> None:
    recipe = load_recipe("stance-bge-large", ["base=org/x"])
    model = build("stance-bge-large")
    model.transformers_model.config.model_type = "rwkv"
    with pytest.raises(ValueError, match="no LoRA modules are known"):
        attach_lora(model, recipe)


def adapted() -> SentenceTransformer:
    model = with_adapter("stance-bge-large")
    generator = torch.Generator().manual_seed(1)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.3
    return model


def test_the_scale_multiplies_what_the_adapter_adds() -> None:
    model, halved = adapted(), adapted()
    for name, parameter in halved.named_parameters():
        if "lora_B" in name:
            parameter.data *= 0.5
    with adapter_scaled(model, 0.5):
        np.testing.assert_allclose(model.encode(TEXTS), halved.encode(TEXTS), atol=1e-6)
    with adapter_off(model):
        base = model.encode(TEXTS)
    with adapter_scaled(model, 0.0):
        np.testing.assert_allclose(model.encode(TEXTS), base, atol=1e-6)


def test_inside_adapter_scaled_the_scale_is_another_and_afterwards_as_before() -> None:
    model = adapted()
    before = model.encode(TEXTS)
    with pytest.raises(RuntimeError), adapter_scaled(model, 0.3):
        assert np.abs(model.encode(TEXTS) - before).max() > 1e-3
        raise RuntimeError
    np.testing.assert_array_equal(model.encode(TEXTS), before)
    with adapter_scaled(model, None):
        np.testing.assert_array_equal(model.encode(TEXTS), before)
    scale_adapter(model, 0.5)
    scale_adapter(model, 0.0)
    with adapter_off(model):
        base = model.encode(TEXTS)
    np.testing.assert_allclose(model.encode(TEXTS), base, atol=1e-6)


@pytest.mark.parametrize("scale", [-0.1, 2.1, float("nan"), "1", True])
def test_a_scale_is_a_number_from_zero_to_two(scale: object) -> None:
    with pytest.raises(ValueError, match="wanted a number from 0 \\(the base\\) to 2"):
        scale_adapter(adapted(), scale)


def test_only_an_adapter_can_be_scaled() -> None:
    with pytest.raises(ValueError, match="for a model without an adapter"):
        scale_adapter(build("stance-bge-large"), 0.5)
