"""Groups of like length: cuts against all cuts there are, and a step in groups against the library's own."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses.merged_forward import embed_columns
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from torch import nn

from hub_models import buckets
from hub_models.adapter import attach_lora
from hub_models.base import load_base
from hub_models.buckets import BucketedMultipleNegativesRankingLoss, cuts
from tests.tiny import tiny

ROOT = Path(__file__).parent.parent.parent
COLUMNS = [
    ["a tax", "cars and homework", "sugar", "find evidence refuting the claim"],
    ["No.", "cities should ban cars, says one, and so says another one", "word word word", "homework"],
    ["a longer one on nuclear power and on what it costs in the end", "a", "the claim", "taxes, taxes"],
]


def padded(lengths: list[int], ends: list[int]) -> int:
    return sum((end - begin) * lengths[end - 1] for begin, end in zip([0, *ends], ends, strict=False))


@given(st.lists(st.integers(1, 40), min_size=1, max_size=9), st.integers(1, 4))
def test_cuts_are_the_cheapest_of_all(lengths: list[int], groups: int) -> None:
    lengths, groups = sorted(lengths), min(groups, len(lengths))
    found = cuts(lengths, groups)
    assert found[-1] == len(lengths) and len(found) == groups and [0, *found] == sorted({0, *found})
    every = itertools.combinations(range(1, len(lengths)), groups - 1)
    assert padded(lengths, found) == min(padded(lengths, [*ends, len(lengths)]) for ends in every)


@given(st.lists(st.integers(1, 40), min_size=2, max_size=12), st.data())
def test_two_groups_never_pad_more_than_the_librarys_two_passes(lengths: list[int], data: st.DataObject) -> None:
    anchors = data.draw(st.integers(1, len(lengths) - 1))
    theirs = anchors * max(lengths[:anchors]) + (len(lengths) - anchors) * max(lengths[anchors:])
    assert padded(sorted(lengths), cuts(sorted(lengths), 2)) <= theirs


def encoder(name: str, *overrides: str) -> SentenceTransformer:
    recipe = tiny(name, "precision=fp32", "lora.dropout=0", *overrides)
    model = load_base(recipe)
    attach_lora(model, recipe)
    with torch.no_grad():  # zero at the start: the adapter would not be seen
        for parameter_name, parameter in model.named_parameters():
            if "lora_B" in parameter_name:
                parameter.normal_(std=0.1)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model.eval()


def gradient(model: SentenceTransformer) -> torch.Tensor:
    found = torch.cat([p.grad.flatten() for n, p in model.named_parameters() if "lora_" in n and p.grad is not None])
    model.zero_grad()
    return found


@pytest.mark.parametrize("prompt", [None, "find evidence: "])
@pytest.mark.parametrize("name", ["stance-bge-large", "stance-instructor-xl", "stance-qwen3-8b"])
def test_vectors_loss_and_gradient_are_the_librarys(name: str, prompt: str | None) -> None:
    """Padding on the right (BERT, T5) and on the left (Qwen); with a prompt, one that is not pooled."""
    model = encoder(name)
    if prompt is not None and name != "stance-qwen3-8b":  # it pools the last token alone
        model.set_pooling_include_prompt(False)

    def features() -> list[dict[str, Any]]:
        return [model.preprocess(column, prompt=prompt) for column in COLUMNS]

    with torch.no_grad():
        vectors = zip(buckets.embed(model, features()), embed_columns(model, features()), strict=True)
    for ours, theirs in vectors:
        assert (ours - theirs).abs().max() < 1e-5
    found = []
    for loss in (BucketedMultipleNegativesRankingLoss(model), MultipleNegativesRankingLoss(model)):
        value = loss(features(), None)
        value.backward()
        found.append((value.item(), gradient(model)))
    (ours_value, ours_gradient), (value, theirs_gradient) = found
    assert ours_value == pytest.approx(value, abs=1e-5)
    assert theirs_gradient.abs().max() > 1e-3
    assert (ours_gradient - theirs_gradient).abs().max() < 1e-5 * theirs_gradient.abs().max()


def test_a_step_is_cut_into_narrow_groups() -> None:
    model = encoder("stance-bge-large")
    shapes: list[tuple[int, int]] = []
    model[0].register_forward_pre_hook(lambda _, inputs: shapes.append(tuple(inputs[0]["input_ids"].shape)))
    features = [model.preprocess(column) for column in COLUMNS]
    buckets.embed(model, features)
    lengths = sorted(int(n) for f in features for n in f["attention_mask"].sum(dim=1))
    assert sum(rows * width for rows, width in shapes) == padded(lengths, cuts(lengths, 3))
    assert len(shapes) == 3 and sum(rows for rows, _ in shapes) == 12


def test_bf16_moves_vectors_no_more_than_it_does_anyway() -> None:
    model = encoder("stance-bge-large")
    exact = torch.cat(buckets.embed(model, [model.preprocess(column) for column in COLUMNS]))
    with torch.autocast("cpu", torch.bfloat16):
        halves = torch.cat(buckets.embed(model, [model.preprocess(column) for column in COLUMNS]))
    assert 0 < (halves - exact).abs().max() < 0.02


def test_columns_that_cannot_be_one_batch_go_the_librarys_way() -> None:
    """Here one column has a prompt and the others have none."""
    model = encoder("stance-bge-large")
    model.set_pooling_include_prompt(False)

    def features() -> list[dict[str, Any]]:
        return [model.preprocess(column, prompt="find: " if i == 0 else None) for i, column in enumerate(COLUMNS)]

    for ours, theirs in zip(buckets.embed(model, features()), embed_columns(model, features()), strict=True):
        assert torch.equal(ours, theirs)


def test_negatives_gathered_from_two_processes_give_the_gradient_of_one(tmp_path: Path) -> None:
    script = Path(__file__).parent / "gathered_loss.py"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    done = subprocess.run([*torchrun, str(script), str(tmp_path)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    ranks = [json.loads((tmp_path / f"rank{r}.json").read_text()) for r in range(2)]
    assert [rank["world_size"] for rank in ranks] == [2, 2]
    model = encoder("stance-bge-large")
    value = BucketedMultipleNegativesRankingLoss(model)([model.preprocess(column) for column in COLUMNS], None)
    value.backward()
    alone = gradient(model)
    assert sum(rank["loss"] for rank in ranks) / 2 == pytest.approx(value.item(), abs=1e-5)
    for rank in ranks:
        assert (torch.tensor(rank["gradient"]) - alone).abs().max() < 1e-5 * alone.abs().max()
