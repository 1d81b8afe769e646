"""A tiny random model made as LUAR is: code of its own, episodes, an encoder that its class loads when it is made."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import RobertaConfig, RobertaModel, set_seed

from hub_models.hub_cache import install_snapshot
from tests.tiny import REVISION, _bert

INNER = "slant-tests/tiny-roberta"
TOKENS, WIDTH, HIDDEN = 24, 12, 16

CONFIGURATION = """
from transformers import PretrainedConfig


class EpisodeConfig(PretrainedConfig):
    model_type = "LUAR"

    def __init__(self, embedding_size=12, **kwargs):
        self.embedding_size = embedding_size
        super().__init__(**kwargs)
"""
MODEL = """
import torch
from transformers import AutoModel, PreTrainedModel
from .configuration_episodes import EpisodeConfig


class EpisodeModel(PreTrainedModel):
    config_class = EpisodeConfig

    def __init__(self, config):
        super().__init__(config)
        self.transformer = AutoModel.from_pretrained("INNER")
        self.linear = torch.nn.Linear(self.transformer.config.hidden_size, config.embedding_size)

    def forward(self, input_ids, attention_mask):
        batch, episode, tokens = input_ids.shape
        mask = attention_mask.flatten(0, 1)
        states = self.transformer(input_ids.flatten(0, 1), mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(states.dtype)
        texts = ((states * weights).sum(1) / weights.sum(1)).unflatten(0, (batch, episode))
        seen = torch.softmax(texts @ texts.mT / texts.shape[-1] ** 0.5, dim=-1) @ texts
        found = self.linear(seen.amax(dim=1))
        return RETURNED
"""


@functools.cache
def _install_inner() -> str:
    """The encoder that the class loads, with other weights than the checkpoint's."""
    with tempfile.TemporaryDirectory() as folder:
        _roberta(0).save_pretrained(folder)
        install_snapshot(INNER, REVISION, Path(folder))
    return INNER


def _roberta(seed: int) -> RobertaModel:
    set_seed(seed)
    config = RobertaConfig(
        vocab_size=len(_bert()),
        hidden_size=HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=TOKENS + 1,  # the pad token takes the first
        pad_token_id=0,
    )
    model = RobertaModel(config, add_pooling_layer=True)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=0.3)
    return model


def weights() -> dict[str, torch.Tensor]:
    """Of the whole checkpoint, with the positions that old versions of transformers saved."""
    inner = {f"transformer.{name}": tensor for name, tensor in _roberta(1).state_dict().items()}
    linear = torch.nn.Linear(HIDDEN, WIDTH)
    positions = torch.arange(TOKENS + 1).unsqueeze(0)
    return {
        **inner,
        "transformer.embeddings.position_ids": positions,
        "linear.weight": linear.weight.detach(),
        "linear.bias": linear.bias.detach(),
    }


def write(folder: Path, *, returned: str = "found", first_line: str = "", length: int | None = TOKENS) -> Path:
    """Configuration, code, weights and tokenizer.

    Args:
        folder: Where to.
        returned: What the model's class gives for ``found``, its vectors.
        first_line: Of the code.
        length: What the tokenizer says to be the longest input; None says nothing.
    """
    _install_inner()
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _bert()
    if length is not None:
        tokenizer.model_max_length = length
    tokenizer.save_pretrained(folder)
    save_file({name: tensor.clone() for name, tensor in weights().items()}, folder / "model.safetensors")
    (folder / "configuration_episodes.py").write_text(CONFIGURATION)
    code = MODEL.replace("INNER", INNER).replace("RETURNED", returned)
    (folder / "modeling_episodes.py").write_text(f"{first_line}\n{code}")
    classes = {
        "AutoConfig": "configuration_episodes.EpisodeConfig",
        "AutoModel": "modeling_episodes.EpisodeModel",
    }
    (folder / "config.json").write_text(
        json.dumps({"model_type": "LUAR", "embedding_size": WIDTH, "auto_map": classes})
    )
    return folder
