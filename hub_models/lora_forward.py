"""The training pass of LoRA layers under autocast on a CPU: peft's, with fewer passes over memory.

In each pass peft has the frozen weight cast, and the input twice, once of them after dropout in float32; then it
scales and adds what the adapter gives over the whole output. Here the frozen weight is cast once for all, the input
once and before dropout, the narrow inner product is scaled, and the outer one is added as it is made.
"""

from __future__ import annotations

from typing import Any

import torch
from peft.tuners.lora import Linear
from torch import Tensor, nn


class _Forward:
    """A layer's forward pass: the fast one while it trains under autocast, else peft's own."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        self._frozen: tuple[Tensor, Tensor | None] | None = None

    def __call__(self, x: Tensor) -> Tensor:
        layer = self._layer
        if not (layer.training and torch.is_autocast_enabled("cpu")):
            return Linear.forward(layer, x)  # type: ignore[no-any-return]
        (name,) = layer.active_adapters
        rows = x.to(torch.get_autocast_dtype("cpu")).flatten(0, -2)
        if self._frozen is None:
            base = layer.base_layer
            self._frozen = base.weight.to(rows.dtype), None if base.bias is None else base.bias.to(rows.dtype)
        inner = layer.lora_A[name](layer.lora_dropout[name](rows)) * layer.scaling[name]
        result = torch.addmm(nn.functional.linear(rows, *self._frozen), inner, layer.lora_B[name].weight.T)
        return result.view(*x.shape[:-1], -1)


def hasten(model: nn.Module) -> None:
    """Let the LoRA layers of a model on the CPU train by `_Forward`; their base weights are taken not to change."""
    for layer in model.modules():
        if type(layer) is Linear and type(layer.base_layer) is nn.Linear:
            layer.forward = _Forward(layer)
