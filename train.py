"""Train an adapter: ``python train.py --recipe stance-minilm``.

Several processes: ``torchrun --nproc_per_node 2 train.py …`` or ``accelerate launch train.py …``.
"""

from __future__ import annotations

from hub_models.hub_cache import use_project_cache

use_project_cache()  # before anything imports the Hub clients

import argparse  # noqa: E402
import logging  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

from hub_models.recipe import load_recipe, recipe_names  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument(
    "--recipe", default="stance-minilm", help=f"a YAML file or one of {', '.join(recipe_names())} (stance-minilm)"
)
parser.add_argument(
    "--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE", dest="overrides",
    help="override fields of the recipe: --set base=org/encoder data=my.jsonl lora.r=8",
)  # fmt: skip
parser.add_argument("--out", type=Path, help="the run folder (runs/NAME-HASH)")


def main() -> int:
    arguments = parser.parse_args()
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    if os.environ.get("RANK", "0") == "0":
        logging.getLogger("hub_models").setLevel(logging.INFO)
        logging.getLogger("dataset_builders").setLevel(logging.INFO)
    try:
        recipe = load_recipe(arguments.recipe, arguments.overrides)
        from hub_models.training import train  # late: a misspelt recipe is told at once

        train(recipe, arguments.out)
    except (ValueError, OSError, RuntimeError) as error:
        logging.getLogger().error("error: %s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
