"""The fast pass of LoRA layers against peft's: values and gradients, with autocast and without, training or not."""

from __future__ import annotations

import pytest
import torch
from peft.tuners.lora import Linear
from sentence_transformers import SentenceTransformer
from torch import nn

from hub_models.adapter import adapter_layers, attach_lora
from hub_models.base import load_base
from hub_models.dropout import cheapen
from hub_models.lora_forward import _Forward, hasten
from tests.tiny import tiny

NAMES = ["stance-bge-large", "stance-instructor-xl", "stance-qwen3-8b"]  # with biases and without
TEXTS = ["a tax", "cities should ban cars, says one, and so says another one"]


def encoder(name: str, *, fast: bool) -> SentenceTransformer:
    recipe = tiny(name, "lora.dropout=0.3")
    model = load_base(recipe, device="cpu")
    attach_lora(model, recipe)
    for layer in adapter_layers(model):
        nn.init.normal_(layer.lora_B["default"].weight, std=0.2)
    cheapen(model)
    if fast:
        hasten(model)
        assert all(isinstance(layer.forward, _Forward) for layer in adapter_layers(model))
    return model


def outcome(
    model: SentenceTransformer, autocast: torch.dtype | None, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Vectors and gradient; by one seed all passes draw the same masks."""
    torch.manual_seed(seed)
    with torch.autocast("cpu", autocast or torch.bfloat16, enabled=autocast is not None):
        vectors = model(model.preprocess(TEXTS))["sentence_embedding"]
    vectors[0].dot(vectors[1]).backward()
    found = [p.grad.flatten() for n, p in model.named_parameters() if "lora_" in n and p.grad is not None]
    model.zero_grad()
    return vectors.detach(), torch.cat(found)


@pytest.mark.parametrize("name", NAMES)
def test_under_autocast_it_is_no_farther_from_float32_than_peft(name: str) -> None:
    peft, fast = encoder(name, fast=False).train(), encoder(name, fast=True).train()
    apart: dict[str, list[torch.Tensor]] = {"theirs": [], "ours": []}
    for seed in range(8):
        exact = outcome(peft, None, seed)
        for side, model in (("theirs", peft), ("ours", fast)):
            found = outcome(model, torch.bfloat16, seed)
            apart[side].append(torch.stack([(f - e).norm() / e.norm() for f, e in zip(found, exact, strict=True)]))
    theirs, ours = (torch.stack(apart[side]).mean(dim=0) for side in ("theirs", "ours"))
    assert not torch.equal(ours, theirs)
    assert (theirs < 0.1).all() and (ours < 1.2 * theirs).all()


@pytest.mark.parametrize(("training", "autocast"), [(True, None), (False, None), (False, torch.bfloat16)])
def test_else_it_is_pefts_own(training: bool, autocast: torch.dtype | None) -> None:
    found = [outcome(encoder(NAMES[0], fast=fast).train(training), autocast) for fast in (False, True)]
    assert all(torch.equal(theirs, ours) for theirs, ours in zip(*found, strict=True))


def test_a_frozen_weight_is_cast_once_and_one_in_half_precision_never() -> None:
    model = encoder(NAMES[0], fast=True).train()
    layer = adapter_layers(model)[0]
    assert isinstance(layer, Linear)
    outcome(model, torch.bfloat16)
    cast = layer.forward._frozen
    outcome(model, torch.bfloat16)
    assert layer.forward._frozen is cast and cast[0].dtype == torch.bfloat16
    layer.base_layer.bfloat16()
    hasten(model)
    outcome(model, torch.bfloat16)
    assert layer.forward._frozen[0].data_ptr() == layer.base_layer.weight.data_ptr()
