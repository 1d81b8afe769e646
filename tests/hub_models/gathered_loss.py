"""Run by torchrun: loss and gradient of this rank's half of a step, to ``rank{r}.json`` in the folder given."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from hub_models.buckets import BucketedMultipleNegativesRankingLoss
from tests.hub_models.test_buckets import COLUMNS, encoder, gradient

out = Path(sys.argv[1])
model = encoder("stance-bge-large")
dist.init_process_group("gloo")  # not before: then rank 0 alone would save the tiny model
rank, half = dist.get_rank(), len(COLUMNS[0]) // 2
loss = BucketedMultipleNegativesRankingLoss(model, gather_across_devices=True)
loss.model = DistributedDataParallel(model)
value = loss([model.preprocess(column[rank * half : (rank + 1) * half]) for column in COLUMNS], None)
value.backward()
record = {"world_size": dist.get_world_size(), "loss": value.item(), "gradient": gradient(model).tolist()}
(out / f"rank{rank}.json").write_text(json.dumps(record))
dist.destroy_process_group()
