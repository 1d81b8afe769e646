"""Dropout that is cheap on a CPU: 16 random bits decide about an element.

torch's own draws a number of 53 bits for each element, one after the other wherever MKL does not draw them, as on
processors of AMD: a quarter of a MiniLM training step. The chance of dropping is rounded to a multiple of 2**-16, and
what is kept is scaled by that very chance, so that the expected value stays exact.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

_ATTENTION = "slant_cheap_dropout"

_BITS = 16
_VALUES = 2**_BITS


class CheapDropout(nn.Dropout):
    """`torch.nn.Dropout` with other draws from the same distribution, seeded by torch's generator alike."""

    def forward(self, input: Tensor) -> Tensor:
        dropped = round(self.p * _VALUES)
        if not self.training or dropped == 0:
            return input
        words = torch.empty(-(-input.numel() * _BITS // 64), dtype=torch.int64).random_(-(2**63), None)
        bits = words.view(torch.int16)[: input.numel()].view(input.shape)
        # As int16, not bool: of comparisons and conversions only those between numbers are vectorised.
        kept = torch.gt(bits, dropped - _VALUES // 2 - 1, out=torch.empty_like(bits))
        scaled: Tensor = input * kept.to(input.dtype).mul_(_VALUES / max(1, _VALUES - dropped))
        return scaled


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """transformers' attention named ``sdpa``, but with `CheapDropout` of the weights where an encoder drops some."""
    causal = getattr(module, "is_causal", True) or options.get("is_causal")
    if not dropout or not scaling or causal or options.get("position_bias") is not None or query.shape != key.shape:
        options |= {"dropout": dropout, "scaling": scaling}
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)  # type: ignore[no-any-return]
    scores = query @ key.mT * scaling
    if attention_mask is not None:
        scores = scores + torch.finfo(scores.dtype).min * attention_mask.logical_not().to(scores.dtype)
    weights = CheapDropout(dropout)(scores.softmax(dim=-1))
    return (weights @ value).transpose(1, 2).contiguous(), None


AttentionInterface.register(_ATTENTION, attention)
AttentionMaskInterface.register(_ATTENTION, sdpa_mask)


def cheapen(model: nn.Module) -> None:
    """Put `CheapDropout` in the place of each `torch.nn.Dropout` of a model on the CPU, with its chance and mode."""
    for module in model.modules():
        if isinstance(module, PreTrainedModel) and module.config._attn_implementation == "sdpa":
            module.set_attn_implementation(_ATTENTION)
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if type(child) is nn.Dropout:
                cheap = CheapDropout(child.p)
                cheap.train(child.training)
                setattr(parent, name, cheap)
