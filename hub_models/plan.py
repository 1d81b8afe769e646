"""What a run will take, from its recipe alone: parameters, memory, steps, tokens, negatives.

Parameters are counted on the real model class on the meta device, with the very adapter that training attaches. Memory
is an estimate. Nothing is downloaded where the recipe holds the architecture.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch
from accelerate.commands.config.config_args import ClusterConfig
from accelerate.commands.launch import launch_command_parser
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, AutoModel, T5EncoderModel

from dataset_builders.description import read_description
from dataset_builders.folder import shards
from dataset_builders.oblique.read import ALL
from dataset_builders.plain_yaml import read_yaml
from dataset_builders.text import did_you_mean
from hub_models.adapter import add_lora
from hub_models.hub_cache import ensure_base
from hub_models.model_files import loading
from hub_models.recipe import DataEntry, Recipe

_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Plan:
    """The figures of one run.

    Attributes:
        name: The recipe's name.
        world_size: Processes, one for each device.
        trainable: Parameters that the optimiser moves.
        total: Parameters of the model with adapter, projection included.
        base: Parameters of the base's transformer.
        memory: Bytes per device by part; estimates.
        per_device_batch: Rows per process and step.
        rows: Training rows per epoch, or null where a data entry has no dose and is no built folder.
        batches: Steps forward and back over all epochs.
        steps: Steps of the optimiser over all epochs.
        tokens: Over all epochs and devices, if every text were as long as ``max_seq_length``: an upper bound.
        negatives: What each anchor is contrasted with in one step, over all devices.
    """

    name: str
    world_size: int
    trainable: int
    total: int
    base: int
    memory: dict[str, int]
    per_device_batch: int
    rows: int | None
    batches: int | None
    steps: int | None
    tokens: int | None
    negatives: int

    def table(self) -> str:
        """The plan as plain text."""
        share = self.trainable / self.total
        unknown = "unknown: build the data first, or set data.0.dose=ROWS"
        lines = [
            ("recipe", f"{self.name} on {self.world_size} device{'s' * (self.world_size > 1)}"),
            ("trainable parameters", f"{self.trainable:,} ({share:.2%} of {self.total:,}; base {self.base:,})"),
            ("rows per step", f"{self.per_device_batch * self.world_size} ({self.per_device_batch} per device)"),
            ("negatives per anchor", f"{self.negatives:,}"),
            ("rows per epoch", unknown if self.rows is None else f"{self.rows:,}"),
            ("steps", unknown if self.steps is None else f"{self.steps:,} of the optimiser, {self.batches:,} batches"),
            ("tokens", unknown if self.tokens is None else f"at most {self.tokens:,}"),
            ("memory per device", f"about {sum(self.memory.values()) / _GIB:.2f} GiB, estimated as"),
            *((f"  {part}", f"{size / _GIB:.2f} GiB") for part, size in self.memory.items()),
        ]
        return "\n".join(f"{key:<28}{value}" for key, value in lines)


def plan(recipe: Recipe, world_size: int = 1) -> Plan:
    """Work out what a run takes.

    Args:
        recipe: Without an ``architecture``, the base's own ``config.json`` is read.
        world_size: Processes, one for each device.

    Raises:
        ValueError: If ``world_size`` processes cannot share ``global_batch``, the architecture has unknown keys, or
            LoRA does not fit it.
    """
    per_device = recipe.per_device_batch(world_size)
    transformer = _on_meta(recipe)
    base = _count(transformer)
    with torch.device("meta"):
        add_lora(transformer, recipe)
    trainable = _count(transformer) - base
    dense = transformer.config.hidden_size * (recipe.dense or 0)

    # Where style pairs replace queries, only reading the rows tells how many of them stay.
    counts = [entry.dose or (None if recipe.replaces else _rows_at_hand(entry)) for entry in recipe.data]
    rows = None if None in counts else sum(count for count in counts if count is not None)
    texts = 2 + recipe.negatives_per_anchor
    batches = steps = tokens = None
    if rows is not None:  # one process also trains on the last rows, several drop a partial step
        per_epoch = math.ceil(rows / recipe.global_batch) if world_size == 1 else rows // recipe.global_batch
        batches = math.ceil(recipe.epochs * per_epoch)
        steps = math.ceil(recipe.epochs * math.ceil(per_epoch / recipe.accumulation))
        tokens = math.ceil(recipe.epochs * rows) * texts * recipe.max_seq_length
    return Plan(
        name=recipe.name,
        world_size=world_size,
        trainable=trainable,
        total=base + trainable + dense,
        base=base,
        # Cached gradients encode one column of a mini-batch at a time, the plain loss all of a batch.
        memory=_memory(
            recipe, transformer, trainable, base + dense, recipe.loss.mini_batch_of(per_device) or per_device * texts
        ),
        per_device_batch=per_device,
        rows=rows,
        batches=batches,
        steps=steps,
        tokens=tokens,
        # The positives of the other rows, and the negatives of all rows, the anchor's own among them.
        negatives=recipe.global_batch * (1 + recipe.negatives_per_anchor) - 1,
    )


def processes_of(config_file: Path) -> int:
    """How many processes ``accelerate launch --config_file`` starts, over all machines.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is too large, no UTF-8 or no YAML, names no number, or has a key that is unknown to
            accelerate, which itself ignores one of ``fsdp_config`` or ``deepspeed_config`` in silence.
    """
    if not config_file.is_file():
        raise FileNotFoundError(f"{config_file}: no such file; wanted one of accelerate, as in hub_models/accelerate")
    text = read_description(config_file)
    try:
        read_yaml(text)  # accelerate's own reading knows no bounds
        config = ClusterConfig.from_yaml_file(str(config_file))
        nested = {part: dict(getattr(config, part) or {}) for part in ("fsdp_config", "deepspeed_config")}
        processes = int(config.num_processes)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{config_file}: accelerate does not read it ({' '.join(str(error).split())})") from None
    known = vars(launch_command_parser().parse_args(["train.py"]))
    for part, keys in nested.items():
        for key in map(str, keys):
            prefixed = part == "fsdp_config" and not key.startswith("fsdp")  # accelerate takes both
            if (f"fsdp_{key}" if prefixed else key) not in known:
                raise ValueError(
                    f"{config_file}: accelerate knows no {key!r} in {part} and would ignore it."
                    f"{did_you_mean(key, known)}"
                )
    if processes < 1:
        raise ValueError(f"{config_file}: got num_processes: {processes}, wanted how many all machines start together")
    return processes


def _rows_at_hand(entry: DataEntry) -> int | None:
    """Rows of a built folder of triplets or oblique rows, by the parquet footers; null for anything else."""
    curricula = shards(Path(entry.path)) if entry.path is not None and Path(entry.path).is_dir() else {}
    if not curricula or entry.task is not None:
        return None
    default = ALL if ALL in curricula else list(curricula)[-1]
    files = curricula.get(entry.config or default, {}).get(entry.split, [])
    return sum(pq.read_metadata(file).num_rows for file in files) or None


def _on_meta(recipe: Recipe) -> Any:
    """The base's transformer without its weights."""
    try:
        return _built(recipe)
    except (StrictDataclassError, ArithmeticError, LookupError, RuntimeError, TypeError) as error:
        raise ValueError(
            f"recipe {recipe.name}: no model can be built from its architecture ({' '.join(str(error).split())}); "
            "set the keys of `architecture` as in the base's config.json"
        ) from None


def _built(recipe: Recipe) -> Any:
    if recipe.architecture is not None:
        dimensions = recipe.architecture.model_dump(exclude={"model_type"})
        known = dir(AutoConfig.for_model(recipe.architecture.model_type))
        unknown = [name for name in dimensions if name not in known]
        if unknown:
            raise ValueError(
                f"recipe {recipe.name}: a {recipe.architecture.model_type} configuration has no "
                f"{', '.join(unknown)}.{''.join(did_you_mean(name, known) for name in unknown)}"
            )
        config = AutoConfig.for_model(recipe.architecture.model_type, **dimensions)
    else:
        ensure_base(recipe.base)
        with loading(recipe.base):
            config = AutoConfig.from_pretrained(recipe.base, revision=recipe.base_revision, trust_remote_code=False)
    with torch.device("meta"):
        return T5EncoderModel(config) if config.model_type == "t5" else AutoModel.from_config(config)


def _count(module: Any) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _memory(recipe: Recipe, transformer: Any, trainable: int, frozen: int, texts: int) -> dict[str, int]:
    """Bytes per device, ``texts`` of them at once, every text as long as the longest.

    Activations after Korthikanti et al. (2022, section 4.1) with fused attention: per token, a layer keeps 9 vectors
    of the hidden width h and 2 of the feed-forward width f (4 where that is gated); with f = 4h in 16 bits that is
    their 34·s·b·h. Checkpointing keeps one vector per layer, and one layer whole while it is computed anew.
    """
    config = transformer.config
    gated = any(name.endswith("gate_proj") for name, _ in transformer.named_modules())
    widths = (getattr(config, name, None) for name in ("intermediate_size", "d_ff", "hidden_dim"))
    feed_forward = next((width for width in widths if width), 4 * config.hidden_size)
    tokens = texts * recipe.max_seq_length
    bytes_each = 4 if recipe.precision == "fp32" else 2
    layer = bytes_each * tokens * (9 * config.hidden_size + (4 if gated else 2) * feed_forward)
    boundaries = bytes_each * tokens * config.hidden_size * config.num_hidden_layers
    return {
        "frozen weights": frozen * _BYTES[str(config.dtype or "float32").removeprefix("torch.")],
        "adapter (float32)": trainable * 4,
        "gradients (float32)": trainable * 4,
        "AdamW moments (float32)": trainable * 8,
        "activations": boundaries + layer if recipe.gradient_checkpointing else layer * config.num_hidden_layers,
    }
