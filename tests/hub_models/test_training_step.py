"""What must hold in a step of training: the losses of the library, gradients, the sampler."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses.merged_forward import column_merging_disabled
from sentence_transformers.sentence_transformer.losses import (
    CachedMultipleNegativesRankingLoss,
    MultipleNegativesRankingLoss,
)

from hub_models import training, training_callbacks
from hub_models.adapter import attach_lora
from hub_models.base import load_base
from hub_models.recipe import Recipe
from hub_models.training import train
from tests.training_runs import recipe


@pytest.mark.parametrize("name", ["stance-bge-large", "stance-qwen3-8b"])
def test_columns_in_one_forward_pass_give_the_same_loss(tmp_path: Path, name: str) -> None:
    """The loss pads all documents on the right to one width, on top of Qwen's padding on the left."""
    made = recipe(tmp_path, name=name)
    model = load_base(made)
    attach_lora(model, made)
    model.eval()
    loss = MultipleNegativesRankingLoss(model)
    columns = [["a tax", "cars and homework"], ["No.", "word word"], ["a longer one on nuclear power", "homework"]]
    merged = loss([model.preprocess(c) for c in columns], None)
    with column_merging_disabled():
        apart = loss([model.preprocess(c) for c in columns], None)
    assert merged.item() == pytest.approx(apart.item(), abs=1e-5)


@pytest.mark.usefixtures("ungated")
def test_without_dropout_a_run_has_the_losses_of_the_librarys_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = training.attach_lora

    def attach(model: SentenceTransformer, made: Recipe) -> None:
        real(model, made)
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0

    monkeypatch.setattr(training, "attach_lora", attach)
    made = recipe(tmp_path, "epochs=2", rows=8)  # 48 steps
    ours = train(made, tmp_path / "ours")
    monkeypatch.setattr(training, "BucketedMultipleNegativesRankingLoss", MultipleNegativesRankingLoss)
    theirs = train(made, tmp_path / "theirs")
    logs = [[json.loads(line) for line in (run / "train.log").read_text().splitlines()] for run in (ours, theirs)]
    assert [entry["step"] for entry in logs[0]] == [10, 20, 30, 40]
    assert logs[0][-1]["loss"] < 0.9 * logs[0][0]["loss"]  # there is something to follow
    for mine, stock in zip(*logs, strict=True):
        assert mine["loss"] == pytest.approx(stock["loss"], rel=1e-3)


def test_cached_loss_is_the_plain_loss(tmp_path: Path) -> None:
    made = recipe(tmp_path)
    model = load_base(made)
    attach_lora(model, made)
    model.eval()
    columns = [["a tax", "cars", "homework"], ["No.", "word", "safe"], ["nuclear power", "homework", "sugar"]]
    found = []
    for overrides in ([], ["loss={name: cached_mnrl, mini_batch: 2}"]):
        model.zero_grad()
        loss = training._loss(model, recipe(tmp_path, *overrides), 3, gather=False)
        value = loss([model.preprocess(c) for c in columns], None)
        value.backward()
        gradients = [p.grad.flatten() for n, p in model.named_parameters() if "lora_B" in n and p.grad is not None]
        found.append((type(loss).__name__, value.item(), torch.cat(gradients)))
    (plain, value, gradient), (cached, cached_value, cached_gradient) = found
    assert (plain, cached) == ("BucketedMultipleNegativesRankingLoss", "CachedMultipleNegativesRankingLoss")
    assert value == pytest.approx(cached_value, abs=1e-5)
    assert torch.allclose(gradient, cached_gradient, atol=1e-5)
    assert gradient.abs().max() > 1e-3


@pytest.mark.parametrize(("mini_batch", "cached"), [(2, True), (3, False), (4, False)])
def test_gradients_are_cached_where_a_batch_exceeds_the_mini_batch(
    tmp_path: Path, mini_batch: int, cached: bool
) -> None:
    """Else a second pass would be paid for nothing."""
    made = recipe(tmp_path, f"loss={{name: cached_mnrl, mini_batch: {mini_batch}}}")
    loss = training._loss(load_base(made), made, 3, gather=False)
    assert isinstance(loss, CachedMultipleNegativesRankingLoss) == cached


def test_an_adapter_without_gradient_stops_the_run_case_19(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = recipe(tmp_path)
    real = training.attach_lora

    def attach(model: SentenceTransformer, made: Recipe) -> None:
        real(model, made)
        for name, matrix in model.named_parameters():
            if "layer.0.attention.self.query.lora_B" in name:
                matrix.register_hook(torch.zeros_like)

    monkeypatch.setattr(training, "attach_lora", attach)
    with pytest.raises(RuntimeError, match=r"after 5 steps 1 of 12 adapter matrices are still zero.*query.lora_B"):
        train(made, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_sampler_that_is_not_used_is_noticed() -> None:
    loader = torch.utils.data.DataLoader(list(range(4)), batch_size=2)
    with pytest.raises(RuntimeError, match="does not use the distinct-claim sampler"):
        training_callbacks.SamplerCheck().on_train_begin(None, None, None, train_dataloader=loader)
