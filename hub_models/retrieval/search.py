"""Search that asks for a stance: the arguments that support a claim, or those that attack it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from dataset_builders.instructions import DEFAULT_QUERY_TEMPLATE, STANCES, Stance, format_query, seen_for
from dataset_builders.lexical import BM25
from dataset_builders.text import check_text, did_you_mean
from hub_models.adapter import adapter_layers, adapter_off, adapter_scaled
from hub_models.corpus import encode_corpus
from hub_models.encoder import load, query_template_of
from hub_models.retrieval.adaptive import features
from hub_models.retrieval.dense import DenseIndex
from hub_models.retrieval.fusion import WHOLE_CORPUS_LIMIT, check_weight, fuse, fuse_lists
from hub_models.retrieval.levers import Levers, Stored, stored

Float64 = NDArray[np.float64]

CANDIDATES = 1_000
"""How deep both lists go where a corpus is too large to fuse whole."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One document found.

    Attributes:
        id: Its key in the mapping, or its position in the list as a string.
        text: The document, as it was given.
        dense: Cosine of query and document in [-1, 1].
        bm25: BM25 score of the claim, 0 where no word matches or the search was dense alone.
        score: What the hits are sorted by; comparable within one search only.
    """

    id: str
    text: str
    dense: float
    bm25: float
    score: float


class StanceSearch:
    """Stance-aware search over texts held in memory.

    Args:
        model: A run folder or Hub id, loaded with its pinned base and its own query template; or a
            `SentenceTransformer`, whose template is read off its prompts ``support`` and ``attack`` if it has them.
        texts: The documents, as a list or as id to text.
        cache_dir: Keeps the documents' vectors for the next time.
        adapter_scale: Weight of the adapter, from 0 (the base) to 2; None is what ``python -m hub_models tune`` chose
            for this model on validation claims, or as trained (1). Plain loading by sentence-transformers cannot do
            this.
        anchor: Weight in [0, 1] of the model's own base, asked with the claim alone, beside the adapted scores; None
            is likewise what was chosen, or 0.

    Attributes:
        levers: The two of them as they are.
        query_template: What formats instruction and claim into the query.
        depth: How many candidates of either side are fused, or None where the whole corpus is (up to 200,000
            documents).

    Raises:
        FileNotFoundError: If there is no such model.
        ValueError: If ``texts`` is a single string or has no document, an id is no string, a document is empty or no
            valid Unicode, the model gives no usable vector, a lever is out of range, or one is pulled of a model
            without an adapter.

    Example:
        ```python
        search = StanceSearch("org/stance-minilm-lora", ["Uniforms level differences.", "Uniforms stifle expression."])
        for hit in search.search("Schools should require uniforms.", stance="attack", k=1):
            print(hit.score, hit.text)
        ```
    """

    def __init__(
        self,
        model: SentenceTransformer | str | Path,
        texts: Sequence[str] | Mapping[str, str],
        *,
        cache_dir: Path | None = None,
        adapter_scale: float | None = None,
        anchor: float | None = None,
    ) -> None:
        known = Stored(Levers(), None) if isinstance(model, SentenceTransformer) else stored(model)
        self.levers = known.levers.but(adapter_scale, anchor)
        self._lambda = known.lambda_model if self.levers == known.levers else None
        if isinstance(texts, str):
            raise ValueError(f"got the single text {texts[:40]!r}, wanted a list of documents or id to document")
        documents = dict(texts) if isinstance(texts, Mapping) else {str(i): text for i, text in enumerate(texts)}
        if not documents:
            raise ValueError("got no document to search in, wanted at least one")
        for key, text in documents.items():
            if not isinstance(key, str):
                raise ValueError(f"got the document id {key!r} of type {type(key).__name__}, wanted a string")
            check_text(text, f"document {key!r}")
        self._ids, self._texts = list(documents), list(documents.values())
        self._by_id = np.argsort(np.argsort(np.array(self._ids)))  # rank of each document's id
        if isinstance(model, SentenceTransformer):
            self._model, self.query_template = model, _template_of_prompts(model)
        else:
            self._model, self.query_template = load(model), query_template_of(model)
        if self.levers.pulled and not adapter_layers(self._model):
            raise ValueError(f"got {self.levers} for a model without an adapter, wanted a LoRA encoder")
        with adapter_scaled(self._model, self._scale):
            self._dense = DenseIndex(self._texts, encode_corpus(self._texts, self._model, cache_dir=cache_dir))
        self._base: DenseIndex | None = None
        if self.levers.anchor:
            with adapter_off(self._model):
                self._base = DenseIndex(self._texts, encode_corpus(self._texts, self._model, cache_dir=cache_dir))
        self.depth = None if len(self._ids) <= WHOLE_CORPUS_LIMIT else CANDIDATES

    @property
    def _scale(self) -> float | None:
        return None if self.levers.adapter_scale == 1 else self.levers.adapter_scale

    def search(
        self,
        claim: str,
        stance: Stance = "attack",
        k: int = 10,
        hybrid: float | Literal["auto"] = 0.1,
        *,
        instruction: str | None = None,
    ) -> list[Hit]:
        """The ``k`` best documents, by score descending, then id ascending.

        Args:
            claim: What the documents should support or attack.
            stance: Which of the two.
            k: At most this many hits.
            hybrid: Weight λ of BM25 beside the dense score, in [0, 1]; 0 is dense alone, ``auto`` chooses by query
                with what ``tune`` fitted. BM25 is given the claim, never the instruction: it keeps the search on the
                topic and knows nothing of stance.
            instruction: Your own words for the stance, such as "Find statements rejecting"; else the first instruction
                that training used for it.

        Raises:
            ValueError: If the claim or the instruction is empty or no valid Unicode, the stance unknown, ``k`` no
                whole number or below 1, ``hybrid`` no number in [0, 1], ``auto`` without a λ model for these levers,
                or a hybrid search meant for documents without a single word.
        """
        check_text(claim, "claim")
        if stance not in STANCES:
            raise ValueError(
                f"got stance {stance!r}, wanted one of {list(STANCES)}.{did_you_mean(str(stance), STANCES)}"
            )
        _check_k(k)
        if hybrid != "auto":
            check_weight(hybrid)
        elif self._lambda is None:
            raise ValueError(
                f"got hybrid 'auto' and no λ model for {self.levers}; fit one with `python -m hub_models tune`, leave "
                "the levers as they are stored, or give a number"
            )
        asked = check_text(instruction, "instruction") if instruction is not None else seen_for(stance)[0].text
        query = format_query(self.query_template, asked, claim)
        with adapter_scaled(self._model, self._scale):
            vector = encode_corpus([query], self._model, show_progress=False)
        dense = self._dense.scores(vector)[0].astype(np.float64)
        scored = self._anchored(dense, claim)
        bm25 = self._bm25.scores(claim).astype(np.float64) if hybrid else np.zeros(len(dense))
        if hybrid == "auto" and self._lambda is not None:
            seen = features(scored, bm25, self._bm25.document_frequencies(claim))
            hybrid = float(self._lambda.choose(seen[None])[0])
        score = self._fused(scored, bm25, float(hybrid))
        best = np.lexsort((self._by_id, -score))[:k]
        return [
            Hit(self._ids[i], self._texts[i], float(dense[i]), float(bm25[i]), float(score[i]))
            for i in best
            if score[i] > -np.inf
        ]

    def _anchored(self, dense: Float64, claim: str) -> Float64:
        if self._base is None:
            return dense
        with adapter_off(self._model):
            vector = encode_corpus([claim], self._model, show_progress=False)
        return fuse(dense, self._base.scores(vector)[0], self.levers.anchor)

    def _fused(self, dense: Float64, bm25: Float64, hybrid: float) -> Float64:
        """float64[n_docs]; ``-inf`` for a document that is no candidate."""
        if self.depth is None:
            return fuse(dense, bm25, hybrid)
        of_dense, of_bm25 = self._candidates(dense), self._candidates(np.where(bm25 > 0, bm25, -np.inf))
        fused = fuse_lists(
            {self._ids[i]: float(dense[i]) for i in of_dense}, {self._ids[i]: float(bm25[i]) for i in of_bm25}, hybrid
        )
        score = np.full(len(dense), -np.inf)
        for i in {*of_dense, *of_bm25}:
            score[i] = fused.get(self._ids[i], -np.inf)
        return score

    def _candidates(self, scores: Float64) -> list[int]:
        """The places of the best `CANDIDATES` finite scores."""
        return [int(i) for i in np.lexsort((self._by_id, -scores))[: self.depth] if scores[i] > -np.inf]

    @cached_property
    def _bm25(self) -> BM25:
        return BM25(self._texts, self._ids)


def _check_k(k: object) -> None:
    if not isinstance(k, (int, np.integer)) or k < 1:
        raise ValueError(f"got k = {k!r}, wanted a whole number of at least 1")


def _template_of_prompts(model: SentenceTransformer) -> str:
    """A release stores its template with the first seen instruction filled in, as a prompt; take it out again."""
    first = seen_for("attack")[0].text
    prefix = (model.prompts or {}).get("attack") or ""
    return prefix.replace(first, "{instruction}") + "{claim}" if first in prefix else DEFAULT_QUERY_TEMPLATE
