"""What training has to know of parameters that no process holds whole: FSDP2, and DeepSpeed's ZeRO-3.

Weights are read through accelerate's ``get_state_dict``, which gathers whatever the sharding is. All processes have to
ask, and the main one gets them. Without sharding each has its own, uncopied.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accelerate import Accelerator
from accelerate.utils import parse_flag_from_env
from sentence_transformers import SentenceTransformer
from torch import Tensor
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict


def is_wanted() -> bool:
    """Whether `accelerate launch` was told to shard the model."""
    return any(parse_flag_from_env(f"ACCELERATE_USE_{engine}") for engine in ("FSDP", "DEEPSPEED"))


def prepare(accelerator: Accelerator, model: SentenceTransformer) -> None:
    """See to it that what is wanted is done, and that FSDP2 gathers one layer of the transformer at a time.

    sentence-transformers names no layers to accelerate, which would then make one unit of the whole encoder: each
    device would hold all of it in every step. Without a place to look for the transformer's last normalisation,
    accelerate would take the module `Normalize` for it, and fail.

    Raises:
        ValueError: If accelerate does not shard, as on CPUs, or shards in a way that training cannot save.
    """
    state = accelerator.state
    plugin = getattr(state, "fsdp_plugin", None)
    if plugin is None:
        if getattr(state, "deepspeed_plugin", None) is None:
            raise ValueError(
                f"accelerate was told to shard the model and does not on {state.num_processes} process(es) of "
                f"{state.device.type}, wanted several with an accelerator each; start with torchrun instead"
            )
        return
    kept = getattr(plugin.state_dict_type, "name", plugin.state_dict_type)
    if (plugin.fsdp_version, kept) != (2, "FULL_STATE_DICT"):
        raise ValueError(
            f"got FSDP{plugin.fsdp_version} with {kept}, wanted fsdp_version: 2 and fsdp_state_dict_type: "
            "FULL_STATE_DICT in the fsdp_config of accelerate's file, as in hub_models/accelerate/fsdp2_8.yaml"
        )
    model.base_model_prefix = "transformers_model"
    if plugin.transformer_cls_names_to_wrap is None:
        layers = set(model.transformers_model._no_split_modules or ())
        plugin.transformer_cls_names_to_wrap = sorted(layers & {type(module).__name__ for module in model.modules()})


def adapter_weights(accelerator: Accelerator, model: Any) -> dict[str, Tensor]:
    """The adapter's matrices, whole, by their names in the encoder; none on other processes of a sharded run.

    Args:
        accelerator: The trainer's.
        model: What it made of the encoder.
    """
    return of_adapter(accelerator.get_state_dict(model) or {})


def of_adapter(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The adapter's part of an encoder's weights."""
    return {name: weight for name, weight in weights.items() if "lora_" in name}


def load_adapter(model: SentenceTransformer, weights: Mapping[str, Tensor]) -> None:
    """Put ``weights``, whole on every process, into ``model``, of which each process may hold a part.

    Raises:
        ValueError: If they are not those of the model's adapter.
    """
    wanted = of_adapter(dict(model.named_parameters())).keys()
    if weights.keys() != wanted:
        raise ValueError(
            f"got {len(weights)} adapter matrices, wanted {len(wanted)}, which differ in "
            f"{sorted(weights.keys() ^ wanted)[:2]}"
        )
    set_model_state_dict(model, dict(weights), options=StateDictOptions(full_state_dict=True, strict=False))
