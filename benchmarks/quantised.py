"""Recall of quantised vectors against float32: ``python -m benchmarks.quantised``; a few minutes.

Arguments of the sample (all-MiniLM-L6-v2, asked for either stance of each claim), and vectors that are drawn, in
clusters of a thousand. Recall at k: the share of the k best by float32 that are among the k best.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.__main__ import machine, versions
from benchmarks.scale import drawn
from dataset_builders.atomic import write_text
from hub_models.hub_cache import SAMPLE_BASE, use_project_cache
from hub_models.retrieval import quantised
from hub_models.retrieval.quantised import BinaryIndex, Int8Index

OUT = Path(__file__).parent / "results" / "quantised.json"
DRAWN, ASKED, WIDE = 100_000, 200, (1.0, 2.0)
DEPTHS = (10, 100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "slant-quantised")
    asked = parser.parse_args()
    rows = measure("sample", *sample(asked.cache))
    for spread in WIDE:
        rows += measure(f"drawn, noise {spread:g} x centres", *clusters(spread))
    for row in rows:
        print(json.dumps(row, allow_nan=False))
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    found = {"machine": machine(), "versions": versions(), "rows": rows}
    write_text(asked.out, json.dumps(found, indent=1, allow_nan=False) + "\n")


def sample(cache: Path) -> tuple[Any, Any]:
    """Vectors of the sample's arguments, and of the question for either stance of each claim."""
    use_project_cache()
    from dataset_builders.instructions import DEFAULT_QUERY_TEMPLATE, STANCES, format_query, seen_for
    from dataset_builders.sources import load as load_data
    from hub_models.corpus import encode_corpus
    from hub_models.encoder import load

    data, model = load_data("sample"), load(SAMPLE_BASE)
    asked = [
        format_query(DEFAULT_QUERY_TEMPLATE, seen_for(stance)[0].text, c.claim)
        for c in data.claims
        for stance in STANCES
    ]
    documents = encode_corpus([a.text for a in data.arguments], model, cache_dir=cache)
    return documents, encode_corpus(asked, model, cache_dir=cache)


def clusters(spread: float) -> tuple[Any, Any]:
    """Vectors that are drawn, and queries near some of them: each is pushed half its length aside."""
    documents = drawn(DRAWN, spread=spread)
    near = documents[np.random.default_rng(1).permutation(DRAWN)[:ASKED]]
    queries = near + np.float32(0.5) * drawn(ASKED, seed=2)
    return documents, queries / np.linalg.norm(queries, axis=1, keepdims=True)


def measure(name: str, documents: Any, queries: Any) -> list[dict[str, Any]]:
    """A row for each kind of index."""
    names = [str(i) for i in range(len(documents))]
    exact = best(queries @ documents.T)
    rows = []
    for label, candidates in (("int8", None), ("binary", 1_000), ("binary", 100)):
        quantised.CANDIDATES = candidates or quantised.CANDIDATES
        index = Int8Index(names, documents) if label == "int8" else BinaryIndex(names, documents)
        found = best(np.concatenate([index.scores(query[None]) for query in queries]))
        recalls = {f"recall_at_{k}": round(recall(found, exact, k), 4) for k in DEPTHS}
        row = {"vectors": name, "documents": len(documents), "queries": len(queries), "index": label}
        row |= {"candidates": candidates, **recalls, "memory": round(index.nbytes / documents.nbytes, 4)}
        rows.append(row)
    return rows


def best(scores: Any) -> Any:
    """int[q, 100]: the best places, best first."""
    most = max(DEPTHS)
    near = np.argpartition(-scores, most, axis=1)[:, :most]
    return np.take_along_axis(near, np.argsort(-np.take_along_axis(scores, near, axis=1), axis=1), axis=1)


def recall(found: Any, exact: Any, k: int) -> float:
    return float(
        np.mean([len(set(a[:k]) & set(b[:k])) / k for a, b in zip(found.tolist(), exact.tolist(), strict=True)])
    )


if __name__ == "__main__":
    main()
