"""Dropout that is cheap on a CPU: 16 random bits decide about an element.

torch's own draws a number of 53 bits for each element, one after the other wherever MKL does not draw them, as on
processors of AMD: a quarter of a MiniLM training step. The chance of dropping is rounded to a multiple of 2**-16, and
what is kept is scaled by that very chance, so that the expected value stays exact.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

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


def cheapen(model: nn.Module) -> None:
    """Put `CheapDropout` in the place of each `torch.nn.Dropout` of a model on the CPU, with its chance and mode."""
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if type(child) is nn.Dropout:
                cheap = CheapDropout(child.p)
                cheap.train(child.training)
                setattr(parent, name, cheap)
