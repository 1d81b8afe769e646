"""How many processes there are, which one this is, and what the main one does for all."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch.distributed
from accelerate import PartialState
from accelerate.utils import broadcast_object_list


def rank_and_count() -> tuple[int, int]:
    """This process's rank, from 0, and the number of processes that really run.

    Torch is asked if its process group stands, else the launcher's environment. `accelerate launch` for CPUs starts
    one process whatever number it was given, and sets no environment: then it is one here too.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def on_main(state: PartialState, work: Callable[[], Any]) -> Any:
    """What ``work`` gives or raises on the main process, on all of them: none is left waiting for one that failed."""
    outcome: list[Any] = [None, None]
    if state.is_main_process:
        try:
            outcome[0] = work()
        except (OSError, ValueError, RuntimeError) as error:
            outcome[1] = error
    if state.num_processes > 1:
        broadcast_object_list(outcome)
    result, fault = outcome
    if fault is not None:
        raise fault
    return result
