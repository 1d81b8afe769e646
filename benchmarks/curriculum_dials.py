"""Every curriculum at every setting of the dials, against `mixed_aug` as trained: does one win stance *and* topic?

    python -m benchmarks.curriculum_dials runs/study-minilm/runs  # folders SYSTEM-seedN; some 10 minutes

Adapter scale and anchor move a trained model between stance and topical errors, so one point of a curriculum says
little: it is the curve that has to lie lower. Each row is a system at one setting, averaged over its seeds, with
paired 95 % intervals by claim of its difference to `mixed_aug`. Asks the sample's validation claims, on which a
setting is chosen, unless told otherwise. Writes results/curriculum/dials.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from hub_models.hub_cache import SAMPLE_BASE, ensure_base, use_project_cache

use_project_cache()

from tqdm import tqdm  # noqa: E402

from dataset_builders.atomic import write_text  # noqa: E402
from dataset_builders.sources import load as load_data  # noqa: E402
from hub_models.evaluation.comparisons import comparisons  # noqa: E402
from hub_models.evaluation.levers import lever_scores  # noqa: E402
from hub_models.evaluation.measured import Table  # noqa: E402
from hub_models.evaluation.stance import Judgements, judge, queries_of  # noqa: E402
from hub_models.evaluation.stance_ranking import per_query  # noqa: E402
from hub_models.evaluation.stance_table import slices_of  # noqa: E402
from hub_models.evaluation.study_results import mean_table  # noqa: E402
from hub_models.evaluation.systems import Encoder  # noqa: E402
from hub_models.retrieval.levers import Levers  # noqa: E402

OUT = Path("results") / "curriculum" / "dials.json"
AGAINST = "mixed_aug"
SETTINGS = [Levers(scale, anchor) for scale, anchor in itertools.product((1.0, 0.9, 0.8, 0.7, 0.6), (0.0, 0.1, 0.2))]
METRICS = ("precision_at_r", "hard_at_r", "semi_hard_at_r")


def tables(run: Path, judged: Judgements) -> dict[Levers, Table]:
    """Per-query values of one run at every setting."""
    encoder = Encoder(str(run))
    queries = queries_of(judged, encoder.query_template)
    return {levers: per_query(judged, queries, lever_scores(judged, queries, encoder, levers)) for levers in SETTINGS}


def row(system: str, levers: Levers, seeds: list[Table], reference: Table) -> dict[str, Any]:
    """Means over the seeds, each seed's, and the differences to the reference."""
    found: dict[str, Any] = {"system": system, "adapter_scale": levers.adapter_scale, "anchor": levers.anchor}
    table = mean_table(seeds)
    differences = comparisons(
        table, reference, AGAINST, slices={"overall": slices_of(table)["overall"]}, metrics=METRICS,
        units=table["claim_id"], unit="claim", alone="one claim", resamples=10_000, seed=0,
    )  # fmt: skip
    for metric in METRICS:
        values = [round(float(seed[metric][slices_of(seed)["overall"]].mean()), 4) for seed in seeds]
        change = next(c for c in differences if c.metric == metric)
        found[metric] = {
            "mean": round(sum(values) / len(values), 4),
            "seeds": values,
            "against": [None if v is None else round(v, 4) for v in (change.delta, change.low, change.high)],
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="folder of run folders, named SYSTEM-seedN")
    parser.add_argument("--split", choices=["validation", "test"], default="validation")
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    ensure_base(SAMPLE_BASE)
    judged = judge(load_data("sample"), asked.split)
    systems: dict[str, list[dict[Levers, Table]]] = defaultdict(list)
    for run in tqdm(sorted(asked.runs.glob("*-seed*")), desc="runs"):
        systems[run.name.rpartition("-")[0]].append(tables(run, judged))
    reference = mean_table([seed[Levers()] for seed in systems[AGAINST]])
    rows = [
        row(system, levers, [seed[levers] for seed in seeds], reference)
        for system, seeds in systems.items()
        for levers in SETTINGS
    ]
    for found in rows:
        print(json.dumps(found, allow_nan=False))
    write_text(asked.out, json.dumps({"split": asked.split, "rows": rows}, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
