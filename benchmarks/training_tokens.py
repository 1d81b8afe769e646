"""How many tokens, padding left out, a recipe's training run encodes: the budget that curricula are compared at.

``python benchmarks/training_tokens.py seed=0 data.0.config=mixed_aug`` takes the overrides of ``train.py --set`` and
prints one JSON object; nothing is trained.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hub_models.hub_cache import ensure_base, use_project_cache

use_project_cache()

from hub_models import training_data  # noqa: E402
from hub_models.base import load_base  # noqa: E402
from hub_models.batching import DistinctClaimBatchSampler  # noqa: E402
from hub_models.recipe import load_recipe  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
parser.add_argument("--recipe", default="stance-minilm")


def main() -> None:
    arguments = parser.parse_args()
    recipe = load_recipe(arguments.recipe, arguments.overrides)
    ensure_base(recipe.base)
    tokenizer = load_base(recipe).tokenizer

    @functools.cache
    def length(text: str) -> int:
        return len(tokenizer(text, truncation=True, max_length=recipe.max_seq_length)["input_ids"])

    rows = training_data.read(recipe)
    columns = rows.columns(recipe.query_template, recipe.negatives_per_anchor)
    of_row = [sum(length(text) for text in row.values()) for row in columns]
    epochs = math.ceil(recipe.epochs)
    batches = DistinctClaimBatchSampler(
        columns, recipe.global_batch, seed=recipe.seed, keys=rows.keys(), epochs=epochs
    )
    tokens = steps = 0
    for epoch in range(epochs):
        batches.set_epoch(epoch)
        for step in batches:
            steps += 1
            tokens += sum(of_row[i] for i in step)
    print(json.dumps({"overrides": arguments.overrides, "steps": steps, "tokens": tokens}, allow_nan=False))


if __name__ == "__main__":
    main()
