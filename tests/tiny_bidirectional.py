"""A tiny random decoder that looks both ways, by code of its own, as the base of obliq-3b is made."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaModel, set_seed

from hub_models.hub_cache import install_snapshot
from hub_models.recipe import Recipe, load_recipe
from tests.tiny import REVISION, _qwen3

CODE = """
from transformers import LlamaConfig, LlamaModel


class LlamaBidirectionalConfig(LlamaConfig):
    model_type = "llama_bidirec"


class LlamaBidirectionalModel(LlamaModel):
    config_class = LlamaBidirectionalConfig

    def __init__(self, config):
        super().__init__(config)
        config.is_causal = CAUSAL
        for layer in self.layers:  # without padding there is no mask, and this alone decides
            layer.self_attn.is_causal = CAUSAL
"""
FILE = "llama_bidirectional_model.py"


def write(folder: Path, *, causal: bool = False, repository: str = "") -> None:
    """Config, code, weights and tokenizer; no modules.json, so that the recipe's pooling decides.

    Args:
        folder: Where to.
        causal: The code fails to look ahead, in silence.
        repository: Where the code is said to be, instead of beside the weights.
    """
    tokenizer = _qwen3()
    set_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=0.2)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / FILE).write_text(CODE.replace("CAUSAL", str(causal)))
    content = json.loads((folder / "config.json").read_text())
    prefix = f"{repository}--" if repository else ""
    stem = prefix + FILE.removesuffix(".py")
    content |= {
        "model_type": "llama_bidirec",
        "architectures": ["LlamaBidirectionalModel"],
        "auto_map": {
            "AutoConfig": f"{stem}.LlamaBidirectionalConfig",
            "AutoModel": f"{stem}.LlamaBidirectionalModel",
        },
    }
    (folder / "config.json").write_text(json.dumps(content))


@functools.cache
def install(*, causal: bool = False, repository: str = "") -> str:
    """The same in the Hub's cache, by its id."""
    repo_id = f"slant-tests/tiny-{'causal' if causal else 'bidirectional'}{'-elsewhere' if repository else ''}"
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), causal=causal, repository=repository)
        install_snapshot(repo_id, REVISION, Path(folder))
    return repo_id


def recipe(*overrides: str, causal: bool = False, trusted: bool = True) -> Recipe:
    """obliq-3b on it, in float32, four rows a step."""
    base, whole = install(causal=causal), load_recipe("obliq-3b")
    own = {
        "base_revision": REVISION,
        "base_licence": whole.base_licence,
        "pooling": whole.pooling,
        "query_template": whole.query_template,
        "lora.target_modules": whole.lora.target_modules,
        "bidirectional": whole.bidirectional,
        "trust_remote_code": base if trusted else None,
        "max_seq_length": 64,
        "max_query_length": 24,
        "global_batch": 4,
        "loss.mini_batch": 2,
        "precision": "fp32",
        "learning_rate": 1e-2,
        "warmup": 0,
    }
    lines = [f"{key}={json.dumps(value)}" for key, value in own.items()]
    return load_recipe("obliq-3b", [f"base={base}", *lines, *overrides])
