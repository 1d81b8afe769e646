"""The one place that encodes many texts."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import torch
from sentence_transformers.base.modules import Transformer
from tqdm import tqdm

from hub_models.adapter import adapter_layers
from hub_models.processes import rank_and_count
from hub_models.vector_store import Vectors, VectorStore

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

logger = logging.getLogger(__name__)


def encode_corpus(
    texts: Sequence[str],
    model: SentenceTransformer,
    *,
    cache_dir: str | Path | None = None,
    batch_size: int = 32,
    prompt: str | None = None,
    show_progress: bool | None = None,
) -> Vectors:
    """Encode many texts: each distinct one once, longest first, in shards that survive a kill.

    Processes that are given the same ``cache_dir`` share the work, however they were started (torchrun, accelerate,
    two shells, machines with a common disk): each takes shards that no other has taken, and all return all vectors.
    The shard of a process that dies is taken over. Without ``cache_dir`` every process encodes everything for itself.

    Args:
        texts: Formatted and final: what stands here reaches the tokenizer.
        model: Any `SentenceTransformer`, in every process the same.
        cache_dir: Keeps the vectors for later calls, by weights (adapter on or off), modules, length, precision and
            text, and then memory does not hold them: what is returned is mapped from a file in it. Null: nothing is
            kept, and memory holds what is returned, once.
        batch_size: Texts per forward pass. In float32 it changes an embedding by less than 1e-5.
        prompt: Put before each text by the model, which may leave it out of the pooling.
        show_progress: Null or true: a bar, on work longer than two seconds, and the number of processes in the log.

    Returns:
        float32[n, d], one L2-normalised row for each text, in order; float32[0, d] for no text.

    Raises:
        ValueError: If a text is no valid Unicode, the model gives a vector with NaN, infinity or of length 0, or a
            stored shard is damaged.
        OSError: If the disk is full, or another process removes shards under this one.
    """
    quiet = show_progress is False or rank_and_count()[0] != 0
    corpus = _Corpus(texts, prompt, quiet)
    if not texts:
        return np.zeros((0, model.truncate_dim or model.get_embedding_dimension()), dtype=np.float32)

    def encode(keys: Sequence[bytes]) -> Vectors:
        return _encode([corpus.text(key) for key in keys], model, batch_size, prompt)

    if cache_dir is None:
        shards = corpus.shards(corpus.number, 8 * batch_size)
        _say(corpus, shards, None, quiet)
        with _bar(shards, quiet) as bar:
            encoded = _each(shards, encode, bar)
            return corpus.rows(encoded, lambda n, d: np.empty((n, d), dtype=np.float32))
    store = VectorStore(Path(cache_dir) / model_hash(model))
    stored, paths = store.find(corpus.number)
    shards = corpus.shards((key for key in corpus.number if key not in stored), 8 * batch_size)
    _say(corpus, shards, cache_dir, quiet)
    with _bar(shards, quiet) as bar:
        paths += _fill(store, shards, encode, bar)
    return corpus.rows(map(store.read, paths), store.mapped)


class _Corpus:
    """Texts by hash, each distinct one under a number in the order of first appearance."""

    def __init__(self, texts: Sequence[str], prompt: str | None, quiet: bool) -> None:
        self._texts = texts
        self.number: dict[bytes, int] = {}
        numbers = np.empty(len(texts), dtype=np.int64)
        for i, text in enumerate(tqdm(texts, desc="hash", unit=" texts", delay=2, disable=quiet)):
            numbers[i] = self.number.setdefault(_text_hash(text, prompt, i), len(self.number))
        # The positions of each distinct text: a slice of an order by number.
        self._order = np.argsort(numbers, kind="stable")
        self._bounds = np.searchsorted(numbers[self._order], np.arange(len(self.number) + 1))

    def __len__(self) -> int:
        return len(self._texts)

    def text(self, key: bytes) -> str:
        first: int = self._order[self._bounds[self.number[key]]]
        return self._texts[first]

    def shards(self, keys: Iterable[bytes], size: int) -> list[list[bytes]]:
        """Longest first. The order hangs on nothing but the texts, so that processes that start at different times
        plan the same shards: whole ones are missing from the end of the later plan."""
        ordered = sorted(keys, key=lambda key: (-len(self.text(key)), key))
        return [ordered[start : start + size] for start in range(0, len(ordered), size)]

    def rows(
        self, shards: Iterable[tuple[Sequence[bytes], Vectors]], allocate: Callable[[int, int], Vectors]
    ) -> Vectors:
        """float32[n, d] in the order of the texts; shards may hold other texts too."""
        out: Vectors | None = None
        filled = np.zeros(len(self.number), dtype=bool)
        for keys, vectors in shards:
            if out is None:
                out = allocate(len(self), vectors.shape[1])
            for key, vector in zip(keys, vectors, strict=True):
                number = self.number.get(key)
                if number is not None:
                    out[self._order[self._bounds[number] : self._bounds[number + 1]]] = vector
                    filled[number] = True
        if out is None or not filled.all():
            raise FileNotFoundError(f"{(~filled).sum()} vectors are gone from the cache; was it emptied just now?")
        return out


def _each(
    shards: list[list[bytes]], encode: Callable[[Sequence[bytes]], Vectors], bar: tqdm[NoReturn]
) -> Iterable[tuple[list[bytes], Vectors]]:
    for shard in shards:
        yield shard, encode(shard)
        bar.update(len(shard))


def _fill(
    store: VectorStore, shards: list[list[bytes]], encode: Callable[[Sequence[bytes]], Vectors], bar: tqdm[NoReturn]
) -> list[Path]:
    """Have every shard on the disk: first those that nobody is at, then those that others took, if they died."""
    taken: list[list[bytes]] = []
    for wait in (False, True):
        if wait and taken:
            logger.info("waiting for what is left of %d shards that other processes took", len(taken))
        for shard in taken if wait else shards:
            path = store.path(shard)
            with store.claim(path, wait=wait) as mine:
                if not mine:
                    taken.append(shard)
                    continue
                if not path.exists():
                    store.write(path, shard, encode(shard))
            bar.update(len(shard))
    return [store.path(shard) for shard in shards]


def _bar(shards: list[list[bytes]], quiet: bool) -> tqdm[NoReturn]:
    total = sum(map(len, shards))
    return tqdm(total=total, desc="encode", unit=" texts", delay=2, disable=quiet)


def _say(corpus: _Corpus, shards: list[list[bytes]], cache_dir: str | Path | None, quiet: bool) -> None:
    if quiet or len(shards) < 2:
        return
    processes = rank_and_count()[1]
    shared = "" if processes == 1 else ", shared" if cache_dir is not None else ", each for itself: no cache_dir"
    logger.info(
        "encode %d texts, %d distinct, %d of them new, in %d shards by %d process(es)%s",
        len(corpus),
        len(corpus.number),
        sum(map(len, shards)),
        len(shards),
        processes,
        shared,
    )


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


def model_hash(model: SentenceTransformer) -> str:
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
