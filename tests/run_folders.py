"""Run folders as training leaves them, and results files as evaluation does, without either."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dataset_builders.instructions import query_prefix, seen_for
from hub_models.manifest import Manifest
from hub_models.recipe import load_recipe

TEMPLATE = "Instruct: {instruction}\nQuery: {claim}"
DATA = {
    "name": "sample-stance-triplets",
    "config": "mixed_aug",
    "sha256": "b" * 64,
    "rows": 4800,
    "licence": "cc-by-4.0",
    "source": "sample",
}


def fields(**changes: Any) -> dict[str, Any]:
    """A manifest's, good ones unless changed; a copy each time."""
    return {
        "name": "stance-minilm-lora",
        "status": "trained",
        "base": "sentence-transformers/all-MiniLM-L6-v2",
        "base_revision": "8b3219a92973c328a8e22fadcfa821b5dc75636a",
        "base_licence": "apache-2.0",
        "query_template": TEMPLATE,
        "prompts": {
            **{stance: query_prefix(TEMPLATE, seen_for(stance)[0].text) for stance in ("support", "attack")},
            "query": "",
            "document": "",
        },
        "max_seq_length": 256,
        "pooling": "mean",
        "seed": 0,
        "recipe_sha256": "a" * 64,
        "data": [dict(DATA)],
        "adapter_sha256": "c" * 64,
        "steps": 300,
        "train_loss": 1.25,
        "versions": {"python": "3.11.9", "torch": "2.13.0"},
        **changes,
    }


def manifest(**changes: Any) -> Manifest:
    return Manifest(**fields(**changes))


def metric(mean: float | None) -> dict[str, Any]:
    return (
        {"mean": mean, "std": 0.25, "n": 70}
        if mean is not None
        else {"mean": None, "std": None, "n": 0, "reason": "none"}
    )


def results(**changes: Any) -> dict[str, Any]:
    def means(p: float) -> dict[str, Any]:
        return {
            "ndcg_at_10": metric(p + 0.05),
            "precision_at_r": metric(p),
            "hard_at_r": metric(0.1),
            "semi_hard_at_r": metric(0.875 - p),
            "easy_at_r": metric(0.025),
        }

    run = {"params": {}, "seed": None, "compare": [], "diagnostics": {}, "timing": {}}
    run["per_query"] = {"path": "per_query/x.parquet", "sha256": "d" * 64}
    dense = {s: means(p) for s, p in [("overall", 0.5), ("style=explicit", 0.625), ("style=natural", 0.375)]}
    for slice_metrics in dense.values():
        slice_metrics["stance_oracle_precision_at_r"] = metric(0.6875)
    comparison = {"baseline": "org/base", "slice": "overall", "metric": "precision_at_r", "delta": 0.125}
    comparison |= {"low": 0.0625, "high": 0.1875, "level": 0.95, "unit": "claim", "n_units": 14}
    comparison |= {"resamples": 2000, "seed": 0, "p": 0.01}
    task = {
        "dataset": "sample-stance-arguments",
        "revision": "e" * 64,
        "query_template": TEMPLATE,
        "counts": {
            "split": "test",
            "claims": 14,
            "documents": 240,
            "style": {"explicit": {"documents": 130}, "natural": {"documents": 110}},
        },
        "runs": [
            {**run, "strategy": "dense", "slices": dense, "compare": [comparison]},
            {**run, "strategy": "claim_only", "slices": {"overall": means(0.4375)}},
        ],
    }
    return {
        "schema_version": 1,
        "model": {"id": "runs/x", "revision": None, "base": None, "base_revision": None, "adapter_sha256": "c" * 64},
        "environment": {"python": "3.11.9"},
        "tasks": {"sample-stance": task},
        **changes,
    }


def run_folder(folder: Path, measured: dict[str, Any] | None = None, **changes: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    manifest(**changes).write(folder)
    base = changes.get("base", "sentence-transformers/all-MiniLM-L6-v2")
    recipe = load_recipe("stance-minilm", [f"base={base}", f"data={folder / 'my.jsonl'}"])
    (folder / "recipe.yaml").write_text(recipe.to_yaml())
    if measured is not None:
        (folder / "evaluation").mkdir(exist_ok=True)
        (folder / "evaluation" / "results.json").write_text(json.dumps(measured))
    return folder
