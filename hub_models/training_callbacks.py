"""What looks on while an adapter is trained: the log and the bar, and checks of what would fail in silence."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from transformers import ProgressCallback, TrainerCallback

from dataset_builders.atomic import write_text
from hub_models.batching import DistinctClaimBatchSampler
from hub_models.processes import on_main

CHECK_ADAPTER_AT = 5  # steps; by then each adapter matrix has moved, or never will
_COMPLETE = "complete"  # a checkpoint that holds this file was written to its end on all ranks


class ProgressBar(ProgressCallback):  # type: ignore[misc]
    """The trainer's bar with the loss at its end instead of a line for each log entry."""

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        if self.training_bar is not None and logs and "loss" in logs:
            self.training_bar.set_postfix(loss=f"{float(logs['loss']):.3f}")

    def close(self) -> None:
        """End the bar, whatever became of the training."""
        if self.training_bar is not None:
            self.training_bar.close()


class RunLog(TrainerCallback):  # type: ignore[misc]
    """``train.log``: one JSON object a line with step, epoch, loss, learning_rate and grad_norm."""

    KEYS = ("step", "epoch", "loss", "learning_rate", "grad_norm")

    def __init__(self, folder: Path) -> None:
        self._path = folder / "train.log"

    def on_log(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.is_world_process_zero:
            # A gradient that overflowed in half precision has no norm that JSON could hold.
            entries = [
                {k: e[k] if math.isfinite(e[k]) else None for k in self.KEYS if k in e}
                for e in state.log_history
                if "loss" in e
            ]
            write_text(self._path, "".join(json.dumps(entry, allow_nan=False) + "\n" for entry in entries))


class SamplerCheck(TrainerCallback):  # type: ignore[misc]
    """See to it that the trainer draws its batches from our sampler, in the epoch that it is in.

    A sampler that is handed over in the wrong form is ignored in silence, and after resuming with several processes
    the trainer does not pass the epoch on.
    """

    def on_train_begin(self, args: Any, state: Any, control: Any, train_dataloader: Any = None, **_: Any) -> None:
        if _sampler_of(train_dataloader) is None:
            raise RuntimeError("the trainer does not use the distinct-claim sampler; this is a fault of training.py")

    def on_epoch_begin(self, args: Any, state: Any, control: Any, train_dataloader: Any = None, **_: Any) -> None:
        sampler = _sampler_of(train_dataloader)
        if sampler is not None:
            sampler.set_epoch(int(state.epoch or 0))


def _sampler_of(loader: Any) -> DistinctClaimBatchSampler | None:
    while loader is not None and not isinstance(loader, DistinctClaimBatchSampler):
        loader = getattr(loader, "batch_sampler", None)
    return loader


class AdapterCheck(TrainerCallback):  # type: ignore[misc]
    """Stop a run whose adapter does not move.

    ``lora_B`` starts at zero. Where a layer gets no gradient, as under gradient checkpointing without inputs that need
    one, it stays there while the loss is logged as ever.

    Raises:
        RuntimeError: From the trainer, a few steps after the start or at the end, naming the matrices that are zero.
    """

    def __init__(self, weights: Callable[[], dict[str, torch.Tensor]]) -> None:
        self._weights = weights

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        # Scaling for fp16 starts too high on purpose and skips steps until it fits.
        if state.global_step == (50 if args.fp16 else CHECK_ADAPTER_AT):
            self._check(state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._check(state.global_step)

    def _check(self, step: int) -> None:
        weights = self._weights()  # gathered by all
        on_main(PartialState(), lambda: self._require_moved(weights, step))

    def _require_moved(self, weights: dict[str, torch.Tensor], step: int) -> None:
        matrices = {name: weight for name, weight in weights.items() if "lora_B" in name}
        still = [name for name, matrix in matrices.items() if not matrix.abs().max() > 0]
        if still:
            raise RuntimeError(
                f"after {step} steps {len(still)} of {len(matrices)} adapter matrices are still zero or not "
                f"finite, such as {still[:2]}: no gradient reaches them. Is the learning rate above 0 (the first step "
                "of a warm-up is not), do lora.target_modules name modules that the pooled output depends on, does "
                "the base support gradient_checkpointing?"
            )


class CheckpointMark(TrainerCallback):  # type: ignore[misc]
    """Mark a checkpoint as complete once every rank has written its part: a kill may come in between."""

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        PartialState().wait_for_everyone()
        if state.is_world_process_zero:
            (Path(args.output_dir) / f"checkpoint-{state.global_step}" / _COMPLETE).touch()


def last_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint in ``folder`` that all ranks have written."""
    complete = [mark.parent for mark in folder.glob(f"checkpoint-*/{_COMPLETE}")]
    return max(complete, key=lambda path: int(path.name.rpartition("-")[2]), default=None)
