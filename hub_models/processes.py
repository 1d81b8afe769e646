"""How many processes there are, and which one this is."""

from __future__ import annotations

import os

import torch.distributed


def rank_and_count() -> tuple[int, int]:
    """This process's rank, from 0, and the number of processes that really run.

    Torch is asked if its process group stands, else the launcher's environment. `accelerate launch` for CPUs starts
    one process whatever number it was given, and sets no environment: then it is one here too.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
