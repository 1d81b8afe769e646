"""``accelerate launch … sharded_run.py RECIPE OUT [STEP]``: train sharded on CPUs; with STEP, die by SIGKILL there.

accelerate shards on accelerators alone: it is told that processes on CPUs, joined by gloo, are such. Each writes what
it holds of the model after a step to ``OUT.rank{r}.json``.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch.distributed as dist
from accelerate import PartialState
from accelerate.utils import DistributedType
from torch.distributed.fsdp import FSDPModule

from hub_models import training
from hub_models.recipe import load_recipe

recipe, out = load_recipe(sys.argv[1]), Path(sys.argv[2])
last = int(sys.argv[3]) if len(sys.argv) > 3 else None
os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"
PartialState._prepare_backend = lambda *_, **__: ("gloo", DistributedType.MULTI_GPU)
dist.init_process_group("gloo")
if importlib.util.find_spec("deepspeed"):  # which would compile a faster gloo for minutes
    importlib.import_module("deepspeed.comm.torch").build_shm_op = lambda: None  # type: ignore[attr-defined]
rank = dist.get_rank()


def held(parameter: Any) -> tuple[int, int]:
    """How many numbers of a parameter this process holds, and how many there are."""
    if hasattr(parameter, "ds_tensor"):  # ZeRO-3
        return parameter.ds_tensor.numel(), parameter.ds_numel
    return parameter.to_local().numel(), parameter.numel()


class Watched(training.AdapterCheck):
    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        if state.global_step == 1:
            own, whole = (sum(sizes) for sizes in zip(*map(held, model.parameters()), strict=True))
            units = sorted(type(module).__name__ for module in model.modules() if isinstance(module, FSDPModule))
            record = {"world_size": dist.get_world_size(), "share": own / whole, "units": units}
            out.with_name(f"{out.name}.rank{rank}.json").write_text(json.dumps(record))
        if state.global_step == last:
            os.kill(os.getpid(), signal.SIGKILL)
        super().on_step_end(args, state, control)


training.AdapterCheck = Watched  # type: ignore[misc]
logging.basicConfig(format="%(message)s", level=logging.INFO if rank == 0 else logging.ERROR)
training.train(recipe, out)
