"""``encoding_process.py FOLDER [hold|kill]``: encode `TEXTS` into a cache that other processes share.

Writes the vectors and the number of texts encoded here to FOLDER, by rank. ``hold``: says so and stops for ever once
it has a shard. ``kill``: dies by SIGKILL inside its third shard.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch.distributed as dist

from hub_models.corpus import encode_corpus
from hub_models.processes import rank_and_count
from tests.tiny import build

TEXTS = [f"{i % 150} {'word ' * (i % 150 % 7)}" for i in range(200)]  # 150 distinct
BATCH = 2


def main(folder: Path, how: str) -> None:
    model = build("stance-bge-large")
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group("gloo")  # not before: then rank 0 alone would save the tiny model
    encode, sizes = model.encode, []

    def spy(texts: list[str], **options: Any) -> Any:
        if how == "hold":
            sys.stdout.write("held\n")
            sys.stdout.flush()
            signal.pause()
        if how == "kill" and len(sizes) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if dist.is_initialized() and not sizes:
            dist.barrier()  # until each has a shard of its own
        sizes.append(len(texts))
        return encode(texts, **options)

    model.encode = spy
    rank, processes = rank_and_count()
    vectors = encode_corpus(TEXTS, model, batch_size=BATCH, cache_dir=folder / "cache")
    np.save(folder / f"vectors{rank}.npy", vectors)
    (folder / f"rank{rank}.json").write_text(json.dumps({"encoded": sum(sizes), "processes": processes}))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")
