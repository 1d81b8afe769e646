from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from hub_models import losses
from hub_models.losses import BothStancesLoss


def loss(**options: float) -> BothStancesLoss:
    return BothStancesLoss(None, **{"scale": 2.0, "rest_weight": 1.0, **options})  # type: ignore[arg-type]


def vectors(n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    made = torch.Generator().manual_seed(seed)
    return torch.randn(n, 2, 5, generator=made), torch.randn(n, 4, 5, generator=made)


def the_long_way(queries: torch.Tensor, texts: torch.Tensor, scale: float, rest_weight: float) -> float:
    """Every (query, positive) by itself, with ``math.exp``."""
    q, t = (np.asarray(v / v.norm(dim=-1, keepdim=True)) for v in (queries, texts))
    found = []
    for i in range(len(q)):
        for stance, positives in enumerate([(0, 1), (2, 3)]):
            score = scale * np.einsum("d,jtd->jt", q[i, stance], t)
            wrong = sum(math.exp(score[i, k]) for k in range(4) if k not in positives)
            rest = sum(math.exp(s) for j in range(len(q)) if j != i for s in score[j])
            found += [
                -math.log(math.exp(score[i, p]) / (math.exp(score[i, p]) + wrong + rest_weight * rest))
                for p in positives
            ]
    return float(np.mean(found))


@pytest.mark.parametrize("rest_weight", [0.5, 1.0, 20.0])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_equals_the_long_way(n: int, rest_weight: float) -> None:
    queries, texts = vectors(n)
    got = loss(rest_weight=rest_weight).from_vectors(queries, texts)
    assert float(got) == pytest.approx(the_long_way(queries, texts, 2.0, rest_weight), rel=1e-5)


def test_by_hand() -> None:
    """One pair whose texts lie on their own queries: each softmax has one right text of 1 and two wrong ones of 0."""
    queries = torch.eye(2)[None]
    texts = torch.eye(2).repeat_interleave(2, 0)[None]
    assert float(loss(scale=1.0).from_vectors(queries, texts)) == pytest.approx(math.log(1 + 2 / math.e))


def test_a_swapped_pair_is_worse() -> None:
    queries, texts = torch.eye(2)[None], torch.eye(2).repeat_interleave(2, 0)[None]
    assert loss().from_vectors(queries.flip(1), texts) > loss().from_vectors(queries, texts)


def test_gradients_are_finite_with_nothing_else_in_the_step() -> None:
    queries, texts = (v.requires_grad_() for v in vectors(1))
    loss().from_vectors(queries, texts).backward()
    assert torch.isfinite(queries.grad).all() and torch.isfinite(texts.grad).all()
    assert queries.grad.abs().sum() > 0


def test_two_processes_see_each_others_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean over both ranks, each with its own pairs and all texts, is the loss of one process."""
    queries, texts = vectors(4)
    monkeypatch.setattr(losses, "all_gather_with_grad", lambda _: torch.nn.functional.normalize(texts, dim=-1))
    found = []
    for rank in (0, 1):
        monkeypatch.setattr(losses, "get_rank", lambda rank=rank: rank)
        half = slice(2 * rank, 2 * rank + 2)
        found.append(float(loss(gather=True, rest_weight=3.0).from_vectors(queries[half], texts[half])))
    whole = float(loss(rest_weight=3.0).from_vectors(queries, texts))
    assert np.mean(found) == pytest.approx(whole, rel=1e-6)


def test_no_column_begins_another() -> None:
    """The trainer gathers a column's features by prefix."""
    names = losses.COLUMNS
    assert not [(a, b) for a in names for b in names if a != b and b.startswith(f"{a}_")]
