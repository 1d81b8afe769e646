"""The cheap dropout against what dropout is: chance, expectation, gradient, seed, mode."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from hub_models.dropout import CheapDropout, cheapen


@pytest.mark.parametrize("p", [0.05, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_each_element_is_dropped_with_the_chance_given(p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.full((400, 500), 3.0, dtype=dtype, requires_grad=True)
    y = CheapDropout(p)(x)
    kept = y != 0
    assert y.dtype == dtype
    assert kept.float().mean().item() == pytest.approx(1 - p, abs=4 * (p * (1 - p) / x.numel()) ** 0.5)
    # Two neighbours come from one draw: they must not depend on each other.
    both = (kept[:, ::2] & kept[:, 1::2]).float().mean().item()
    assert both == pytest.approx((1 - p) ** 2, abs=0.01)
    assert torch.allclose(y[kept].float(), torch.tensor(3 / (1 - p)), rtol=1e-4 if dtype == torch.float32 else 1e-2)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad != 0, kept)
    assert torch.allclose(x.grad * 3, y)


def test_the_seed_decides_and_evaluation_drops_nothing() -> None:
    layer, x = CheapDropout(0.3), torch.ones(7, 11)  # not a multiple of the four elements of a draw
    drawn = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        drawn.append(layer(x))
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])
    assert layer.eval()(x) is x
    assert CheapDropout(0.0)(x) is x
    assert not CheapDropout(1.0)(x).any()


def test_every_dropout_of_a_model_is_replaced_and_nothing_else() -> None:
    model = nn.Sequential(
        nn.Linear(2, 2),
        nn.Dropout(0.2).eval(),
        nn.ModuleDict({"a": nn.Dropout(0.1)}),
        nn.Dropout1d(0.3),
        nn.Identity(),
    )
    cheapen(model)
    kinds = [(type(m).__name__, m.p, m.training) for m in model.modules() if hasattr(m, "p")]
    assert kinds == [("CheapDropout", 0.2, False), ("CheapDropout", 0.1, True), ("Dropout1d", 0.3, True)]
