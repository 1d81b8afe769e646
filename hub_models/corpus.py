"""The one place that encodes many texts."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from sentence_transformers.base.modules import Transformer
from tqdm import tqdm

from hub_models.adapter import adapter_layers

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Vectors = npt.NDArray[np.float32]


def encode_corpus(
    texts: Sequence[str],
    model: SentenceTransformer,
    *,
    cache_dir: Path | None = None,
    batch_size: int = 32,
    prompt: str | None = None,
    show_progress: bool | None = None,
) -> Vectors:
    """Encode many texts: each distinct one once, longest first, in shards that survive a kill.

    Args:
        texts: Formatted and final: what stands here reaches the tokenizer.
        model: Any `SentenceTransformer`.
        cache_dir: Keeps the vectors for later calls, by weights (adapter on or off), modules, length, precision and
            text. Null: nothing is kept.
        batch_size: Texts per forward pass. In float32 it changes an embedding by less than 1e-5.
        prompt: Put before each text by the model, which may leave it out of the pooling.
        show_progress: Null or true: a bar, on work longer than two seconds.

    Returns:
        float32[n, d], one L2-normalised row for each text, in order; float32[0, d] for no text.

    Raises:
        ValueError: If a text is no valid Unicode, or the model gives a vector with NaN, infinity or of length 0.
    """
    keys = [_text_hash(text, prompt, i) for i, text in enumerate(texts)]
    store = _VectorStore(cache_dir / _model_hash(model) if cache_dir is not None else None)
    rows = store.read(set(keys))
    distinct = dict(zip(keys, texts, strict=True))
    missing = sorted((key for key in distinct if key not in rows), key=lambda key: -len(distinct[key]))
    shard = 8 * batch_size
    with tqdm(total=len(missing), desc="encode", unit=" texts", delay=2, disable=show_progress is False) as bar:
        for start in range(0, len(missing), shard):
            chunk = missing[start : start + shard]
            vectors = _encode([distinct[key] for key in chunk], model, batch_size, prompt)
            store.write(chunk, vectors)
            rows.update(zip(chunk, vectors, strict=True))
            bar.update(len(chunk))
    if not keys:
        return np.zeros((0, model.truncate_dim or model.get_embedding_dimension()), dtype=np.float32)
    return np.stack([rows[key] for key in keys])


def _encode(texts: list[str], model: SentenceTransformer, batch_size: int, prompt: str | None) -> Vectors:
    """float32[n, d], L2-normalised. An empty prompt keeps a model's default prompt away."""
    raw = model.encode(texts, batch_size=batch_size, prompt=prompt or "", show_progress_bar=False)
    vectors: Vectors = np.asarray(raw, dtype=np.float32)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    bad = np.flatnonzero(~np.isfinite(norms[:, 0]) | (norms[:, 0] == 0))
    if len(bad):
        raise ValueError(
            f"{len(bad)} of {len(texts)} texts got a vector with NaN, infinity or of length 0, such as "
            f"{[texts[i][:80] for i in bad[:3]]}; the model is broken or overflows in {model.dtype}"
        )
    vectors /= norms
    return vectors


def _text_hash(text: str, prompt: str | None, position: int) -> bytes:
    try:
        # The length keeps a prompt apart from the start of a text: a model may leave the prompt out of the pooling.
        return hashlib.sha256(f"{len(prompt or '')}:{prompt or ''}{text}".encode()).digest()
    except UnicodeEncodeError as error:
        raise ValueError(f"text {position} holds a lone surrogate and is no valid Unicode: {error}") from None


def _model_hash(model: SentenceTransformer) -> str:
    """Everything a vector depends on but the text. The weights themselves are hashed, not names and commits, which
    would not notice that a loaded model was trained further."""
    off = any(layer.disable_adapters for layer in adapter_layers(model))
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        if off and "lora_" in name:
            continue
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    modules = [(type(m).__name__, m.get_config_dict()) for m in model if not isinstance(m, Transformer)]
    scaling = [] if off else [sorted(layer.scaling.items()) for layer in adapter_layers(model)]
    # A static embedding holds the backend itself.
    tokenizer = json.loads(getattr(model.tokenizer, "backend_tokenizer", model.tokenizer).to_str())
    del tokenizer["truncation"], tokenizer["padding"]  # of the last call
    padding_side = getattr(model.tokenizer, "padding_side", None)
    settings = (modules, scaling, model.max_seq_length, model.truncate_dim, padding_side, tokenizer)
    digest.update(repr(settings).encode())
    return digest.hexdigest()


class _VectorStore:
    """Vectors by text hash in the ``.npz`` shards of one folder; a shard is there whole or not at all."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def read(self, wanted: set[bytes]) -> dict[bytes, Vectors]:
        rows: dict[bytes, Vectors] = {}
        for path in sorted(self._folder.glob("*.npz")) if self._folder is not None else []:
            with np.load(path, allow_pickle=False) as shard:
                keys = [bytes(key) for key in shard["keys"]]
                if wanted.intersection(keys):
                    rows.update((k, v) for k, v in zip(keys, shard["vectors"], strict=True) if k in wanted)
        return rows

    def write(self, keys: list[bytes], vectors: Vectors) -> None:
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(b"".join(keys)).hexdigest()[:32]
        matrix = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), -1)
        write_binary(self._folder / f"{name}.npz", lambda file: np.savez(file, keys=matrix, vectors=vectors))


def write_binary(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    """Let ``write`` fill a file that is then swapped in: a kill or a full disk leaves what was there."""
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".partial", delete=False) as file:
        try:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
