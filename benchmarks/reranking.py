"""Every reranking policy on the oblique sample, with stand-ins for the language model: an oracle, the same with one
wrong pick in five, and a judge that sees topics alone (O 6.3). What comes out is what the machinery makes of a model
whose quality is known; it says nothing of a real one.

    python -m benchmarks.reranking                    # about a quarter of an hour on two cores

Each answers over HTTP. MiniLM searches first. Writes results/reranking-sample/: a results.json a judge, with the
sweeps over Y and K and a pool of 200 for the noisy oracle, and replies.json: 20,400 made-up replies by kind, and how
they were read.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from hub_models.hub_cache import SAMPLE_BASE, use_project_cache

use_project_cache()

from dataset_builders.atomic import write_text  # noqa: E402
from dataset_builders.generate import LanguageModel  # noqa: E402
from dataset_builders.sources.oblique import load  # noqa: E402
from hub_models.evaluation.figures import draw  # noqa: E402
from hub_models.evaluation.named_tasks import load_tasks  # noqa: E402
from hub_models.evaluation.report import report  # noqa: E402
from hub_models.evaluation.rerank_option import rerankings  # noqa: E402
from hub_models.evaluation.run import evaluate_model  # noqa: E402
from tests.endpoint import endpoint  # noqa: E402
from tests.hub_models.retrieval.test_replies import fuzz  # noqa: E402
from tests.judges import Judge, answering, noisy, oracle, topical  # noqa: E402

OUT = Path("results") / "reranking-sample"
TASKS = ("twitter", "math", "writing", "congress", "wildchat")
POLICIES = "tourrank:5,listwise"
SWEEPS = "tourrank:1,tourrank:3,tourrank:10,listwise:10,listwise:20,listwise:50,listwise:100,sliding:20"
CASCADE = "tourrank:5"
CASCADE_DEPTH = 200
REPLIES_A_KIND = 1_200


def main() -> None:
    knows = oracle(*(load("sample", task) for task in TASKS))
    judges: dict[str, Judge] = {"oracle": knows, "noisy-oracle": noisy(knows), "topical": topical}
    counts = {kind: dict(sorted(found.items())) for kind, found in fuzz(REPLIES_A_KIND, seed=8).items()}
    OUT.mkdir(parents=True, exist_ok=True)
    write_text(OUT / "replies.json", json.dumps(counts, indent=1, allow_nan=False) + "\n")
    print(json.dumps(counts, allow_nan=False))
    with tempfile.TemporaryDirectory() as folder:
        for name, judge in judges.items():
            measure(name, judge, Path(folder))


def measure(name: str, judge: Judge, cache: Path) -> None:
    """All runs of one judge. Vectors and answers are kept in ``cache``: each is made once."""
    names = [f"sample-obliq-{task}" for task in TASKS]
    tasks = load_tasks(names, None, "test")
    with endpoint(answering(judge)) as served:
        model = LanguageModel(name, base_url=served.base_url, cache=cache / "replies")
        asked = [("auto", 100), (POLICIES, 100)]
        asked += [(SWEEPS, 100), (CASCADE, CASCADE_DEPTH)] if name == "noisy-oracle" else []
        variants = [
            variant
            for option, depth in asked
            for variant in rerankings(option, tasks, names, None, "test", depth=depth, model=model).oblique
        ]
        shutil.rmtree(OUT / name, ignore_errors=True)
        found = evaluate_model(SAMPLE_BASE, tasks, out=OUT / name, cache=cache, oblique_variants=variants)
        for task in names:
            print(report(found.results, task))
            if name == "noisy-oracle":  # the sweeps
                draw(found, task)
        print(f"{name}: {model.counters.as_dict()}")


if __name__ == "__main__":
    main()
