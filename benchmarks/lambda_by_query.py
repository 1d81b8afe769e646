"""λ chosen by query against the best fixed one, on claims it was not fitted on and on another source's.

    python -m benchmarks.lambda_by_query PERSPECTRUM [MODEL ...]  # its three files; some 2 minutes a model

For each model λ is fitted twice: on one half of Perspectrum's dev claims, asked about the other half, and on the
validation claims of the sample, asked about all dev claims: there the domains differ. ``auto`` is what ``tune`` keeps,
which is a choice by query only where one holds up on held-out claims; ``by query`` is the choice it would have made
regardless. Writes results/levers/lambda-by-query.json.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from hub_models.hub_cache import SAMPLE_BASE, ensure_base, use_project_cache

use_project_cache()

from dataset_builders.atomic import write_text  # noqa: E402
from dataset_builders.schema import Split  # noqa: E402
from dataset_builders.sources import load as load_data  # noqa: E402
from dataset_builders.stance.data import StanceData  # noqa: E402
from hub_models.evaluation.hybrid import Hybrid  # noqa: E402
from hub_models.evaluation.levers import lever_scores  # noqa: E402
from hub_models.evaluation.stance import Judgements, judge, queries_of  # noqa: E402
from hub_models.evaluation.systems import Encoder  # noqa: E402
from hub_models.evaluation.tuning import ERRORS, fit_lambda  # noqa: E402
from hub_models.retrieval.levers import Levers  # noqa: E402

OUT = Path("results") / "levers" / "lambda-by-query.json"
GATES = {"auto": ERRORS, "by query": -math.inf}


def halves(data: StanceData) -> StanceData:
    """The dev claims alone: every other group of them is asked about, the rest is fitted on."""
    dev = data.restrict({"validation"})
    place = {group: i for i, group in enumerate(sorted({c.group_id for c in dev.claims}))}
    splits: tuple[Split, Split] = ("validation", "test")
    return replace(dev, claims=[replace(c, split=splits[place[c.group_id] % 2]) for c in dev.claims])


def compare(encoder: Encoder, fit: Judgements, ask: Judgements, name: str) -> list[dict[str, Any]]:
    """One row a gate: P@R at the best fixed λ of ``fit``, chosen, and by an oracle, over ``ask``."""
    queries = [q for q in queries_of(fit, encoder.query_template) if q.instruction and not q.instruction.seen]
    dense = lever_scores(fit, queries, encoder, Levers())
    rows = []
    for choice, errors in GATES.items():
        model, _ = fit_lambda(fit, queries, dense, name, errors=errors)
        found = Hybrid("auto", model=model).measure(ask, encoder).diagnostics["lambda"]
        rows.append({"choice": choice, "default": model.default, "fitted_on": model.fitted_on} | found)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("perspectrum", type=Path)
    parser.add_argument("models", nargs="*", default=[SAMPLE_BASE])
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    ensure_base(SAMPLE_BASE)
    upstream = load_data("perspectrum", asked.perspectrum)
    halved, sample = halves(upstream), load_data("sample")
    dev = judge(upstream, "validation")
    pairs = {
        "other half of Perspectrum dev": (judge(halved, "validation", wide=True), judge(halved, "test")),
        "Perspectrum dev, fitted on the sample": (judge(sample, "validation", wide=True), dev),
    }
    rows = []
    for model in asked.models:
        encoder = Encoder(model)
        for name, (fit, ask) in pairs.items():
            rows += [{"model": encoder.info.id, "on": name} | row for row in compare(encoder, fit, ask, name)]
    for row in rows:
        print(json.dumps(row, allow_nan=False))
    write_text(asked.out, json.dumps(rows, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
