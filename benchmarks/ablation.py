"""Word ablation on the sample's test split, against the triple loop one would write from the formula.

`ablate` on all 40 claims, the encoding of its distinct texts alone, and the loop of ``ablation_loop.py`` on the first
claim, times the texts that it would encode for all over those it has encoded. MiniLM on the CPU. Both say the same of
that claim, to `APART`. The share of the rate of matrix products is that of encoding alone, by processor time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hub_models.hub_cache import SAMPLE_BASE, use_project_cache

use_project_cache()

from benchmarks.ablation_loop import ablation_metrics  # noqa: E402
from benchmarks.measure import (  # noqa: E402
    arguments,
    in_turns,
    operations,
    product_rate,
    report,
    row,
    scaled,
    seconds,
)
from dataset_builders.instructions import DEFAULT_QUERY_TEMPLATE, UNSEEN  # noqa: E402
from dataset_builders.sources import load as load_data  # noqa: E402
from hub_models import encoder  # noqa: E402
from hub_models.corpus import encode_corpus  # noqa: E402
from hub_models.evaluation.ablation import ablate, deletions  # noqa: E402
from hub_models.evaluation.stance import Judgements, judge  # noqa: E402

APART = 1e-6
"""How far the metrics of the two may be from each other."""


def first(judged: Judgements, claims: int) -> Judgements:
    """The first claims only, among all documents."""
    rows = slice(claims)
    return replace(judged, claims=judged.claims[rows], labels=judged.labels[rows], first=judged.first[rows])


def main() -> None:
    asked = arguments(__doc__, claims=40, of_loop=1)
    judged = first(judge(load_data("sample"), "test"), asked.claims)
    few = first(judged, asked.of_loop)
    model = encoder.load(SAMPLE_BASE)
    seen: list[str] = []

    def encode(texts: Sequence[str]) -> np.ndarray:
        return encode_corpus(texts, model, show_progress=False)

    def counted(texts: Sequence[str]) -> np.ndarray:
        seen.extend(texts)
        return encode(texts)

    def one_pair(texts: Sequence[str]) -> np.ndarray:
        seen.extend(texts)
        return np.asarray(model.encode(list(texts), show_progress_bar=False, normalize_embeddings=True))

    again = ablate(few, counted, DEFAULT_QUERY_TEMPLATE).metrics("overall")
    seen.clear()
    found = ablation_metrics(few, one_pair, DEFAULT_QUERY_TEMPLATE)
    of_loop = len(seen)
    if of_loop != texts_of_the_loop(few):
        raise RuntimeError(f"the loop encoded {of_loop} texts, wanted {texts_of_the_loop(few)}: it is no longer plain")
    gap = max(abs((again[metric].mean or 0.0) - mean) for metric, (mean, _) in found.items())
    if gap > APART:
        raise RuntimeError(f"ours and the loop are {gap} apart, wanted at most {APART}")
    seen.clear()
    ablate(judged, counted, DEFAULT_QUERY_TEMPLATE)
    distinct = list(dict.fromkeys(seen))

    took = in_turns(
        {
            "ours": lambda: ablate(judged, encode, DEFAULT_QUERY_TEMPLATE),
            "strings": lambda: encode(distinct),
            "loop": lambda: ablation_metrics(few, one_pair, DEFAULT_QUERY_TEMPLATE),
        },
        asked.repeats,
        warm=False,
    )
    texts = texts_of_the_loop(judged)
    loop = scaled(took["loop"], texts / of_loop)
    strings = seconds(lambda: encode(distinct), time.process_time)
    share = operations(lambda: encode(distinct)) / strings / product_rate()
    what = f"word ablation, {len(judged.claims)} claims"
    note = (
        f"{len(distinct):,} texts against {texts:,}; the loop's time is that of {of_loop:,} of them, by their share; "
        f"the two are {gap:.0e} apart."
    )
    report(
        [
            row(what, took["ours"], loop, ">= 20", against="triple loop", note=note),
            row(
                what,
                took["ours"],
                took["strings"],
                "<= 1.2",
                against="encoding the distinct strings alone",
                share=round(share, 3),
                share_of="the rate of a float32 matrix product, in encoding the strings (once, by processor time)",
            ),
        ],
        asked.out,
    )


def texts_of_the_loop(judged: Judgements) -> int:
    """Two for each similarity: the full query's and one for each word."""
    return sum(
        2 * (1 + len(deletions(i.text, claim.claim, DEFAULT_QUERY_TEMPLATE))) * int((judged.labels[row] > 0).sum())
        for row, claim in enumerate(judged.claims)
        for i in UNSEEN
    )


if __name__ == "__main__":
    main()
