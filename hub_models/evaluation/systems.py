"""What is measured besides single-vector encoders: keywords, chance, and late interaction. Oblique tasks only."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from hub_models import encoder
from hub_models.evaluation import oblique
from hub_models.evaluation.metrics import Float32
from hub_models.evaluation.oblique import ObliqueJudgements, query_texts
from hub_models.evaluation.results import ModelInfo, Strategy
from hub_models.evaluation.stance import Measured

REFERENCES: tuple[Strategy, ...] = ("bm25", "random")
"""Always there as ``--model``; a folder of such a name is ``./bm25``."""


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

    def search(self, judged: ObliqueJudgements) -> dict[Strategy, Measured]:
        """Its one run."""
        if self.seed is None:
            return {self.name: oblique.evaluate_bm25(judged)}
        return {self.name: oblique.evaluate_random(judged, self.seed)}


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

        if encoder.find(path_or_id, "modules.json") is None and encoder.find(path_or_id, "config.json") is None:
            raise FileNotFoundError(encoder.no_such_model(path_or_id, None))
        self._model = MultiVectorEncoder(path_or_id)
        self.info = ModelInfo(**asdict(encoder.identity(self._model, path_or_id)))
        self.query_template = encoder.query_template_of(path_or_id)
        self.pinned = self.info.revision is not None
        self.device = str(self._model.device)

    def search(self, judged: ObliqueJudgements) -> dict[Strategy, Measured]:
        """With formatted queries (``dense``) and bare ones (``claim_only``), behind the model's own markers."""
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

            table = oblique.per_query(judged, scores)
            found[strategy] = Measured(table, {"encode_and_rank_s": time.perf_counter() - start})
            start = time.perf_counter()
        return found


def is_reference(name: str) -> bool:
    """Whether a ``--model`` means BM25 or chance."""
    return name in REFERENCES and not Path(name).is_dir()
