"""What a stranger's process sees of a model folder: loaded with plain sentence-transformers, nothing of this project.

The gate runs this file as a script. It must import nothing from ``hub_models``, or the gate would prove too little.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling


def describe(model: SentenceTransformer) -> dict[str, Any]:
    """Everything besides weights that an embedding depends on, as JSON."""
    return {
        "modules": [type(module).__name__ for module in model],
        "pooling": [
            {"mode": m.pooling_mode, "include_prompt": m.include_prompt} for m in model if isinstance(m, Pooling)
        ],
        "prompts": model.prompts,
        "default_prompt_name": model.default_prompt_name,
        "similarity": str(model.similarity_fn_name),
        "max_seq_length": model.max_seq_length,
        "padding_side": model.tokenizer.padding_side,
        "dimension": model.get_embedding_dimension(),
    }


def embed(model: SentenceTransformer, texts: list[str]) -> Any:
    """float32[prompts * texts, d]: each text with every prompt that the model carries, sorted by name."""
    rows = [
        model.encode(texts, prompt_name=name, normalize_embeddings=True, show_progress_bar=False)
        for name in sorted(model.prompts)
    ]
    return np.concatenate(rows).astype(np.float32)


def main(folder: str, out: str) -> None:
    """Load ``folder``; read ``{"texts", "device", "trust_remote_code"}`` from stdin; write embeddings with and without
    the adapter."""
    request = json.load(sys.stdin)
    model = SentenceTransformer(folder, device=request["device"], trust_remote_code=request["trust_remote_code"])
    with_adapter = embed(model, request["texts"])
    model.transformers_model.disable_adapters()
    without = embed(model, request["texts"])
    np.savez(out, with_adapter=with_adapter, without=without, description=json.dumps(describe(model)))


if __name__ == "__main__":
    main(*sys.argv[1:])
