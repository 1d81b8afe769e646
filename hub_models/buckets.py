"""Losses that encode the texts of a step in groups of like length, whatever their columns.

sentence-transformers makes one forward pass over the anchors and one over all other columns, each padded to its
longest text. Here the texts of all columns are sorted by length, cut where the least is padded, and each group goes
through the encoder at its own width; the vectors are put back in order before the loss sees them. In exact arithmetic,
and without dropout, loss and gradients are those of the original.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from sentence_transformers.base.losses.merged_forward import embed_columns, merge_feature_batches
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from torch import Tensor

# Forward passes a step; the same on all processes, as one that made fewer would keep the others waiting. Off the CPU
# as many as the library makes: two groups never hold more padding than its two passes.
_GROUPS_ON_CPU, _GROUPS = 3, 2

Features = dict[str, Any]


def cuts(lengths: Sequence[int], groups: int) -> list[int]:
    """Where to cut sorted lengths so that padding each group to its longest text costs the fewest tokens.

    Args:
        lengths: Tokens of each text, ascending.
        groups: How many groups, at most the number of texts.

    Returns:
        The end of each group: ``groups`` ascending positions, the last one ``len(lengths)``.

    Example:
        >>> cuts([2, 2, 3, 9, 9], 2)
        [3, 5]
    """
    at = np.arange(len(lengths) + 1)
    width = np.array([0, *lengths])
    # padded[b, e]: tokens of the group b to e; best[e]: of the best cut of the first e texts, whose last group begins
    # at start[e].
    padded = np.where(at[:, None] < at, (at - at[:, None]) * width, np.inf)
    best, starts = padded[0], []
    for _ in range(groups - 1):
        total = best[:, None] + padded
        starts.append(total.argmin(axis=0))
        best = total.min(axis=0)
    ends = [len(lengths)]
    for start in reversed(starts):
        ends.append(int(start[ends[-1]]))
    return ends[::-1]


def _sorted_by_length(features: list[Features]) -> tuple[Features, Tensor, Tensor] | None:
    """The texts of all columns as one batch, shortest first, each text at the left end of its row.

    Returns:
        The batch, int64[n] tokens of each row, and int64[n], the row of each text in the order of the columns; None
        where the columns cannot be one batch.
    """
    merged = merge_feature_batches(features)
    mask = None if merged is None else merged.get("attention_mask")
    if merged is None or mask is None:
        return None
    lengths, order = mask.sum(dim=1).sort(stable=True)
    first = mask[order].argmax(dim=1, keepdim=True)  # 0, but for texts padded on the left
    place = (first + torch.arange(mask.shape[1], device=mask.device)) % mask.shape[1]
    of_texts = {key for key, value in merged.items() if isinstance(value, Tensor) and value.shape == mask.shape}
    batch = {key: value[order].gather(1, place) if key in of_texts else value for key, value in merged.items()}
    return batch, lengths, order.argsort()


def embed(model: Any, features: list[Features]) -> list[Tensor]:
    """Embed columns of texts in groups of like length.

    Args:
        model: A `SentenceTransformer`, or what a trainer wraps it into.
        features: The tokens of each column, as the model's ``preprocess`` gives them.

    Returns:
        float32[rows, dim] a column.
    """
    batched = _sorted_by_length(features)
    if batched is None:
        return embed_columns(model, features)  # type: ignore[no-any-return]
    batch, lengths, rows = batched
    groups = _GROUPS_ON_CPU if lengths.device.type == "cpu" else _GROUPS
    ends = cuts(lengths.tolist(), min(groups, len(lengths)))
    vectors = []
    for begin, end in zip([0, *ends], ends, strict=False):
        width = int(lengths[end - 1])
        group = {k: v[begin:end, :width] if isinstance(v, Tensor) and v.ndim == 2 else v for k, v in batch.items()}
        vectors.append(model(group)["sentence_embedding"])
    return list(torch.cat(vectors)[rows].chunk(len(features)))


class BucketedMultipleNegativesRankingLoss(MultipleNegativesRankingLoss):  # type: ignore[misc]
    """The loss of its base class, with the step's texts embedded in groups of like length."""

    def forward(self, sentence_features: Iterable[Features], labels: Tensor) -> Tensor:
        loss: Tensor = self.compute_loss_from_embeddings(embed(self.model, list(sentence_features)), labels)
        return loss
