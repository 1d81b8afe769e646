"""What evaluation costs beyond encoding each distinct text once: metrics, intervals and files on 2,048 documents.

    python benchmarks/evaluation.py            # MiniLM on the CPU: about two minutes on two cores

Prints one JSON row. ``ours`` is `evaluate_model` with a baseline's results to compare with, ``theirs`` the encoding of
its distinct texts alone, in seconds of processor time; imports, loading and figures are left out of both. Interleaved,
medians of three.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from hub_models.hub_cache import SAMPLE_BASE, use_project_cache

use_project_cache()

from dataset_builders.sources import load as load_data  # noqa: E402
from dataset_builders.stance.data import StanceData  # noqa: E402
from hub_models import encoder  # noqa: E402
from hub_models.corpus import encode_corpus  # noqa: E402
from hub_models.evaluation.run import evaluate_model  # noqa: E402
from hub_models.evaluation.stance import judge, queries_of  # noqa: E402

COPIES = 5
DOCUMENTS = 2_048
BOUND = 1.3


def main() -> None:
    judged = judge(enlarged(), "test")
    model = encoder.load(SAMPLE_BASE)
    texts = [d.text for d in judged.documents] + [c.claim for c in judged.claims]
    texts = list(dict.fromkeys(texts + [q.text for q in queries_of(judged, "{instruction} {claim}")]))
    encoder.load = lambda *_, **__: model  # type: ignore[assignment]
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        tasks = {"sample-stance": judged}
        baseline = str(evaluate_model(SAMPLE_BASE, tasks, out=Path(folder) / "baseline").results_path)
        for i in range(3):
            ours.append(
                seconds(lambda i=i: evaluate_model(SAMPLE_BASE, tasks, out=Path(folder) / str(i), baseline=baseline))
            )
            theirs.append(seconds(lambda: encode_corpus(texts, model)))
    a, b = statistics.median(ours), statistics.median(theirs)
    row = {"name": "evaluation over encoding", "ours": round(a, 2), "theirs": round(b, 2), "ratio": round(a / b, 3)}
    print(json.dumps(row | {"bound": BOUND, "documents": DOCUMENTS, "texts": len(texts)}))


def enlarged() -> StanceData:
    """The sample's arguments several times over, told apart by a number, until there are 2,048."""
    sample = load_data("sample")
    arguments = [
        replace(a, argument_id=f"{a.argument_id}-{i}", text=f"{a.text} (Version {i}.)")
        for i in range(COPIES)
        for a in sample.arguments
    ][:DOCUMENTS]
    kept = {a.argument_id for a in arguments}
    relations = [
        replace(r, argument_id=f"{r.argument_id}-{i}")
        for i in range(COPIES)
        for r in sample.relations
        if f"{r.argument_id}-{i}" in kept
    ]
    return replace(
        sample,
        claims=[replace(c, split=None) for c in sample.claims],
        arguments=arguments,
        relations=relations,
        inversions=[],
    )


def seconds(call: object) -> float:
    start = time.process_time()
    call()  # type: ignore[operator]
    return time.process_time() - start


if __name__ == "__main__":
    main()
