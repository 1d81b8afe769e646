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
    """Inject the recipe's LoRA into a transformer, be it on the meta device. See `attach_lora`.

    Raises:
        ValueError: If the recipe's targets match no module of the transformer.
    """
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
    """The layers that an adapter was put on; none without one."""
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


def scale_adapter(model: SentenceTransformer, scale: float) -> None:
    """Weigh the adapter against its base: 1 is as trained, 0 the base: a dial from topic to stance.

    Args:
        model: One with a LoRA adapter, as trained.
        scale: In [0, 2]. Multiplies what the adapter adds to each layer, at no cost in time or memory.

    Raises:
        ValueError: If the scale is no number in [0, 2], or the model has no adapter.
    """
    check_scale(scale)
    layers = [layer for layer in adapter_layers(model) if hasattr(layer, "scaling")]
    if not layers:
        raise ValueError(f"got the adapter scale {scale} for a model without an adapter, wanted a LoRA encoder")
    for layer in layers:
        layer.scaling = {name: value * scale for name, value in layer.scaling.items()}


@contextmanager
def adapter_scaled(model: SentenceTransformer, scale: float | None) -> Iterator[None]:
    """Inside, ``model`` answers with its adapter at ``scale``; None changes nothing. State is restored on leaving.

    Raises:
        ValueError: As `scale_adapter`.
    """
    before = [(layer, layer.scaling) for layer in adapter_layers(model) if hasattr(layer, "scaling")]
    if scale is not None:
        scale_adapter(model, scale)
    try:
        yield
    finally:
        for layer, scaling in before:
            layer.scaling = scaling


def check_scale(scale: object) -> None:
    """Refuse an adapter scale that is no number in [0, 2]."""
    if isinstance(scale, bool) or not (isinstance(scale, (int, float)) and 0 <= scale <= 2):
        raise ValueError(f"got the adapter scale {scale!r}, wanted a number from 0 (the base) to 2; 1 is as trained")
