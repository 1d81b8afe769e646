"""The cheap dropout against what dropout is: chance, expectation, gradient, seed, mode; attention against sdpa."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from hub_models.base import load_base
from hub_models.dropout import CheapDropout, attention, cheapen
from tests.tiny import tiny


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


ENCODER: Any = SimpleNamespace(is_causal=False)
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]).bool()[:, None, None, :]


def heads(seed: int, number: int = 3) -> torch.Tensor:
    """Two texts of five tokens, of width 4."""
    return torch.randn(2, number, 5, 4, generator=torch.Generator().manual_seed(seed), requires_grad=True)


@pytest.mark.parametrize("mask", [None, MASK])
def test_attention_that_drops_next_to_nothing_is_sdpa(mask: torch.Tensor | None) -> None:
    found = []
    for function, dropout in ((attention, 1e-9), (sdpa_attention_forward, 0.0)):
        inputs = [heads(seed) for seed in range(3)]
        out, _ = function(ENCODER, *inputs, mask, dropout=dropout, scaling=0.5)
        out.square().sum().backward()
        found.append([out, *(x.grad for x in inputs)])
    for ours, theirs in zip(*found, strict=True):
        assert ours.shape == theirs.shape and (ours - theirs).abs().max() < 1e-5


def test_attention_drops_weights_with_the_chance_given() -> None:
    torch.manual_seed(0)
    alike, each = torch.zeros(1, 50, 60, 60), torch.eye(60).expand(1, 50, 60, 60)  # then the output is the weights
    weights, _ = attention(ENCODER, alike, alike, each, None, dropout=0.1, scaling=1.0)
    assert (weights == 0).float().mean().item() == pytest.approx(0.1, abs=4 * (0.09 / weights.numel()) ** 0.5)
    assert torch.allclose(weights[weights != 0], torch.tensor(1 / 60 / 0.9), rtol=1e-4)


@pytest.mark.parametrize(
    ("module", "keys", "options"),
    [
        (SimpleNamespace(is_causal=True), 3, {}),
        (SimpleNamespace(), 3, {}),
        (ENCODER, 3, {"is_causal": True}),
        (ENCODER, 3, {"position_bias": torch.randn(1, 3, 5, 5)}),
        (SimpleNamespace(is_causal=False, num_key_value_groups=3), 1, {}),
    ],
)
def test_what_the_cheap_attention_does_not_know_is_left_to_sdpa(module: Any, keys: int, options: Any) -> None:
    found = []
    for function in (attention, sdpa_attention_forward):
        torch.manual_seed(0)
        inputs = heads(0), heads(1, keys), heads(2, keys)
        found.append(function(module, *inputs, None, dropout=0.5, scaling=0.5, **options)[0])
    assert torch.equal(*found)


class Draws(TorchDispatchMode):
    """Names of the random operations that ran."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded in function.tags or "bernoulli" in str(function):
            self.names.add(str(function))
        return function(*args, **(kwargs or {}))


def test_a_cheapened_encoder_evaluates_as_before_and_trains_without_torchs_dropout() -> None:
    model = load_base(tiny("stance-bge-large"), device="cpu")
    features = model.preprocess(["a tax", "cities should ban cars"])
    before = model.eval()(dict(features))["sentence_embedding"]
    cheapen(model)
    assert torch.equal(model(dict(features))["sentence_embedding"], before)
    with Draws() as draws:
        model.train()(dict(features))
    assert draws.names == {"aten.random_.from"}
