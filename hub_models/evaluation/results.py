"""results.json, version 1: the one place from which cards, README and Space take their numbers.

One file, one model. Strict JSON: a number that could not be computed is null and carries a reason. Written by rename,
so a killed run leaves the old file or the new one. Beside it lie per-query values as parquet, named with their
SHA-256.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dataset_builders.atomic import write_bytes
from dataset_builders.description import read_description

SCHEMA_VERSION = 1
RESULTS_NAME = "results.json"

Strategy = Literal["dense", "claim_only", "hybrid", "rerank", "bm25", "random", "rewrite", "oracle_tournament"]

_VERSIONS_OF = ("slant", "torch", "transformers", "sentence-transformers", "peft", "numpy")
_ROOT = Path(__file__).resolve().parents[2]


class Part(BaseModel):
    """A part of a results file: an unknown key, NaN or infinity is an error."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Metric(Part):
    """A mean over queries with the sample std (n - 1) over the same queries. A null says why in ``reason``."""

    mean: float | None
    std: float | None
    n: int = Field(ge=0)
    reason: str | None = None

    @model_validator(mode="after")
    def _explained(self) -> Self:
        if (self.mean is None or self.std is None) and not self.reason:
            raise ValueError("a mean or std of null needs a reason")
        return self

    @classmethod
    def over(cls, values: NDArray[np.float64]) -> Self:
        """Mean and std of per-query values; of nothing, or of one value, null and a reason."""
        n = len(values)
        if not n:
            return cls(mean=None, std=None, n=0, reason="no query has a relevant document")
        mean = float(np.mean(values))
        if not math.isfinite(mean):
            return cls(mean=None, std=None, n=n, reason="a query's value is not finite")
        if n == 1:
            return cls(mean=mean, std=None, n=1, reason="the std of a single query is not defined")
        return cls(mean=mean, std=float(np.std(values, ddof=1)), n=n)


class Comparison(Part):
    """A paired difference to a baseline on the same queries; the interval resamples ``unit``."""

    baseline: str
    slice: str
    metric: str
    delta: float
    low: float | None
    high: float | None
    level: float
    unit: str
    n_units: int
    resamples: int
    seed: int
    p: float | None
    reason: str | None = None

    @model_validator(mode="after")
    def _explained(self) -> Self:
        if (self.low is None or self.high is None or self.p is None) and not self.reason:
            raise ValueError("an interval or p of null needs a reason")
        return self

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval says which of the two is better."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


class PerQuery(Part):
    """Where the per-query values lie, relative to results.json, and the SHA-256 of that file."""

    path: str
    sha256: str


class RunResult(Part):
    """One way of searching, measured."""

    strategy: Strategy
    params: dict[str, Any]
    seed: int | None
    slices: dict[str, dict[str, Metric]]
    compare: list[Comparison]
    diagnostics: dict[str, Any]
    per_query: PerQuery
    timing: dict[str, float]

    def mean(self, slice_name: str, metric: str) -> float | None:
        """The mean of a metric over a slice, or None where it was not computed."""
        found = self.slices.get(slice_name, {}).get(metric)
        return None if found is None else found.mean


class TaskResult(Part):
    """One task's runs on one state of its data."""

    dataset: str
    revision: str
    query_template: str
    counts: dict[str, Any]
    runs: list[RunResult]

    def run(self, strategy: Strategy, params: Mapping[str, Any] | None = None) -> RunResult | None:
        """The run of that strategy and setting, without ``params`` the first of that strategy, or None."""
        return next((r for r in self.runs if r.strategy == strategy and params in (None, r.params)), None)


class ModelInfo(Part):
    """Which weights were measured."""

    id: str
    revision: str | None
    base: str | None
    base_revision: str | None
    adapter_sha256: str | None


class Results(Part):
    """The whole file."""

    schema_version: Literal[1] = 1
    model: ModelInfo
    environment: dict[str, Any]
    tasks: dict[str, TaskResult]

    def write(self, path: Path) -> None:
        """Write strict JSON by rename.

        Raises:
            ValueError: If a number in a free-form part is NaN or infinite, naming its place.
        """
        content = self.model_dump(mode="python", exclude_none=False)
        _drop_empty_reasons(content)
        _check_finite(content, "results")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read and check a results file.

        Raises:
            FileNotFoundError: If it is not there.
            ValueError: If it is too large, no strict JSON, of another version, or lacks a field.
        """
        if not path.exists():
            raise FileNotFoundError(
                f"{path}: no results file; write one with `python evaluate.py --model … --tasks …`"
            )
        text = read_description(path)
        try:
            content = json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}: no strict JSON ({error}); evaluate anew") from error
        version = content.get("schema_version") if isinstance(content, dict) else None
        if version != SCHEMA_VERSION:
            raise ValueError(f"{path}: got schema_version {version!r}, wanted {SCHEMA_VERSION}; evaluate anew")
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            places = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:5])
            raise ValueError(
                f"{path}: not a results file of version {SCHEMA_VERSION} ({places}); evaluate anew"
            ) from error


def write_per_query(folder: Path, name: str, columns: Mapping[str, Sequence[Any] | NDArray[Any]]) -> PerQuery:
    """Write per-query values to ``folder/per_query/name.parquet`` and return its reference."""
    path = folder / "per_query" / f"{name}.parquet"
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(dict(columns)), sink, compression="zstd")
    content = sink.getvalue().to_pybytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, content)
    return PerQuery(path=path.relative_to(folder).as_posix(), sha256=hashlib.sha256(content).hexdigest())


def read_per_query(folder: Path, reference: PerQuery) -> pa.Table:
    """Read per-query values back, checking that they are the ones the results speak of.

    Raises:
        FileNotFoundError: If the file is not there.
        ValueError: If its SHA-256 is another.
    """
    path = folder / reference.path
    if not path.exists():
        raise FileNotFoundError(f"{path}: the per-query values are not there; evaluate anew")
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != reference.sha256:
        raise ValueError(f"{path}: got SHA-256 {found}, wanted {reference.sha256}; evaluate anew")
    return pq.read_table(pa.BufferReader(content))


def environment(device: str) -> dict[str, Any]:
    """What the numbers were computed with: versions, device, the code's commit and hash; no name of the machine."""
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()}-{platform.machine()}",
        "device": device,
        "versions": {name: _version(name) for name in _VERSIONS_OF},
        "git": _git_commit(),
        "code_sha256": code_sha256(),
    }


def code_sha256() -> str:
    """SHA-256 over the source of both packages: finished results are reused only by the code that made them."""
    digest = hashlib.sha256()
    for package in ("dataset_builders", "hub_models"):
        for path in sorted((_ROOT / package).rglob("*.py")):
            digest.update(path.relative_to(_ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git_commit() -> str | None:
    """The commit of the checkout, with ``-dirty`` where files differ from it; None outside a checkout."""
    if not (_ROOT / ".git").exists():  # installed: a repository around the environment is not ours
        return None
    try:
        described = subprocess.run(
            ["git", "-C", str(_ROOT), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip()


def _drop_empty_reasons(value: Any) -> None:
    if isinstance(value, dict):
        if value.get("reason", "") is None:
            del value["reason"]
        for inner in value.values():
            _drop_empty_reasons(inner)
    elif isinstance(value, list):
        for inner in value:
            _drop_empty_reasons(inner)


def _check_finite(value: Any, place: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{place}: got {value}, wanted a finite number, or null and a reason")
    if isinstance(value, dict):
        for key, inner in value.items():
            _check_finite(inner, f"{place}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _check_finite(inner, f"{place}[{index}]")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"holds {name}")
