"""Tiny random models of the classes that the recipes name, installed in the tests' Hub cache under made-up ids."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast, T5EncoderModel, set_seed

from hub_models.hub_cache import install_snapshot
from hub_models.recipe import Recipe, load_recipe

# The dimensions that shrink; everything else is the recipe's architecture as it stands.
SHRUNK: dict[str, dict[str, int]] = {
    "stance-bge-large": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64},
    "stance-instructor-xl": {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 4},
    "stance-qwen3-8b": {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "intermediate_size": 64,
    },
}
DENSE = 24
REVISION = "1" * 40


def tiny(name: str, *overrides: str) -> Recipe:
    """The recipe ``name`` on a tiny base of the same class, resolvable by its Hub id, in float32."""
    base = install_tiny(name)
    recipe = load_recipe(name)
    own = {
        "base_revision": REVISION,
        "pooling": recipe.pooling,
        "end_token": recipe.end_token,
        "lora.target_modules": recipe.lora.target_modules,
        "query_template": recipe.query_template,
        "lora.r": 4,
        "lora.alpha": 8,
        "max_seq_length": 64,
    }
    lines = [f"{key}={json.dumps(value)}" for key, value in own.items()]
    return load_recipe(name, [f"base={base}", *lines, *overrides])


@functools.cache
def install_tiny(name: str) -> str:
    """Build the tiny base of a recipe and give its Hub id."""
    repo_id = f"slant-tests/tiny-{name.removeprefix('stance-')}"
    with tempfile.TemporaryDirectory() as folder:
        build(name).save_pretrained(folder)
        install_snapshot(repo_id, REVISION, Path(folder))
    return repo_id


def build(name: str, *, seed: int = 0) -> SentenceTransformer:
    """The tiny model itself: random weights, the class and the modules of the real base."""
    recipe = load_recipe(name)
    assert recipe.architecture is not None and recipe.pooling is not None
    tokenizer = _TOKENIZERS[recipe.architecture.model_type]()
    dims = recipe.architecture.model_dump() | SHRUNK[name] | {"vocab_size": len(tokenizer), "dtype": "float32"}
    config = AutoConfig.for_model(**dims, pad_token_id=tokenizer.pad_token_id)
    set_seed(seed)
    model = T5EncoderModel(config) if recipe.architecture.model_type == "t5" else AutoModel.from_config(config)
    with torch.no_grad():  # the usual initialisation gives nearly equal vectors to all texts
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=0.2)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        transformer = Transformer(folder)
    modules: list[Any] = [transformer, Pooling(transformer.get_embedding_dimension(), pooling_mode=recipe.pooling)]
    if recipe.dense is not None:
        identity = torch.nn.Identity()
        modules.append(Dense(modules[-1].embedding_dimension, DENSE, bias=False, activation_function=identity))
    return SentenceTransformer(modules=[*modules, Normalize()], device="cpu")


# Vocabularies are written down, not trained: the trainers break ties differently from call to call.
_LETTERS = sorted("abcdefghijklmnopqrstuvwxyz.,:?'")
_WORDS = ["word", "cities", "should", "ban", "cars", "find", "evidence", "refuting", "the", "claim"]


def _bert() -> PreTrainedTokenizerFast:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *_LETTERS, *(f"##{letter}" for letter in _LETTERS), *_WORDS]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )


def _t5() -> PreTrainedTokenizerFast:
    pieces = ["▁", *_LETTERS, *(f"▁{word}" for word in _WORDS)]
    vocabulary = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((piece, -5.0) for piece in pieces)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=2))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


def _qwen3() -> PreTrainedTokenizerFast:
    # As in Qwen's older files: nothing appends the end token, and the token that ends a text also pads.
    pieces = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, []))
    tokenizer.add_special_tokens(pieces[:3])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")


_TOKENIZERS = {"bert": _bert, "t5": _t5, "qwen3": _qwen3}
