"""The gate: a run counts as done only if a stranger's process gets the trained model out of its folder."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from peft import get_peft_model_state_dict
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

from dataset_builders.atomic import write_bytes
from dataset_builders.leaks import machine_paths
from hub_models import reload
from hub_models.manifest import FILE_NAME, Manifest

PROBE_NAME = "probe.safetensors"  # what the trained model answered, kept with it: any later copy is held against it

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
    """What a model answers.

    Attributes:
        embeddings: float32[prompts * texts, d], `texts` as `reload.embed` gives them.
        description: Its settings, see `reload.describe`.
        device: Where it answered.
        weights: SHA-256 over the adapter's tensors; None for a model without one.
        texts: What it was asked.
    """

    embeddings: NDArray[np.float32]
    description: dict[str, Any]
    device: str
    weights: str | None
    texts: tuple[str, ...] = PROBE_TEXTS

    def write(self, folder: Path) -> None:
        """Keep it in ``folder``; the same answers give the same bytes."""
        facts = {k: getattr(self, k) for k in ("description", "device", "weights", "texts")}
        # One key: the order of several would differ from call to call.
        content = save({"embeddings": self.embeddings}, {"probe": json.dumps(facts, sort_keys=True)})
        write_bytes(folder / PROBE_NAME, content)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """What `write` has kept.

        Raises:
            FileNotFoundError: If there is none.
            ValueError: If it cannot be read.
        """
        path = folder / PROBE_NAME
        if not path.is_file():
            raise FileNotFoundError(
                f"{path} does not exist: nothing says what the trained model answered; train again, which writes it"
            )
        try:
            with safe_open(path, "numpy") as file:
                facts = json.loads(file.metadata()["probe"])
                return cls(file.get_tensor("embeddings"), **{**facts, "texts": tuple(facts["texts"])})
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is damaged ({error}); restore it or train again") from None

    def faults(self, embeddings: NDArray[np.float32], description: Mapping[str, Any]) -> list[str]:
        """In what a loaded model differs, in words."""
        faults = [
            f"{key} was {value!r} in training and is {description[key]!r} when loaded"
            for key, value in self.description.items()
            if description[key] != value
        ]
        if embeddings.shape != self.embeddings.shape:
            shapes = f"{self.embeddings.shape} and have {embeddings.shape}"
            return [*faults, f"embeddings had shape {shapes} when loaded"]
        cosine = float((embeddings * self.embeddings).sum(axis=1).min())
        if not cosine > MIN_COSINE:
            faults.append(f"an embedding has cosine {cosine:.6f} to the trained one, wanted above {MIN_COSINE}")
        return faults


def probe(model: SentenceTransformer) -> Probe:
    """Ask the trained model what the loaded one will be asked."""
    model.eval()
    transformer = model.transformers_model
    weights = None
    if getattr(transformer, "peft_config", None):
        weights = _digest(get_peft_model_state_dict(transformer, save_embedding_layers=False))
    return Probe(reload.embed(model, list(PROBE_TEXTS)), reload.describe(model), model.device.type, weights)


def _digest(tensors: Mapping[str, torch.Tensor]) -> str:
    """SHA-256 over names and bytes, whatever the order and the prefix that peft's files give the names."""
    digest = hashlib.sha256()
    for name, tensor in sorted((n.removeprefix("base_model.model."), t) for n, t in tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\0".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


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
    faults = _weights(run_dir, trained)
    if check_paths:
        faults += [f"{file} names a path of this machine: {found!r}" for file, found in machine_paths(run_dir)]
    try:
        with_adapter, without, description = _reload(run_dir, trained.device)
    except GateError as error:
        raise GateError("; ".join([*faults, str(error)])) from None
    faults += trained.faults(with_adapter, description)
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
            input=json.dumps({"texts": PROBE_TEXTS, "device": device, "trust_remote_code": runs_code(run_dir)}),
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",  # a library may write what this locale cannot read
        )
        if done.returncode:
            base = json.loads((run_dir / "adapter_config.json").read_bytes())["base_model_name_or_path"]
            raise GateError(
                f"the folder (base {base}) does not load in a fresh process, offline: {last_error(done.stderr)}"
            )
        with np.load(out) as answer:
            return answer["with_adapter"], answer["without"], json.loads(str(answer["description"]))


def runs_code(run_dir: Path) -> bool:
    """Whether the run was trained on a base with code of its own, as its recipe had to say by name."""
    path = run_dir / FILE_NAME
    return path.is_file() and Manifest.read(run_dir).code_revision is not None


def last_error(stderr: str) -> str:
    """The message that a traceback ends with, which may run over several lines."""
    lines = stderr.strip().splitlines() or ["no message"]
    starts = [i for i, line in enumerate(lines) if re.match(r"[\w.]*(Error|Exception)\b", line)]
    return " ".join(lines[starts[-1] if starts else -1 :])


def _weights(run_dir: Path, trained: Probe) -> list[str]:
    path = run_dir / "adapter_model.safetensors"
    if not path.is_file():
        return ["there is no adapter_model.safetensors"]
    try:
        tensors = load_file(path)
    except SafetensorError as error:
        return [f"adapter_model.safetensors is damaged ({error})"]
    faults = []
    if trained.weights != _digest(tensors):
        faults.append("adapter_model.safetensors does not hold the weights that were trained")
    norms = {name: float(w.abs().max()) for name, w in tensors.items() if "lora_B" in name}
    zero = [name for name, norm in norms.items() if not norm > 0]
    if zero or not norms:
        faults.append(f"{len(zero)} of {len(norms)} adapter matrices are zero or not finite, such as {zero[:2]}")
    return faults
