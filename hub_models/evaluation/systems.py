"""What can be measured: single-vector encoders, keywords, chance, and late interaction (oblique tasks only)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sentence_transformers import SentenceTransformer

from hub_models import encoder, model_files, trained_claims
from hub_models.adapter import adapter_off, adapter_scaled
from hub_models.corpus import encode_corpus
from hub_models.evaluation import nanobeir, oblique_runs, stance_runs
from hub_models.evaluation.measured import Encode, Measured
from hub_models.evaluation.metrics import Float32
from hub_models.evaluation.named_tasks import Task
from hub_models.evaluation.nanobeir import NanoBEIR
from hub_models.evaluation.oblique import ObliqueJudgements, query_texts
from hub_models.evaluation.oblique_ranking import BlockScores, per_query
from hub_models.evaluation.results import ModelInfo, Strategy
from hub_models.evaluation.stance import Judgements

REFERENCES: tuple[Strategy, ...] = ("bm25", "random")
"""Always there as ``--model``; a folder of such a name is ``./bm25``."""


class Encoder:
    """A single-vector encoder. Texts of stance tasks that it has encoded once are not encoded again.

    Args:
        path_or_id: Folder or Hub id.
        cache: Keeps the vectors for later.
        trust_remote_code: See `encoder.load`.

    Attributes:
        path_or_id: As given.
        info: Which weights these are.
        query_template: What formats its queries.
        trained_claims: Hashes of the claims or queries that it was trained on.
        max_query_length: Tokens after which queries of oblique tasks are cut; None cuts them as any text.

    Raises:
        FileNotFoundError: If there is no such model.
        ValueError: If it cannot be loaded as it should.
    """

    params: ClassVar[dict[str, Any]] = {}
    seed = None

    def __init__(self, path_or_id: str, cache: Path | None = None, trust_remote_code: str | None = None) -> None:
        self.path_or_id = path_or_id
        self._cache = cache
        self._loaded: SentenceTransformer = encoder.load(path_or_id, trust_remote_code=trust_remote_code)
        self.info = ModelInfo(**asdict(encoder.identity(self._loaded, path_or_id)))
        self.query_template = model_files.query_template_of(path_or_id)
        self.trained_claims = trained_claims.read(path_or_id)
        self.max_query_length = model_files.max_query_length_of(path_or_id)
        self._vectors: dict[float, dict[str, Float32]] = {}

    @property
    def device(self) -> str:
        return str(self._loaded.device)

    @property
    def pinned(self) -> bool:
        """Whether the identity names the weights beyond doubt, as a folder of full weights does not."""
        return bool(self.info.revision or (self.info.adapter_sha256 and self.info.base_revision))

    def is_base_of(self, other: System) -> bool:
        """Whether ``other``'s adapter was trained on these very weights; False where a revision is unknown."""
        return (
            self.info.adapter_sha256 is None
            and self.info.revision is not None
            and (self.info.id, self.info.revision) == (other.info.base, other.info.base_revision)
        )

    def encode(self, texts: Sequence[str], adapter_scale: float = 1.0) -> Float32:
        """float32[n, d]; with the adapter at another scale, down to 0, which is the base.

        A text in another batch gets a vector that differs by some 1e-7. Texts that the tokenizer cannot tell apart,
        such as long ones that begin alike, are then put in order by that noise: runs on them repeat exactly in one
        process or with one cache, and not else.
        """
        known = self._vectors.setdefault(adapter_scale, {})
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        scaled = adapter_scaled(self._loaded, adapter_scale) if adapter_scale else adapter_off(self._loaded)
        with scaled if adapter_scale != 1 else nullcontext():
            known.update(zip(missing, encode_corpus(missing, self._loaded, cache_dir=self._cache), strict=True))
        return np.stack([known[text] for text in texts])

    def encode_once(self, texts: Sequence[str]) -> Float32:
        """Like `encode`, for many texts that are not asked for again: what is new is not remembered."""
        known = self._vectors.get(1.0, {})
        new = [text for text in dict.fromkeys(texts) if text not in known]
        found = dict(zip(new, self._encode_kept(new), strict=True))
        return np.stack([found[text] if text in found else known[text] for text in texts])

    def encode_base(self, texts: Sequence[str]) -> Float32:
        """float32[n, d] with the adapter off."""
        return self.encode(texts, 0.0)

    def search(self, judged: Task, base: Encoder | None = None) -> dict[Strategy, Measured]:
        """The runs that a task has in any case.

        Args:
            judged: The task. The corpus of an oblique one may be too large to be remembered.
            base: This encoder's base, if it is at hand: what it has encoded need not be encoded again.
        """
        if isinstance(judged, ObliqueJudgements):
            return oblique_runs.evaluate(judged, self.query_template, self._encode_kept, self._encode_queries_apart)
        if isinstance(judged, NanoBEIR):
            return {"dense": nanobeir.evaluate(judged, self._loaded)}
        encode_base = base.encode if base else self.encode_base if self.info.adapter_sha256 else None
        return stance_runs.evaluate(judged, self.query_template, self.encode, encode_base)

    def oblique_scores(self, judged: ObliqueJudgements) -> BlockScores:
        """What its run ``dense`` ranks an oblique task by."""
        return oblique_runs.dense_scores(judged, self.query_template, self._encode_kept, self._encode_queries_apart)

    def share(self, judged: ObliqueJudgements) -> None:
        """Encode what `search` will want, into the cache."""
        if self._encode_queries_apart is None:
            self._encode_kept(oblique_runs.all_texts(judged, self.query_template))
        else:
            self._encode_kept(judged.texts)
            self._encode_queries(oblique_runs.all_queries(judged, self.query_template))

    def _encode_kept(self, texts: Sequence[str]) -> Float32:
        return encode_corpus(texts, self._loaded, cache_dir=self._cache)

    @property
    def _encode_queries_apart(self) -> Encode | None:
        return None if self.max_query_length is None else self._encode_queries

    def _encode_queries(self, texts: Sequence[str]) -> Float32:
        with encoder.cut_at(self._loaded, self.max_query_length):
            return self._encode_kept(texts)


class Reference:
    """BM25 or chance: no weights. Both get the bare query, since an instruction is no keyword."""

    device = "cpu"
    pinned = True
    query_template = "{claim}"
    params: ClassVar[dict[str, Any]] = {}

    def __init__(self, name: Strategy, seed: int = 0) -> None:
        self.info = ModelInfo(id=name, revision=None, base=None, base_revision=None, adapter_sha256=None)
        self.name: Strategy = name
        self.seed = seed if name == "random" else None

    def search(self, judged: Task, base: Encoder | None = None) -> dict[Strategy, Measured]:
        """Its one run.

        Raises:
            TypeError: If the task is NanoBEIR.
        """
        if isinstance(judged, Judgements):
            return {self.name: stance_runs.evaluate_reference(judged, self.seed)}
        if isinstance(judged, NanoBEIR):
            raise TypeError(f"{judged.source}: only single-vector encoders are measured on it")
        return {self.name: oblique_runs.evaluate_reference(judged, self.seed)}

    def oblique_scores(self, judged: ObliqueJudgements) -> BlockScores:
        """What its run ranks an oblique task by."""
        return oblique_runs.bm25_scores(judged) if self.seed is None else oblique_runs.random_scores(judged, self.seed)


class LateInteraction:
    """A multi-vector model of sentence-transformers: one vector a token, each of the query's with its best match.

    Args:
        path_or_id: Folder or Hub id.

    Raises:
        FileNotFoundError: If there is no such model.
    """

    params: ClassVar[dict[str, Any]] = {"scoring": "maxsim"}
    seed = None

    def __init__(self, path_or_id: str) -> None:
        from sentence_transformers import MultiVectorEncoder

        if all(model_files.find(path_or_id, name) is None for name in ("modules.json", "config.json")):
            raise FileNotFoundError(model_files.no_such_model(path_or_id, None))
        with model_files.loading(path_or_id):
            self._model = MultiVectorEncoder(path_or_id)
        self.info = ModelInfo(**asdict(encoder.identity(self._model, path_or_id)))
        self.query_template = model_files.query_template_of(path_or_id)
        self.pinned = self.info.revision is not None
        self.device = str(self._model.device)

    def search(self, judged: Task, base: Encoder | None = None) -> dict[Strategy, Measured]:
        """With formatted queries (``dense``) and bare ones (``claim_only``), behind the model's own markers.

        Raises:
            TypeError: If the task is not oblique.
        """
        if not isinstance(judged, ObliqueJudgements):
            raise TypeError(f"{judged.source}: late interaction is measured on oblique tasks")
        start = time.perf_counter()
        place = {text: i for i, text in enumerate(dict.fromkeys(judged.texts))}
        documents = self._model.encode_document(list(place), show_progress_bar=False)
        column = np.array([place[text] for text in judged.texts])
        found: dict[Strategy, Measured] = {}
        strategies: Sequence[tuple[Strategy, str | None]] = (("dense", self.query_template), ("claim_only", None))
        for strategy, template in strategies:
            queries = self._model.encode_query(query_texts(judged, template), show_progress_bar=False)

            def scores(rows: slice, queries: Any = queries) -> Float32:
                similar: Float32 = self._model.similarity(queries[rows], documents).float().cpu().numpy()
                return similar[:, column]

            table = per_query(judged, scores)
            found[strategy] = Measured(table, {"encode_and_rank_s": time.perf_counter() - start}, self.params)
            start = time.perf_counter()
        return found


System = Encoder | Reference | LateInteraction


def system(name: str, cache: Path | None = None, trust_remote_code: str | None = None) -> Encoder | Reference:
    """What a ``--model`` or ``--baseline`` means.

    Raises:
        FileNotFoundError: If there is no such model.
        ValueError: If it cannot be loaded as it should.
    """
    for reference in REFERENCES:
        if name == reference and is_reference(name):
            return Reference(reference)
    return Encoder(name, cache, trust_remote_code)


def is_reference(name: str) -> bool:
    """Whether a ``--model`` means BM25 or chance."""
    return name in REFERENCES and not Path(name).is_dir()
