"""Word ablation against the triple loop one would write from the formula, on the sample's test split.

    python benchmarks/ablation.py            # MiniLM on the CPU: some minutes

Prints one JSON row. ``ours`` is `ablate` on all 40 claims, ``theirs`` the loop of ``ablation_loop.py`` on the first
``claims_of_theirs`` of them, times the texts that it would encode for all over those it has encoded; seconds of
processor time, loading left out. ``texts`` counts what reaches the encoder, ``largest_difference`` compares the
metrics of both on the loop's claims.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from hub_models.hub_cache import SAMPLE_BASE, use_project_cache

use_project_cache()

from ablation_loop import ablation_metrics  # noqa: E402

from dataset_builders.instructions import DEFAULT_QUERY_TEMPLATE, UNSEEN  # noqa: E402
from dataset_builders.sources import load as load_data  # noqa: E402
from hub_models import encoder  # noqa: E402
from hub_models.corpus import encode_corpus  # noqa: E402
from hub_models.evaluation.ablation import ablate, deletions  # noqa: E402
from hub_models.evaluation.stance import Judgements, judge  # noqa: E402

CLAIMS = 4
BOUND = 20


def main() -> None:
    judged = judge(load_data("sample"), "test")
    few = replace(judged, claims=judged.claims[:CLAIMS], labels=judged.labels[:CLAIMS], first=judged.first[:CLAIMS])
    model = encoder.load(SAMPLE_BASE)
    encoded = 0

    def encode(texts: Sequence[str]) -> np.ndarray:
        nonlocal encoded
        encoded += len(texts)
        return encode_corpus(texts, model, show_progress=False)

    def one_pair(texts: Sequence[str]) -> np.ndarray:
        nonlocal encoded
        encoded += len(texts)
        return np.asarray(model.encode(list(texts), show_progress_bar=False, normalize_embeddings=True))

    encode(["warm up"])
    encoded = 0
    ours = seconds(lambda: ablate(judged, encode, DEFAULT_QUERY_TEMPLATE))
    texts_ours, encoded = encoded, 0
    found: dict[str, tuple[float, float]] = {}
    theirs = seconds(lambda: found.update(ablation_metrics(few, one_pair, DEFAULT_QUERY_TEMPLATE)))
    if encoded != texts_of_the_loop(few):
        raise RuntimeError(f"the loop encoded {encoded} texts, wanted {texts_of_the_loop(few)}: it is no longer plain")
    texts_theirs = texts_of_the_loop(judged)
    theirs *= texts_theirs / encoded

    again = ablate(few, encode, DEFAULT_QUERY_TEMPLATE).metrics("overall")
    difference = max(abs(again[m].mean - mean) for m, (mean, _) in found.items())  # type: ignore[operator]
    row = {"name": "word ablation", "ours": round(ours, 2), "theirs": round(theirs, 2)}
    row |= {"ratio": round(theirs / ours, 1), "bound": BOUND, "claims_of_theirs": CLAIMS}
    print(json.dumps(row | {"texts": [texts_ours, texts_theirs], "largest_difference": difference}))


def texts_of_the_loop(judged: Judgements) -> int:
    """Two for each similarity: the full query's and one for each word."""
    return sum(
        2 * (1 + len(deletions(i.text, claim.claim, DEFAULT_QUERY_TEMPLATE))) * int((judged.labels[row] > 0).sum())
        for row, claim in enumerate(judged.claims)
        for i in UNSEEN
    )


def seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


if __name__ == "__main__":
    main()
