"""The gate: a run counts as done only if a stranger's process gets the trained model out of its folder."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

from dataset_builders.leaks import machine_paths
from hub_models import reload

MIN_COSINE = 0.9999
MIN_EFFECT = 1e-6  # largest change of a coordinate that the adapter must make

# Short, long (cut in most models), with white space, in another script: what the trained and the loaded model answer.
PROBE_TEXTS = (
    "Cities should ban private cars.",
    "No.",
    "The claim is false because buses and trains cannot carry everyone who needs to travel at night.",
    "word " * 600,
    "  Two  spaces, a tab\t and a line\nbreak. ",
    "Die Erde ist keine Scheibe; 地球不是平的。",
)


class GateError(RuntimeError):
    """A run did not pass the gate; the message lists every check that failed."""


@dataclass(frozen=True, eq=False)
class Probe:
    """What a model answers: ``embeddings`` of `PROBE_TEXTS` as `reload.embed` gives them, and its settings."""

    embeddings: NDArray[np.float32]
    description: dict[str, Any]
    device: str


def probe(model: SentenceTransformer) -> Probe:
    """Ask the trained model what the loaded one will be asked."""
    model.eval()
    return Probe(reload.embed(model, list(PROBE_TEXTS)), reload.describe(model), model.device.type)


def gate(run_dir: Path, trained: Probe, *, check_paths: bool = True) -> None:
    """Load ``run_dir`` in a fresh process, offline, and compare it with the trained model.

    Args:
        run_dir: The folder as it would be released.
        trained: `probe` of the model that the trainer holds.
        check_paths: Whether a path of this machine in any file is a fault; False where the base itself is a folder.

    Raises:
        GateError: If the folder does not load, embeddings differ (cosine at most .9999), a setting differs, the
            adapter is zero or without effect, or a file names a path of this machine.
    """
    faults = _zero_adapter(run_dir)
    if check_paths:
        faults += [f"{file} names a path of this machine: {found!r}" for file, found in machine_paths(run_dir)]
    try:
        with_adapter, without, description = _reload(run_dir, trained.device)
    except GateError as error:
        raise GateError("; ".join([*faults, str(error)])) from None
    for key, value in trained.description.items():
        if description[key] != value:
            faults.append(f"{key} was {value!r} in training and is {description[key]!r} when loaded")
    if with_adapter.shape != trained.embeddings.shape:
        faults.append(f"embeddings had shape {trained.embeddings.shape} and have {with_adapter.shape} when loaded")
    else:
        cosine = float((with_adapter * trained.embeddings).sum(axis=1).min())
        if not cosine > MIN_COSINE:
            faults.append(f"an embedding has cosine {cosine:.6f} to the trained one, wanted above {MIN_COSINE}")
    if not np.abs(with_adapter - without).max() > MIN_EFFECT:
        faults.append("the adapter has no effect: with and without it the embeddings are the same")
    if faults:
        raise GateError("; ".join(faults))


def _reload(run_dir: Path, device: str) -> tuple[NDArray[np.float32], NDArray[np.float32], dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "probe.npz"
        # -P: the script's own folder stays off the path, so that it finds no module of this project beside it.
        done = subprocess.run(
            [sys.executable, "-P", reload.__file__, str(run_dir.resolve()), str(out)],
            input=json.dumps({"texts": PROBE_TEXTS, "device": device}),
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            cwd=folder,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            base = json.loads((run_dir / "adapter_config.json").read_text())["base_model_name_or_path"]
            raise GateError(
                f"the folder (base {base}) does not load in a fresh process, offline: {_last_error(done.stderr)}"
            )
        with np.load(out) as answer:
            return answer["with_adapter"], answer["without"], json.loads(str(answer["description"]))


def _last_error(stderr: str) -> str:
    """The message that a traceback ends with, which may run over several lines."""
    lines = stderr.strip().splitlines() or ["no message"]
    starts = [i for i, line in enumerate(lines) if re.match(r"[\w.]*(Error|Exception)\b", line)]
    return " ".join(lines[starts[-1] if starts else -1 :])


def _zero_adapter(run_dir: Path) -> list[str]:
    path = run_dir / "adapter_model.safetensors"
    if not path.is_file():
        return ["there is no adapter_model.safetensors"]
    norms = {name: float(w.abs().max()) for name, w in load_file(path).items() if "lora_B" in name}
    zero = [name for name, norm in norms.items() if not norm > 0]
    if zero or not norms:
        return [f"{len(zero)} of {len(norms)} adapter matrices are zero or not finite, such as {zero[:2]}"]
    return []
