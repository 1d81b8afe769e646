"""A model as one ONNX graph, from token ids to the sentence's vector, and how far its vectors are from torch's."""

from __future__ import annotations

import importlib.metadata
import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from dataset_builders.atomic import check_folder
from dataset_builders.lock import locked

logger = logging.getLogger(__name__)

TEXTS = (
    "Cities should ban private cars.",
    "No.",
    "The claim is false because buses and trains cannot carry everyone who needs to travel at night.",
)
_PACKAGES = ("onnx", "onnxscript", "onnxruntime")


class _Graph(torch.nn.Module):
    """Transformer, pooling, normalisation and whatever else the model holds."""

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.model({"input_ids": input_ids, "attention_mask": attention_mask})[
            "sentence_embedding"
        ]
        return found


def export(model: SentenceTransformer, path: Path) -> None:
    """Write the model as ONNX: ``input_ids`` and ``attention_mask``, int64[B, T], to ``sentence_embedding``.

    Raises:
        ImportError: If onnx and onnxscript are not installed.
        BlockingIOError: If another process writes the file.
        OSError: If its folder cannot be written to, or the disk is full. What was there stays as it was.
    """
    check_folder(path.parent)
    with locked(path.with_name(f".{path.name}.lock")) as mine:
        if not mine:
            raise BlockingIOError(f"{path}: another process writes this file; wait until it is done")
        staged = path.with_name(f".{path.name}.partial")
        shutil.rmtree(staged, ignore_errors=True)  # of a process that was killed
        try:
            program = _program(model)
            staged.mkdir()
            program.save(staged / path.name)
            # The weights of a large model lie beside its graph, and a graph of others must not find them.
            weights = path.with_name(f"{path.name}.data")
            if weights.exists() or (staged / weights.name).exists():
                path.unlink(missing_ok=True)
                weights.unlink(missing_ok=True)
            for file in sorted(staged.iterdir(), key=lambda file: file.name == path.name):
                os.replace(file, path.with_name(file.name))
        finally:
            shutil.rmtree(staged, ignore_errors=True)


def _program(model: SentenceTransformer) -> torch.onnx.ONNXProgram:
    tokens = model.tokenizer(list(TEXTS), padding=True, truncation=True, return_tensors="pt")
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", max=model.max_seq_length)
    program = torch.onnx.export(
        _Graph(model.cpu()).eval(),
        (tokens["input_ids"], tokens["attention_mask"]),
        dynamo=True,
        input_names=["input_ids", "attention_mask"],
        output_names=["sentence_embedding"],
        dynamic_shapes={name: {0: batch, 1: length} for name in ("input_ids", "attention_mask")},
        verbose=False,
    )
    assert program is not None  # so it is with dynamo=True
    return program


def measure(model: SentenceTransformer) -> dict[str, Any]:
    """Export the model, run it with onnxruntime, and compare.

    Returns:
        ``texts``, ``largest_difference`` of a coordinate and the libraries' ``versions``; or ``reason``, why not.
    """
    try:
        versions = {name: importlib.metadata.version(name) for name in _PACKAGES}
        import onnxruntime
    except ImportError as error:
        return {"reason": f"{error.name or error} is not installed"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        try:
            export(model, path)
        except (torch.onnx.OnnxExporterError, NotImplementedError, RuntimeError) as error:
            logger.warning("no ONNX graph of this model: %s", error)
            return {"reason": f"torch.onnx could not export it ({type(error).__name__})"}
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        # Two batches of shapes that the export has not seen.
        gaps = []
        for texts in (list(TEXTS[:1]), [*TEXTS, "word " * 100]):
            tokens = model.tokenizer(texts, padding=True, truncation=True, return_tensors="np")
            given = {name: tokens[name].astype(np.int64) for name in ("input_ids", "attention_mask")}
            (got,) = session.run(["sentence_embedding"], given)
            wanted = model.encode(texts, prompt="", show_progress_bar=False)
            gaps.append(float(np.abs(got - wanted).max()))
    return {"texts": 1 + len(TEXTS) + 1, "largest_difference": max(gaps), "versions": versions}
