"""``killed_run.py RECIPE OUT STEP``: train, and die by SIGKILL when step STEP is done."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from hub_models import training
from hub_models.recipe import load_recipe


def die(self: Any, args: Any, state: Any, control: Any, **_: Any) -> None:
    if state.global_step == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)


training.AdapterCheck.on_step_end = die  # type: ignore[method-assign]
training.train(load_recipe(sys.argv[1]), Path(sys.argv[2]))
