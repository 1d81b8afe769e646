"""``slant.json``: what a release folder must say and plain sentence-transformers loading cannot hold."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    JsonValue,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    model_validator,
)

from dataset_builders.atomic import write_text
from dataset_builders.description import read_description
from dataset_builders.leaks import is_machine_path as is_machine_path  # it is part of what a manifest means
from dataset_builders.lock import locked
from dataset_builders.text import did_you_mean, shown

FILE_NAME = "slant.json"
ADAPTER_NAME = "adapter_model.safetensors"

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def adapter_sha256(run_dir: Path) -> str:
    """SHA-256 of the adapter's file, in hexadecimal."""
    with (run_dir / ADAPTER_NAME).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_adapter(run_dir: Path, wanted: str) -> None:
    """See to it that the adapter in ``run_dir`` is the one that its ``slant.json`` names.

    Raises:
        ValueError: If its SHA-256 is not ``wanted``.
    """
    if (got := adapter_sha256(run_dir)) != wanted:
        raise ValueError(
            f"{run_dir / ADAPTER_NAME}: got SHA-256 {got}, wanted {wanted} as {FILE_NAME} says; the file was changed "
            "or damaged after training: restore it or train again"
        )


class TrainingData(BaseModel):
    """One data set that a run was trained on.

    Attributes:
        name: Hub id or bare name such as ``sample-stance-triplets``; for a file of the user's its name, never a path.
        config: The config, such as ``mixed_aug``; None where the data has none.
        sha256: Over the rows that were used, not over the parquet bytes.
        rows: How many rows were used.
        licence: SPDX-like id in lower case, ``unknown`` where nobody said.
        source: The upstream that the rows come from, such as ``sample``.
        revision: Commit of a Hub data set whose rows these are; None for others.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1)
    config: str | None
    sha256: Sha256
    rows: PositiveInt
    licence: str = Field(min_length=1)
    source: str = Field(min_length=1)
    revision: str | None = None

    @model_validator(mode="after")
    def _no_path(self) -> Self:
        for key in ("name", "source"):
            if is_machine_path(value := getattr(self, key)):
                raise ValueError(f"data {key} {value!r} is a path of this machine; give the file's name or a Hub id")
        return self


class Manifest(BaseModel):
    """The content of ``slant.json``.

    Attributes:
        schema_version: 1.
        name: Name of the model, ``{recipe}-lora`` or ``{recipe}-{curriculum}-lora``.
        repo_id: Hub id of the release, None until it has one.
        tag: Tag of the release, None until it has one.
        status: ``trained`` once the gate has passed, ``local`` where it has but for the base, which is a folder (a
            release then asks for its Hub id), ``failed`` otherwise, `failure` saying why.
        failure: Why the run does not count as done; None unless it failed.
        base: Hub id of the base model; a folder in a ``local`` or ``failed`` run only.
        base_revision: Commit of the base; None where it is not known.
        base_licence: Licence of the base; None where it is not known.
        query_template: How an instruction and a claim become a query, ending in ``{claim}``.
        prompts: The prompts that the folder carries: ``support``, ``attack``, ``query``, ``document``; of an oblique
            model the tasks' in place of the first two.
        max_seq_length: Tokens after which a text is cut.
        max_query_length: Tokens after which a query of an oblique search is cut, where that is earlier.
        code_revision: Commit of the base whose own code loading runs; None where it runs none.
        pooling: Pooling mode, such as ``mean``, ``cls`` or ``lasttoken``.
        seed: Seed of the run.
        recipe_sha256: Hash of the resolved recipe.
        data: What it was trained on.
        adapter_sha256: Hash of ``adapter_model.safetensors``.
        steps: Optimiser steps taken.
        train_loss: Mean training loss, None where none was logged.
        versions: Version by package, with ``python``.
        lambda_model, rerank_policy: For search that tunes itself, where there is one.
        adapter_scale, anchor_weight: For encoders that blend the adapter with its base, where they do.
        results_sha256: Hash of the results file that the card's numbers come from.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    name: str = Field(min_length=1)
    repo_id: str | None = None
    tag: str | None = None
    status: Literal["trained", "local", "failed"]
    failure: str | None = None
    base: str = Field(min_length=1)
    base_revision: str | None
    base_licence: str | None
    query_template: str
    prompts: dict[str, str]
    max_seq_length: PositiveInt
    pooling: str
    seed: NonNegativeInt
    recipe_sha256: Sha256
    data: tuple[TrainingData, ...]
    adapter_sha256: Sha256
    steps: NonNegativeInt
    train_loss: FiniteFloat | None
    versions: dict[str, str]
    max_query_length: PositiveInt | None = None
    code_revision: str | None = None
    lambda_model: dict[str, JsonValue] | None = None
    rerank_policy: dict[str, JsonValue] | None = None
    adapter_scale: FiniteFloat | None = None
    anchor_weight: FiniteFloat | None = None
    results_sha256: Sha256 | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.status == "failed") != (self.failure is not None):
            raise ValueError(
                f"status {self.status!r} with failure {self.failure!r}: a failed run says why, no other does"
            )
        if self.status == "trained" and is_machine_path(self.base):
            raise ValueError(
                f"base {self.base!r} is a path of this machine, so status 'trained' would publish it; "
                "give the base by its Hub id, or write status 'local'"
            )
        return self

    @property
    def family(self) -> Literal["stance", "oblique"]:
        """Which kind of search the model is for, as its prompts say."""
        return "stance" if "attack" in self.prompts else "oblique"

    @classmethod
    def read(cls, run_dir: Path | str) -> Self:
        """Read ``run_dir/slant.json``.

        Raises:
            FileNotFoundError: If there is none.
            ValueError: If it is too large or no JSON, or a key is unknown, missing or of the wrong type.
        """
        path = Path(run_dir) / FILE_NAME
        try:
            text = read_description(path)
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{path} does not exist: this is no run folder of train.py; give one such as runs/quickstart"
            ) from None
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is no JSON ({error}); restore it or train again") from None
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            raise ValueError(f"{path}: {_explain(error, cls)}") from None

    def write(self, run_dir: Path | str) -> None:
        """Write ``run_dir/slant.json`` atomically, keys in the order of this class.

        Raises:
            FileNotFoundError: If ``run_dir`` does not exist.
            ValueError: If a field set by ``model_copy`` breaks a rule of this class.
        """
        type(self).model_validate(self.model_dump())  # model_copy(update=...) does not check
        content = json.dumps(self.model_dump(mode="json"), indent=2, ensure_ascii=False, allow_nan=False)
        write_text(Path(run_dir) / FILE_NAME, content + "\n")

    @classmethod
    def update(cls, run_dir: Path, change: Callable[[Self], Mapping[str, Any]]) -> None:
        """Change fields of ``run_dir/slant.json``, and lose nothing that another process changes meanwhile.

        Args:
            run_dir: The run.
            change: From what stands there to the fields that are to change.

        Raises:
            FileNotFoundError: If there is no ``slant.json``.
            ValueError: If it is damaged, or a new field breaks a rule of this class.
        """
        cls.read(run_dir)  # no lock file in a folder that is no run
        with locked(run_dir / f".{FILE_NAME}.lock", wait=True):
            there = cls.read(run_dir)
            there.model_copy(update=dict(change(there))).write(run_dir)


def _explain(error: ValidationError, model: type[BaseModel]) -> str:
    parts = []
    for item in error.errors(include_url=False):
        where = ".".join(str(p) for p in item["loc"]) or "the file"
        hint = ""
        if item["type"] == "extra_forbidden":
            fields = TrainingData.model_fields if item["loc"][0] == "data" else model.model_fields
            hint = did_you_mean(str(item["loc"][-1]), fields)
        parts.append(f"{where}: {item['msg']} (got {shown(item['input'])}).{hint}" if item["loc"] else item["msg"])
    return "; ".join(parts)
