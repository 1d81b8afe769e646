"""Recipes of tiny models on triplets without a conflict, and the adapters that their runs leave."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file

from dataset_builders.instructions import seen_for
from hub_models.recipe import Recipe
from tests.tiny import tiny

CLAIMS = ["cities should ban cars", "sugar should be taxed", "schools should give homework", "nuclear power is safe"]


def triplets(folder: Path, claims: int = 12, rows: int = 4) -> Path:
    """A JSONL of ``claims * rows`` triplets without a conflict but the claim."""
    path = folder / "triplets.jsonl"
    lines = []
    for c in range(claims):
        for r in range(rows):
            stance = ("support", "attack")[r % 2]
            text = f"{CLAIMS[c % 4]} in place {c}"
            row = {"claim_id": f"c{c}", "claim": text, "stance": stance, "instruction": seen_for(stance)[r].text}
            row["positive"] = f"The claim that {text} is {'true' if r % 2 else 'false'}, says reason {r}"
            negative = f"Homework {r} has nothing to do with place {c}"
            lines.append(json.dumps({**row, "negatives": [{"text": negative, "kind": "easy"}]}))
    path.write_text("\n".join(lines) + "\n")
    return path


def recipe(folder: Path, *overrides: str, name: str = "stance-bge-large", rows: int = 4) -> Recipe:
    """12 claims in batches of 4, fp32, no checkpointing: 12 steps an epoch."""
    data = triplets(folder, rows=rows)
    fixed = ["global_batch=4", "accumulation=1", "epochs=1", "precision=fp32", "gradient_checkpointing=false"]
    return tiny(name, f"data={data}", *fixed, "learning_rate=1e-3", *overrides)


def adapter(run: Path) -> dict[str, torch.Tensor]:
    return dict(load_file(run / "adapter_model.safetensors"))


def same(a: Path, b: Path) -> bool:
    left, right = adapter(a), adapter(b)
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


def check_learnt_alike(found: Path, wanted: Path, share: float) -> None:
    """Fail unless both learnt, and no weight of ``found`` is off by more than ``share`` of the largest learnt one."""
    left, right = adapter(found), adapter(wanted)
    learnt = max(float(weights.abs().max()) for name, weights in right.items() if "lora_B" in name)
    assert learnt > 1e-3
    for name, weights in right.items():
        torch.testing.assert_close(left[name], weights, rtol=0, atol=learnt * share)
