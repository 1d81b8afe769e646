"""Read a published data set back as a stranger would: plain ``load_dataset``, a fresh process, an empty cache."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from huggingface_hub import constants

from dataset_builders.folder import rows_sha256, shards
from dataset_builders.hub_errors import HubError

logger = logging.getLogger(__name__)

ATTEMPTS = 2  # the clients retry most of their calls, and not a download that breaks at the start
_ID = re.compile(r"(?:.*[_-])?id")

Prints = dict[str, dict[str, dict[str, Any]]]
"""``prints[config][split]``: number of rows, SHA-256 of the ids, SHA-256 of all rows."""


def fingerprint(table: pa.Table) -> dict[str, Any]:
    """What two readings of one split must agree in."""
    ids = table.select([name for name in table.column_names if _ID.fullmatch(name)])
    return {"rows": table.num_rows, "ids": rows_sha256(ids), "sha256": rows_sha256(table)}


def of_folder(folder: Path, configs: Collection[str]) -> Prints:
    """The prints of some configs of a dataset folder, read as it lies."""
    return {
        config: {
            split: fingerprint(pa.concat_tables(pq.read_table(file, partitioning=None) for file in files))
            for split, files in splits.items()
        }
        for config, splits in shards(folder).items()
        if config in configs
    }


def compare(repo_id: str, revision: str, wanted: Prints, default: str) -> None:
    """Load every config of a revision and hold it against what was staged.

    Args:
        repo_id: Of the data set.
        revision: The commit.
        wanted: From `of_folder`.
        default: The config that must be loaded where none is named.

    Raises:
        HubError: Naming the config and split that differ, or why it cannot be loaded.
    """
    got = _load(repo_id, revision, list(wanted))
    faults = []
    for config, splits in {**wanted, "": wanted[default]}.items():
        where = config or "no config named"
        for split in sorted(splits.keys() | got[config].keys()):
            ours, theirs = splits.get(split), got[config].get(split)
            if ours != theirs:
                faults.append(f"{where}, {split}: got {theirs}, wanted {ours}")
    if faults:
        raise HubError(
            f"{repo_id} was committed as {revision[:12]}, but what load_dataset gives differs from what was built: "
            f"{'; '.join(faults[:3])}; publish again, and report it if it stays so"
        )


def _load(repo_id: str, revision: str, configs: list[str]) -> Prints:
    question = json.dumps({"repo_id": repo_id, "revision": revision, "configs": configs})
    for attempt in range(1, ATTEMPTS + 1):
        with tempfile.TemporaryDirectory(prefix="slant-readback-") as home:
            done = subprocess.run(
                [sys.executable, "-m", "dataset_builders.readback"],
                input=question,
                env=environment(Path(home)),
                cwd=home,  # a folder here that is called like the repository would be loaded in its place
                capture_output=True,
                text=True,
                errors="replace",  # a library may write what this locale cannot read
            )
        if done.returncode == 0:
            found: Prints = json.loads(done.stdout.splitlines()[-1])
            return found
        why = (done.stderr.strip().splitlines() or ["no message"])[-1]
        logger.warning("reading %s back failed (attempt %d of %d): %s", repo_id, attempt, ATTEMPTS, why)
    raise HubError(
        f"{repo_id} was committed as {revision[:12]}, but cannot be read back ({why[:300]}); run this again: it "
        "commits nothing that is there already"
    )


def environment(home: Path) -> dict[str, str]:
    """This process's variables for a fresh one that finds an empty cache in ``home``, and this package."""
    caches = (
        "HF_HUB_CACHE",
        "HUGGINGFACE_HUB_CACHE",
        "HF_DATASETS_CACHE",
        "HF_XET_CACHE",
        "HF_ASSETS_CACHE",
        "XDG_CACHE_HOME",
    )
    kept: Mapping[str, str] = {key: value for key, value in os.environ.items() if key not in caches}
    package = str(Path(__file__).resolve().parents[1])
    return {
        **kept,
        "HF_HOME": str(home),
        "HF_TOKEN_PATH": constants.HF_TOKEN_PATH,  # where `hf auth login` left it
        "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")])),
    }


def main() -> None:
    """The fresh process: a question as JSON on stdin, the prints as JSON on the last line of stdout."""
    from datasets import load_dataset

    question = json.load(sys.stdin)
    found: Prints = {}
    for config in [*question["configs"], ""]:
        loaded = load_dataset(question["repo_id"], config or None, revision=question["revision"])
        found[config] = {split: fingerprint(data.with_format("arrow")[:]) for split, data in loaded.items()}
    sys.stdout.write(f"\n{json.dumps(found)}\n")


if __name__ == "__main__":
    main()
