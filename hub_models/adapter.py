"""The LoRA adapter of an encoder: put on, frozen around, switched off."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from peft import LoraConfig
from peft.tuners.tuners_utils import BaseTunerLayer
from transformers import set_seed

from hub_models.recipe import Recipe

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def attach_lora(model: SentenceTransformer, recipe: Recipe) -> None:
    """Put the recipe's LoRA on the transformer and freeze everything else, a `Dense` after pooling included.

    Seeds every generator with the recipe's seed first, so that the adapter starts the same in each run. The adapter is
    held in float32 also on a base in bfloat16, where steps of 1e-5 would be rounded away.

    Raises:
        ValueError: If the architecture is unknown to the recipe, or its target modules match nothing.
    """
    set_seed(recipe.seed)
    add_lora(model.transformers_model, recipe)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("lora_" in name)
        if parameter.requires_grad:
            parameter.data = parameter.data.float()


def add_lora(transformer: Any, recipe: Recipe) -> None:
    """Inject the recipe's LoRA into a transformer, be it on the meta device. See `attach_lora`."""
    targets = recipe.lora_targets(transformer.config.model_type)
    if not any(re.fullmatch(targets, name) for name, _ in transformer.named_modules()):
        linear = [name for name, module in transformer.named_modules() if isinstance(module, torch.nn.Linear)]
        raise ValueError(
            f"recipe {recipe.name}: lora.target_modules {targets!r} matches no module of {recipe.base}; "
            f"its linear modules are such as {linear[:8]}"
        )
    transformer.add_adapter(
        LoraConfig(
            r=recipe.lora.r,
            lora_alpha=recipe.lora.alpha,
            lora_dropout=recipe.lora.dropout,
            target_modules=targets,
            bias="none",
            task_type="FEATURE_EXTRACTION",
        )
    )


def adapter_layers(model: SentenceTransformer) -> list[BaseTunerLayer]:
    return [module for module in model.modules() if isinstance(module, BaseTunerLayer)]


@contextmanager
def adapter_off(model: SentenceTransformer) -> Iterator[None]:
    """Inside, ``model`` answers as its base; without an adapter nothing changes. State is restored on leaving."""
    # Not through disable_adapters(): enabling them again would mark a frozen adapter as trainable.
    layers = [layer for layer in adapter_layers(model) if not layer.disable_adapters]
    for layer in layers:
        layer._disable_adapters = True
    try:
        yield
    finally:
        for layer in layers:
            layer._disable_adapters = False
