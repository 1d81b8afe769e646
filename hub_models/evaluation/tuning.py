"""What can be chosen after training, chosen on validation claims: adapter scale, anchor weight, and the λ of BM25.

One rule for all of it: the setting with the best P@R, if it beats the plain one by more than two standard errors of
the paired difference, by claim; else the plain one. So a run keeps its plain search where nothing is shown. (One
standard error is too few for the best of many settings: on the sample it chose a scale that lost on test.)
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold
from tqdm import tqdm

from dataset_builders.atomic import write_text
from hub_models.evaluation.hybrid import MAIN, ClaimWords, hybrid_scores, seen
from hub_models.evaluation.levers import lever_scores
from hub_models.evaluation.measured import Table
from hub_models.evaluation.metrics import Float64
from hub_models.evaluation.stance import ALL, Judgements, Query, queries_of
from hub_models.evaluation.stance_ranking import Scores, per_query
from hub_models.evaluation.stance_runs import dense_scores
from hub_models.evaluation.systems import Encoder
from hub_models.manifest import Manifest
from hub_models.retrieval.adaptive import FEATURES, LambdaModel
from hub_models.retrieval.anchor import joined
from hub_models.retrieval.dense import DenseIndex
from hub_models.retrieval.levers import Levers

logger = logging.getLogger(__name__)

SCALES = (1.0, 0.3, 0.45, 0.6, 0.8, 1.25, 1.5)
ANCHORS = (0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
WEIGHTS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
RIDGES = (3e1, 1e2, 3e2, 1e3)
TUNING = "tuning"
"""The folder in a run that keeps what was tried."""

ERRORS = 2.0
_FOLDS = 5
Setting = TypeVar("Setting")
_SHOWN = ("ndcg_at_10", MAIN, "hard_at_r", "semi_hard_at_r", "easy_at_r")


@dataclass(frozen=True)
class Tuned:
    """What was chosen, and what it was chosen from.

    Attributes:
        levers: Scale and anchor.
        lambda_model: Of the dense side under these levers.
        curve: One row for each setting of the levers that was tried: ``adapter_scale``, ``anchor``, and the metrics
            over all documents.
        weights: λ to P@R under the chosen levers.
        one_index: P@R of the chosen levers as one inner product, see `anchor.joined`; None without an anchor.
    """

    levers: Levers
    lambda_model: LambdaModel
    curve: list[dict[str, float]]
    weights: dict[float, float]
    one_index: float | None


def tune(judged: Judgements, encoder: Encoder, task_name: str) -> Tuned:
    """Try the levers' grid, then λ under what was chosen, on the unseen instructions of validation claims.

    Args:
        judged: The claims to choose on, never those of the test split, in a corpus as large as will be searched.
        encoder: A single-vector encoder; without an adapter only λ is chosen.
        task_name: For the record.

    Raises:
        ValueError: If the claims are test claims, or fewer than `_FOLDS`.
    """
    if judged.split != "validation":
        raise ValueError(
            f"{task_name}: got the split {judged.split!r}, wanted 'validation': what is chosen on test is lost"
        )
    if len(judged.claims) < _FOLDS:
        raise ValueError(f"{task_name}: got {len(judged.claims)} validation claims, wanted at least {_FOLDS}")
    queries = [q for q in queries_of(judged, encoder.query_template) if q.instruction and not q.instruction.seen]
    tried: dict[Levers, Table] = {}
    settings = [Levers(s, a) for s in SCALES for a in ANCHORS] if encoder.info.adapter_sha256 else [Levers()]
    for levers in tqdm(settings, desc="levers", unit="setting", delay=2):
        tried[levers] = _all_documents(per_query(judged, queries, lever_scores(judged, queries, encoder, levers)))
    chosen = best({levers: table[MAIN] for levers, table in tried.items()}, _claims(tried[Levers()]), Levers())
    logger.info("%s: %s", task_name, chosen)
    curve = [
        {"adapter_scale": levers.adapter_scale, "anchor": levers.anchor}
        | {metric: float(table[metric].mean()) for metric in _SHOWN}
        for levers, table in tried.items()
    ]
    dense = lever_scores(judged, queries, encoder, chosen)
    model, weights = fit_lambda(judged, queries, dense, task_name)
    return Tuned(chosen, model, curve, weights, _one_index(judged, queries, encoder, chosen))


def best(values: dict[Setting, Float64], claims: Sequence[str], plain: Setting) -> Setting:
    """The setting with the highest mean, if it beats the plain one by more than `ERRORS` standard errors.

    Args:
        values: Setting to float64[n_queries], the same queries for all.
        claims: Whose query each is: the independent draws.
        plain: One of the settings.
    """
    first = max(values, key=lambda setting: float(values[setting].mean()))
    gain = values[first] - values[plain]
    return first if gain.mean() > ERRORS * standard_error(gain, claims) else plain


def standard_error(differences: Float64, claims: Sequence[str]) -> float:
    """Of their mean, when whole claims are drawn."""
    _, index = np.unique(np.asarray(claims), return_inverse=True)
    sums = np.bincount(index, weights=differences - differences.mean())
    return float(np.sqrt((sums**2).sum() * len(sums) / max(1, len(sums) - 1)) / len(differences))


def fit_lambda(
    judged: Judgements, queries: list[Query], dense: Scores, task_name: str, *, errors: float = ERRORS
) -> tuple[LambdaModel, dict[float, float]]:
    """A default λ, and a ridge regression on `FEATURES` of what each other λ gains over it.

    The penalty is chosen by cross-validation over claims. Where even the best one does not beat the default by more
    than ``errors`` standard errors on claims that it was not fitted on, all coefficients are 0.

    Returns:
        The model, and λ to mean P@R.
    """
    words = ClaimWords(judged)
    tables = {
        w: _all_documents(per_query(judged, queries, hybrid_scores(judged, queries, dense, words, w)))
        for w in tqdm(WEIGHTS, desc="weights", unit="weight", delay=2)
    }
    first = tables[WEIGHTS[0]]
    claims = _claims(first)
    values = np.stack([tables[w][MAIN] for w in WEIGHTS], axis=1)
    default = best({w: values[:, i] for i, w in enumerate(WEIGHTS)}, claims, WEIGHTS[0])
    gains = values - values[:, [WEIGHTS.index(default)]]
    place = {q.query_id: i for i, q in enumerate(queries)}
    rows = [place[query] for query in first["query_id"]]
    lexical = np.stack([words.of_claim(ALL, queries[i].claim) for i in rows])
    found = seen(queries, rows, ALL, dense(rows, ALL), lexical, words)

    held_out = {ridge: _held_out(found, gains, claims, ridge, default) for ridge in RIDGES}
    ridge = max(RIDGES, key=lambda r: float(held_out[r].mean()))
    gain, error = float(held_out[ridge].mean()), standard_error(held_out[ridge], claims)
    kept = gain > errors * error
    record: dict[str, Any] = {
        "task": task_name,
        "revision": judged.revision,
        "claims": len(set(claims)),
        "queries": len(claims),
        "held_out_gain": gain,
        "held_out_standard_error": error,
        "oracle_gain": float(gains.max(axis=1).mean()),
    }
    fixed = WEIGHTS[int(values.mean(axis=0).argmax())]
    return _fitted(found, gains, (fixed, default), ridge if kept else None, record), dict(
        zip(WEIGHTS, values.mean(axis=0).tolist(), strict=True)
    )


def _held_out(found: Float64, gains: Float64, claims: Sequence[str], ridge: float, default: float) -> Float64:
    """float64[n_queries]: what the choice gains on queries of claims that the model was not fitted on."""
    gained = np.zeros(len(gains))
    for fit, test in GroupKFold(_FOLDS).split(found, groups=claims):
        chosen = _fitted(found[fit], gains[fit], (default, default), ridge, {}).choose(found[test])
        gained[test] = gains[test, [WEIGHTS.index(w) for w in chosen.tolist()]]
    return gained


def _fitted(
    found: Float64,
    gains: Float64,
    fixed_and_default: tuple[float, float],
    ridge: float | None,
    record: dict[str, Any],
) -> LambdaModel:
    mean, std = found.mean(axis=0), found.std(axis=0)
    std = np.where(std > 0, std, 1.0)
    coefficients = np.zeros((len(WEIGHTS), 1 + len(FEATURES)))
    if ridge is not None:
        model = Ridge(alpha=ridge).fit((found - mean) / std, gains)
        coefficients = np.column_stack([model.intercept_, model.coef_])
    return LambdaModel(
        grid=WEIGHTS,
        fixed=fixed_and_default[0],
        default=fixed_and_default[1],
        features=FEATURES,
        mean=tuple(mean.tolist()),
        std=tuple(std.tolist()),
        coefficients=tuple(map(tuple, coefficients.tolist())),
        ridge=ridge,
        fitted_on=record,
    )


def keep(run_dir: Path, found: Tuned) -> None:
    """Write what was chosen into the run's ``slant.json``, where search and evaluation look for it (what is plain is
    null), and what it was chosen from into ``tuning/tuning.json``.

    Raises:
        FileNotFoundError: If there is no ``slant.json``.
        ValueError: If it is damaged.
    """
    levers = found.levers
    changed: dict[str, Any] = {
        "adapter_scale": None if levers.adapter_scale == 1 else levers.adapter_scale,
        "anchor_weight": levers.anchor or None,
        "lambda_model": found.lambda_model.model_dump(mode="json"),
    }
    Manifest.update(run_dir, lambda _: changed)
    tried = {"levers": found.curve, "one_index": found.one_index, "weights": found.weights}
    (run_dir / TUNING).mkdir(exist_ok=True)
    write_text(run_dir / TUNING / "tuning.json", json.dumps(tried, indent=1, allow_nan=False) + "\n")


def _one_index(judged: Judgements, queries: list[Query], encoder: Encoder, levers: Levers) -> float | None:
    if not levers.anchor:
        return None
    documents = [d.text for d in judged.documents]
    n = len(documents)
    adapted = encoder.encode([*documents, *(q.text for q in queries)], levers.adapter_scale)
    base = encoder.encode_base([*documents, *(judged.claims[q.claim].claim for q in queries)])
    vectors = joined(adapted, base, levers.anchor)
    table = per_query(judged, queries, dense_scores(judged, DenseIndex(documents, vectors[:n]), vectors[n:]))
    return float(_all_documents(table)[MAIN].mean())


def _all_documents(table: Table) -> Table:
    rows = table["candidates"] == ALL
    return {name: column[rows] for name, column in table.items()}


def _claims(table: Table) -> list[str]:
    claims: list[str] = table["claim_id"].tolist()
    return claims


def summary(found: Tuned) -> str:
    """What was chosen, in lines for a terminal."""
    rows = {Levers(row["adapter_scale"], row["anchor"]): row for row in found.curve}
    lines = [
        f"{name:<8} {MAIN} {row[MAIN]:.3f}, hard {row['hard_at_r']:.3f}, semi-hard {row['semi_hard_at_r']:.3f}"
        for name, row in (("plain", rows[Levers()]), ("chosen", rows[found.levers]))
    ]
    lines[1] += f": adapter scale {found.levers.adapter_scale:g}, anchor {found.levers.anchor:g}"
    if found.one_index is not None:
        lines.append(f"         {MAIN} {found.one_index:.3f} as one index of concatenated vectors")
    model = found.lambda_model
    record, by_query = model.fitted_on, "kept" if model.ridge is not None else "not kept"
    return "\n".join(
        [
            *lines,
            f"BM25     {MAIN} {found.weights[model.fixed]:.3f} at {model.fixed:g}, the best fixed weight; "
            f"{found.weights[0.0]:.3f} without; default {model.default:g}",
            f"         by query {record['held_out_gain']:+.3f} ± {record['held_out_standard_error']:.3f} on held-out "
            f"claims: {by_query}; by an oracle {record['oracle_gain']:+.3f}",
            f"over     {record['claims']} validation claims, {record['queries']} queries; ±: standard error by claim",
        ]
    )
