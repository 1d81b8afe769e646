"""The loss over rows that come in pairs: one claim, asked for in both stances within one step."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses.merged_forward import embed_columns
from sentence_transformers.util import all_gather_with_grad, get_rank
from torch import Tensor, nn

COLUMNS = ("anchor", "positive", "negative", "other_anchor", "other_positive", "other_negative")
"""A pair's texts: a row that asks for one stance, and a row of the same claim that asks for the other.

No name begins another: the trainer would put the one column's tokens into the other's features.
"""


class BothStancesLoss(nn.Module):
    """InfoNCE in which each argument of a claim plays both parts: right for one query, a hard negative for the other.

    What the one row takes for its hard negative is an argument of the other row's stance. So with the same six texts
    that two separate triplets encode, a query has two positives (its own, and the other row's negative), each of which
    stands against two hard negatives instead of one. The texts of the other claims are in-batch negatives as ever.

    A step holds two hard negatives of the few that a claim has, but only a small draw of all other arguments. So the
    softmax is leaner on topic than the search will be; ``rest_weight`` counts each text of another claim that many
    times (the correction of a sampled softmax: log ``rest_weight`` is added to its score). From the first step on it
    would keep the stance from being learnt at all; `training.RestWeight` lets it count from a later step on.

    Args:
        model: The encoder.
        scale: One over the temperature of the cosines.
        rest_weight: How often a text of another claim counts; 1 is plain InfoNCE.
        gather: Take the texts of the other processes for negatives too.
    """

    def __init__(
        self, model: SentenceTransformer, scale: float, rest_weight: float = 1.0, gather: bool = False
    ) -> None:
        super().__init__()
        self.model = model
        self.scale = scale
        self.rest_weight = rest_weight
        self.gather = gather

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """The loss of one step, a scalar. ``sentence_features`` come in the order of `COLUMNS`."""
        anchor, positive, negative, other_anchor, other_positive, other_negative = sentence_features
        queries = embed_columns(self.model, [anchor, other_anchor], separate_first=False)
        texts = embed_columns(self.model, [positive, other_negative, negative, other_positive], separate_first=False)
        return self.from_vectors(torch.stack(queries, 1), torch.stack(texts, 1))

    def from_vectors(self, queries: Tensor, texts: Tensor) -> Tensor:
        """The loss of vectors of any length.

        Args:
            queries: [n, 2, d], by pair and stance.
            texts: [n, 4, d]; the first two texts of a pair have the first stance, the last two the second.
        """
        n = len(queries)
        queries, texts = (nn.functional.normalize(vectors.float(), dim=-1) for vectors in (queries, texts))
        offset = 0
        if self.gather:
            texts, offset = all_gather_with_grad(texts), get_rank() * n
        scores = torch.einsum("isd,jtd->sijt", queries, texts) * self.scale  # stance, pair, other pair, text
        rows = torch.arange(n, device=scores.device)
        own = scores[:, rows, rows + offset]  # [2, n, 4]
        rest = scores + math.log(self.rest_weight)
        rest[:, rows, rows + offset] = -torch.inf
        rest = rest.flatten(2)
        first, second = slice(texts.shape[1] // 2), slice(texts.shape[1] // 2, None)
        losses = []
        for stance, (right, wrong) in enumerate([(first, second), (second, first)]):
            against = torch.cat([own[stance, :, wrong], rest[stance]], dim=-1)
            for one in own[stance, :, right].unbind(-1):
                losses.append(torch.logsumexp(torch.cat([one[:, None], against], dim=-1), dim=-1) - one)
        return torch.stack(losses).mean()

    def get_config_dict(self) -> dict[str, Any]:
        """What the library writes on its own cards."""
        return {"scale": self.scale, "rest_weight": self.rest_weight, "gather_across_devices": self.gather}
