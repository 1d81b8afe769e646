"""What the stance search and the oblique search share: texts, their vectors, and an encoder with its levers."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal, Self

import numpy as np
from sentence_transformers import SentenceTransformer
from tqdm import tqdm

from dataset_builders.instructions import DEFAULT_QUERY_TEMPLATE, OBLIQUE_INSTRUCTIONS, format_query, seen_for
from dataset_builders.text import did_you_mean
from hub_models.adapter import adapter_layers, adapter_off, adapter_scaled
from hub_models.corpus import encode_corpus, model_hash
from hub_models.encoder import cut_at, load
from hub_models.model_files import max_query_length_of, query_template_of
from hub_models.retrieval.adaptive import features
from hub_models.retrieval.dense import DenseIndex, Float32, VectorIndex
from hub_models.retrieval.fusion import check_weight, fuse
from hub_models.retrieval.levers import Levers, Stored, stored
from hub_models.retrieval.milvus import MilvusIndex, check_address
from hub_models.retrieval.quantised import BinaryIndex, Int8Index
from hub_models.retrieval.ranking import Documents, Float64, Ranking

Hybrid = float | Literal["auto"]

_IN_MEMORY: dict[str, Callable[[Sequence[str], Float32], VectorIndex]] = {
    "float32": DenseIndex,
    "int8": Int8Index,
    "binary": BinaryIndex,
}
INDEXES = (*_IN_MEMORY, "milvus:")
"""Where the documents' vectors lie: in memory in one of three widths, or in Milvus at the address behind the colon."""

_BLOCK = 256  # documents encoded in one go


class TextSearch:
    """Texts held in memory, searched by an encoder and by their words. Several threads may search at once: they wait
    for one another where the model is asked.

    Attributes:
        documents: The texts with their ids.
        levers: How the encoder is used.
        progress: Hears how many documents were encoded, after each block of them; null where nobody listens.
        query_template: What formats instruction and query.
    """

    levers: Levers
    query_template: str
    _model: SentenceTransformer
    _known: Stored
    _query_length: int | None

    def __init__(
        self,
        model: SentenceTransformer | str | Path | TextSearch,
        texts: Sequence[str] | Mapping[str, str] | Documents,
        *,
        cache_dir: str | Path | None = None,
        adapter_scale: float | None = None,
        anchor: float | None = None,
        index: str = "float32",
        progress: Callable[[int], object] | None = None,
    ) -> None:
        _check_index(index, cache_dir)
        self.progress = progress
        self._cache_dir, self._index = cache_dir, index
        self._lock = threading.RLock()
        if isinstance(model, TextSearch):
            self._known, self._lock = model._known, model._lock
            self._model, self.query_template = model._model, model.query_template
            self._query_length = model._query_length
        elif isinstance(model, SentenceTransformer):
            self._known, self._query_length = Stored(Levers(), None), None
            self._model, self.query_template = model, _template_of_prompts(model)
        else:
            self._known = stored(model)
        levers = model.levers if isinstance(model, TextSearch) else self._known.levers
        self.levers = levers.but(adapter_scale, anchor)
        self.documents = texts if isinstance(texts, Documents) else Documents(texts)
        if not isinstance(model, (TextSearch, SentenceTransformer)):
            self._model, self.query_template = load(model), query_template_of(model)
            self._query_length = max_query_length_of(model)
        self._base: VectorIndex | None = None
        self._encode_documents()

    @property
    def has_adapter(self) -> bool:
        """Whether there is a base to compare with and a scale to set."""
        return bool(adapter_layers(self._model))

    @property
    def has_auto(self) -> bool:
        """Whether ``hybrid="auto"`` is there: a λ model that was fitted for these levers, and all scores to ask it."""
        fitted = self._known.lambda_model is not None and self.levers == self._known.levers
        return fitted and self._dense.depth is None

    @property
    def depth(self) -> int | None:
        """How many candidates of either side are fused, or None where the whole corpus is."""
        return self.documents.depth or self._dense.depth

    def at(self, *, adapter_scale: float | None = None, anchor: float | None = None) -> Self:
        """The same search with other levers; model, texts and word index are shared.

        Raises:
            ValueError: If a lever is out of range, or one is pulled of a model without an adapter.
        """
        other = copy.copy(self)
        other.levers = self.levers.but(adapter_scale, anchor)
        other._encode_documents(before=self)
        return other

    def encode(self, texts: Sequence[str]) -> Float32:
        """float32[n, d], L2-normalised: formatted texts under these levers' adapter scale."""
        with self._lock, adapter_scaled(self._model, self._scale):
            return encode_corpus(texts, self._model, show_progress=False)

    @property
    def _scale(self) -> float | None:
        return None if self.levers.adapter_scale == 1 else self.levers.adapter_scale

    def _encode_documents(self, before: Self | None = None) -> None:
        if self.levers.pulled and not self.has_adapter:
            raise ValueError(f"got {self.levers} for a model without an adapter, wanted a LoRA encoder")
        if before is None or before.levers.adapter_scale != self.levers.adapter_scale:
            self._dense = self._indexed(lambda: adapter_scaled(self._model, self._scale))
        if self.levers.anchor and self._dense.depth is not None:
            raise ValueError(
                f"got anchor {self.levers.anchor:g} and the index {self._index!r}, which finds {self._dense.depth} of "
                f"{len(self.documents)} documents, wanted anchor=0 or an index that scores them all: float32 or int8"
            )
        if self.levers.anchor and self._base is None:
            self._base = self._indexed(lambda: adapter_off(self._model))

    def _indexed(self, state: Callable[[], AbstractContextManager[None]]) -> VectorIndex:
        texts = self.documents.texts
        if self._index.startswith("milvus:"):
            with self._lock, state():
                model = model_hash(self._model)
            return MilvusIndex(self._index.removeprefix("milvus:"), texts, model, lambda: self._vectors(state))
        return _IN_MEMORY[self._index](texts, self._vectors(state))

    def _vectors(self, state: Callable[[], AbstractContextManager[None]]) -> Float32:
        texts = self.documents.texts
        if self._cache_dir is not None:
            with self._lock, state():
                return encode_corpus(texts, self._model, cache_dir=self._cache_dir)
        blocks = []  # so that a search by another thread waits for one of them at most
        for start in tqdm(range(0, len(texts), _BLOCK), desc="index", unit=" blocks", delay=2):
            with self._lock, state():
                blocks.append(encode_corpus(texts[start : start + _BLOCK], self._model, show_progress=False))
            if self.progress is not None:
                self.progress(len(blocks[-1]))
        return np.concatenate(blocks)

    def _check_hybrid(self, hybrid: Hybrid) -> None:
        if hybrid != "auto":
            check_weight(hybrid)
        elif not self.has_auto:
            if self._dense.depth is not None:
                raise ValueError(
                    f"got hybrid 'auto' and the index {self._index!r}, which finds {self._dense.depth} of "
                    f"{len(self.documents)} documents, wanted a number or an index that scores them all: float32 or "
                    "int8"
                )
            raise ValueError(
                f"got hybrid 'auto' and no λ model for {self.levers}; fit one with `python -m hub_models tune`, leave "
                "the levers as they are stored, or give a number"
            )

    def _rank(self, instruction: str, words: str, hybrid: Hybrid, with_bm25: bool) -> Ranking:
        """Rank by a checked query: ``words`` is what stands behind the instruction, and all that BM25 gets."""
        index = self.documents.bm25 if hybrid or with_bm25 else None
        bm25 = np.zeros(len(self.documents)) if index is None else index.scores(words).astype(np.float64)
        with self._lock, cut_at(self._model, self._query_length):
            vector = self.encode([format_query(self.query_template, instruction, words)])
        also = [] if self._dense.depth is None else self.documents.matching(bm25, self._dense.depth)
        dense = self._dense.scores(vector, also)[0].astype(np.float64)
        scored = self._anchored(dense, words)
        if hybrid == "auto" and index is not None and self._known.lambda_model is not None:
            seen = features(scored, bm25, index.document_frequencies(words))
            hybrid = float(self._known.lambda_model.choose(seen[None])[0])
        weight = float(hybrid)
        return Ranking(self.documents, dense, bm25, self.documents.fused(scored, bm25, weight, self.depth), weight)

    def _anchored(self, dense: Float64, words: str) -> Float64:
        if self._base is None or not self.levers.anchor:
            return dense
        with self._lock, adapter_off(self._model):
            vector = encode_corpus([words], self._model, show_progress=False)
        return fuse(dense, self._base.scores(vector)[0], self.levers.anchor)


def _check_index(index: str, cache_dir: str | Path | None) -> None:
    if index.startswith("milvus:"):
        check_address(index.removeprefix("milvus:"))
    elif index not in INDEXES:
        raise ValueError(
            f"got the index {index!r}, wanted one of {list(INDEXES)}, the last with an address behind it."
            f"{did_you_mean(index, INDEXES)}"
        )
    if index == "binary" and cache_dir is None:
        raise ValueError("got the index 'binary' and no cache_dir; it scores by float32 vectors there: give a folder")


def check_k(k: object) -> None:
    """Refuse a number of hits that is no whole number of at least 1."""
    if not isinstance(k, (int, np.integer)) or k < 1:
        raise ValueError(f"got k = {k!r}, wanted a whole number of at least 1")


def _template_of_prompts(model: SentenceTransformer) -> str:
    """A release stores its template with an instruction filled in, as a prompt; take it out again."""
    for name, first in (("attack", seen_for("attack")[0].text), *OBLIQUE_INSTRUCTIONS.items()):
        prefix = (model.prompts or {}).get(name) or ""
        if first in prefix:
            return prefix.replace(first, "{instruction}") + "{claim}"
    return DEFAULT_QUERY_TEMPLATE
