"""Tiny random cross-encoders, of the classes that rerank."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
    set_seed,
)

from tests import tiny


def qwen3_reranker(folder: Path) -> Path:
    """A Qwen3ForCausalLM with random weights, a tokenizer with yes and no, and a frame that knows no pairs."""
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    pieces = [*special, *sorted(pre_tokenizers.ByteLevel.alphabet()), "ye", "yes", "no"]
    tokenizer = Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, [("y", "e"), ("ye", "s"), ("n", "o")]))
    tokenizer.add_special_tokens(special)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}"
    set_seed(0)
    config = Qwen3Config(
        vocab_size=len(fast), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=2048, tie_word_embeddings=False,
        pad_token_id=fast.pad_token_id,
    )  # fmt: skip
    model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=0.2)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def bert_reranker(folder: Path) -> Path:
    """A BertForSequenceClassification with one label and random weights."""
    tokenizer = tiny._bert()
    config = BertConfig(vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=64, num_labels=1, pad_token_id=tokenizer.pad_token_id)  # fmt: skip
    set_seed(0)
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
