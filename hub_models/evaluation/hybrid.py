"""Hybrid retrieval: BM25 of the claim beside the dense scores (stance paper, 5.3), with λ fixed or chosen by query."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from dataset_builders.lexical import BM25, Lexical, PaperBM25
from hub_models.evaluation.levers import Levered, lever_scores, takes_levers
from hub_models.evaluation.measured import Measured, Table
from hub_models.evaluation.metrics import Float32, Float64
from hub_models.evaluation.named_tasks import Tasks
from hub_models.evaluation.results import Strategy
from hub_models.evaluation.significance import paired_difference
from hub_models.evaluation.stance import ALL, Judgements, Query, queries_of
from hub_models.evaluation.stance_ranking import Scores, per_query
from hub_models.evaluation.systems import Encoder, is_reference
from hub_models.evaluation.variants import Variant
from hub_models.retrieval.adaptive import FEATURES, LambdaModel, features
from hub_models.retrieval.fusion import check_weight, fuse
from hub_models.retrieval.levers import Levers, Stored, stored

Weight = float | Literal["auto"]

MAIN = "precision_at_r"


class ClaimWords:
    """BM25 of the claims of a task; each candidate set is a corpus with word statistics of its own.

    Attributes:
        unknown: Ids of the claims of which no word is in the corpus: they keep the dense order.
    """

    def __init__(self, judged: Judgements, lexical: Lexical = "slant") -> None:
        self._judged = judged
        self._indexes: dict[str, BM25 | PaperBM25] = {}
        for name, columns in judged.candidates.items():
            documents = [judged.documents[c] for c in columns]
            texts = [d.text for d in documents]
            self._indexes[name] = (
                BM25(texts, [d.argument_id for d in documents]) if lexical == "slant" else PaperBM25(texts)
            )
        self._scores: dict[tuple[str, int], Float32] = {}
        self.unknown = [c.claim_id for i, c in enumerate(judged.claims) if not self.of_claim(ALL, i).any()]

    def of_claim(self, candidates: str, claim: int) -> Float32:
        """float32[n_candidates], 0 where no word of the claim matches."""
        if (candidates, claim) not in self._scores:
            text = self._judged.claims[claim].claim
            self._scores[candidates, claim] = self._indexes[candidates].scores(text)
        return self._scores[candidates, claim]

    def frequencies(self, candidates: str, claim: int) -> Any:
        """int64[n_words], see `BM25.document_frequencies`."""
        index = self._indexes[candidates]
        assert isinstance(index, BM25)  # a λ model goes with our tokenizer: `variants` sees to it
        return index.document_frequencies(self._judged.claims[claim].claim)


def hybrid_scores(
    judged: Judgements, queries: list[Query], dense: Scores, words: ClaimWords, weight: float | LambdaModel
) -> Scores:
    """Fused scores. Where λ is 0, or no word of the claim is known, they are the dense ones, to the last bit."""

    def scores(rows: list[int], candidates: str) -> Float32:
        a = dense(rows, candidates)
        b = np.stack([words.of_claim(candidates, queries[i].claim) for i in rows])
        if isinstance(weight, LambdaModel):
            chosen = weight.choose(seen(queries, rows, candidates, a, b, words))
        else:
            chosen = np.full(len(rows), weight)
        fused = np.array(a)
        for value in np.unique(chosen):
            at = (chosen == value) & b.any(axis=1)
            if value and at.any():
                fused[at] = fuse(a[at], b[at], float(value))
        return fused

    return scores


def seen(
    queries: list[Query], rows: Sequence[int], candidates: str, dense: Float32, bm25: Float32, words: ClaimWords
) -> Float64:
    """float64[n_rows, 7], the features of each query."""
    found = [
        features(dense[i], bm25[i], words.frequencies(candidates, queries[row].claim)) for i, row in enumerate(rows)
    ]
    return np.array(found).reshape(-1, len(FEATURES))


@dataclass(frozen=True)
class Hybrid:
    """A hybrid run: a `Variant`.

    Attributes:
        weight: λ in [0, 1], or ``auto``.
        lexical: Which tokenizer and BM25.
        levers: Of the dense side.
        model: What ``auto`` chooses with.
        of: The model that it was fitted for, as given.
    """

    weight: Weight
    lexical: Lexical = "slant"
    levers: Levers = field(default_factory=Levers)
    model: LambdaModel | None = None
    of: str | None = None
    strategy: ClassVar[Strategy] = "hybrid"
    needs: ClassVar[str] = "a scale and an anchor need a LoRA adapter, and auto the model that it was fitted for"

    @property
    def params(self) -> dict[str, Any]:
        fitted = {"lambda_model": self.model.digest} if self.model is not None else {}
        return {"weight": self.weight, "lexical": self.lexical} | fitted | self.levers.params

    def takes(self, encoder: Encoder) -> bool:
        return takes_levers(encoder, self.levers) and self.of in (None, encoder.path_or_id)

    def measure(self, judged: Judgements, encoder: Encoder) -> Measured:
        start = time.perf_counter()
        queries = queries_of(judged, encoder.query_template)
        dense = lever_scores(judged, queries, encoder, self.levers)
        encoded = time.perf_counter()
        words = ClaimWords(judged, self.lexical)
        weight = self.model if self.model is not None else float(self.weight)
        table = per_query(judged, queries, hybrid_scores(judged, queries, dense, words, weight))
        timing = {"encode_s": encoded - start, "rank_s": time.perf_counter() - encoded}
        found: dict[str, Any] = {"claims_without_a_known_word": len(words.unknown)}
        if self.model is not None:
            found["lambda"] = _beside(judged, queries, dense, words, self.model, table)
        return Measured(table, timing, diagnostics=found)


def _beside(
    judged: Judgements, queries: list[Query], dense: Scores, words: ClaimWords, model: LambdaModel, table: Table
) -> dict[str, Any]:
    """How the chosen λ did beside the best fixed one and beside an oracle that tries all of the grid on each query,
    over the unseen instructions and all documents."""
    by_weight = {w: per_query(judged, queries, hybrid_scores(judged, queries, dense, words, w)) for w in model.grid}
    kept = (table["candidates"] == ALL) & ~table["seen"].astype(bool)
    values = np.stack([by_weight[w][MAIN][kept] for w in model.grid], axis=1)
    fixed, auto = values[:, model.grid.index(model.fixed)], table[MAIN][kept]
    units = table["claim_id"][kept].tolist()
    return {
        "metric": MAIN,
        "fixed_weight": model.fixed,
        "fixed": float(fixed.mean()),
        "auto": float(auto.mean()),
        "oracle": float(values.max(axis=1).mean()),
        "by_weight": {str(w): float(v) for w, v in zip(model.grid, values.mean(axis=0), strict=True)},
        "auto_minus_fixed": asdict(paired_difference(auto - fixed, units)),
    }


def parse_weights(given: str) -> list[Weight]:
    """The λ of a command line: numbers from 0 to 1 and ``auto``, with commas.

    Raises:
        ValueError: If one is neither.
    """
    weights: list[Weight] = []
    for part in dict.fromkeys(part.strip() for part in given.split(",")):
        if part == "auto":
            weights.append("auto")
            continue
        try:
            weight = float(part)
            check_weight(weight)
        except ValueError:
            raise ValueError(
                f"--hybrid: got {part!r}, wanted numbers from 0 to 1 and 'auto', with commas: 0.1,0.15,auto"
            ) from None
        weights.append(weight)
    return weights


def variants(
    model: str,
    tasks: Tasks,
    *,
    hybrid: str | None = None,
    lexical: Lexical = "slant",
    adapter_scale: float | None = None,
    anchor: float | None = None,
) -> list[Variant]:
    """The further runs that a command line asks for, checked before anything is loaded.

    Args:
        model: Folder or Hub id of the model under test.
        tasks: What it is measured on.
        hybrid: λ, see `parse_weights`.
        lexical: Tokenizer and BM25.
        adapter_scale: Of dense and hybrid runs; None takes what ``tune`` stored in the run folder, if anything.
        anchor: Likewise.

    Returns:
        A dense run if a lever is pulled, and a hybrid run for each λ. With ``auto`` comes the best fixed λ. None where
        there is no stance task.

    Raises:
        ValueError: If any of it is asked for without a stance task, a number is out of range, or ``auto`` is asked of
            a model that has no λ model, with other levers than it was fitted under, or with the paper's BM25.
    """
    if not any(isinstance(judged, Judgements) for judged in tasks.values()):
        if (hybrid, adapter_scale, anchor) != (None, None, None):
            raise ValueError(
                f"got --hybrid, --adapter-scale or --anchor with {', '.join(tasks)}, wanted a stance task: they "
                "are not measured on oblique ones"
            )
        return []
    known = Stored(Levers(), None) if is_reference(model) else stored(model)
    kept = known.levers
    levers = kept
    for option, given in (("--adapter-scale", (adapter_scale, None)), ("--anchor", (None, anchor))):
        try:
            levers = levers.but(*given)
        except ValueError as error:
            raise ValueError(f"{option}: {error}") from None
    found: list[Variant] = [Levered(levers)] if levers.pulled else []
    weights = parse_weights(hybrid) if hybrid is not None else []
    if "auto" in weights:
        if is_reference(model):
            raise ValueError(f"{model}: got --hybrid auto, wanted an encoder: there are no dense scores to weigh")
        if known.lambda_model is None:
            raise ValueError(
                f"{model}: got --hybrid auto, but it has no λ model; fit one on validation claims with "
                "`python -m hub_models tune RUN --tasks …`, or give numbers"
            )
        if lexical != "slant" or levers != kept:
            raise ValueError(
                f"{model}: got --hybrid auto with lexical {lexical!r}, {levers}, wanted 'slant', {kept}, which "
                "its λ model was fitted with"
            )
        weights = list(dict.fromkeys([*weights, known.lambda_model.fixed]))
        found.append(Hybrid("auto", lexical, levers, known.lambda_model, model))
    return [*found, *(Hybrid(w, lexical, levers) for w in weights if w != "auto")]
