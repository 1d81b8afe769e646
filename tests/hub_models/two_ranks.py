"""Run by torchrun: write down which rows this rank's trainer loads, to ``rank{r}.json`` in the folder given."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path

import torch.distributed as dist
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.base.data_collator import BaseDataCollator
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from hub_models.batching import DistinctClaimBatchSampler, RowKeys


class Ids(BaseDataCollator):
    def __call__(self, rows: list[dict[str, str]]) -> list[int]:
        return [int(r["positive"][1:]) for r in rows]


out = Path(sys.argv[1])
claims = ["c0"] * 10 + [f"c{i}" for i in range(1, 15) for _ in range(5)]
positives = [f"p{i}" for i in range(len(claims))]
keys = RowKeys.from_columns(claims, claims, ["support"] * len(claims), positives, [[]] * len(claims))
arguments = SentenceTransformerTrainingArguments(
    output_dir=str(out),
    per_device_train_batch_size=4,
    num_train_epochs=2,
    batch_sampler=functools.partial(DistinctClaimBatchSampler, keys=keys, epochs=2),
    use_cpu=True,
    report_to="none",
)
trainer = SentenceTransformerTrainer(
    model=SentenceTransformer(
        modules=[StaticEmbedding(Tokenizer(WordLevel({"x": 0}, unk_token="x")), embedding_dim=4)]
    ),
    args=arguments,
    train_dataset=Dataset.from_dict({"anchor": claims, "positive": positives}),
    data_collator=Ids(preprocess_fn=None),
)
loader = trainer.get_train_dataloader()
epochs = []
for number in range(2):
    loader.batch_sampler.batch_sampler.set_epoch(number)
    epochs.append(list(loader))
record = {"world_size": dist.get_world_size(), "epochs": epochs, "rows": claims}
(out / f"rank{dist.get_rank()}.json").write_text(json.dumps(record))
dist.destroy_process_group()
