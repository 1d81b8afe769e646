"""A recipe: one YAML file, one training run."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from dataset_builders.choices import ObliqueTaskName
from dataset_builders.description import read_description
from dataset_builders.instructions import DEFAULT_QUERY_TEMPLATE, check_template
from dataset_builders.plain_yaml import read_yaml
from dataset_builders.text import did_you_mean, shown

RECIPES = Path(__file__).parent / "recipes"

Pooling = Literal["cls", "mean", "lasttoken"]

# One regular expression per architecture over a module's full path, so that it names neither the pooler (which gets no
# gradient) nor anything outside the encoder; a string also keeps adapter_config.json reproducible, a list does not.
_BERT_TARGETS = (
    r"encoder\.layer\.\d+\."
    r"(attention\.self\.(query|key|value)|attention\.output\.dense|intermediate\.dense|output\.dense)"
)
_DECODER_TARGETS = r"layers\.\d+\.(self_attn\.(q|k|v|o)_proj|mlp\.(gate|up|down)_proj)"
LORA_TARGETS: dict[str, str] = {
    "bert": _BERT_TARGETS,
    "roberta": _BERT_TARGETS,
    "xlm-roberta": _BERT_TARGETS,
    "distilbert": r"transformer\.layer\.\d+\.(attention\.(q|k|v|out)_lin|ffn\.lin[12])",
    "mpnet": r"encoder\.layer\.\d+\.(attention\.attn\.(q|k|v|o)|intermediate\.dense|output\.dense)",
    "modernbert": r"layers\.\d+\.(attn\.(Wqkv|Wo)|mlp\.(Wi|Wo))",
    "t5": r"encoder\.block\.\d+\.layer\.0\.SelfAttention\.(q|k|v|o)",
    "llama": _DECODER_TARGETS,
    "mistral": _DECODER_TARGETS,
    "qwen2": _DECODER_TARGETS,
    "qwen3": _DECODER_TARGETS,
}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Architecture(BaseModel):
    """What `transformers.AutoConfig` needs to build the base without its weights: its type and its dimensions."""

    model_config = ConfigDict(extra="allow", frozen=True, protected_namespaces=())

    model_type: str
    dtype: Literal["float32", "bfloat16", "float16"] = Field(
        default="float32", description="Of the published weights."
    )


class Lora(_Strict):
    """Low-rank adaptation (S appendix C). ``target_modules`` is matched against each module's full path."""

    r: int = Field(gt=0)
    alpha: int = Field(gt=0)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    target_modules: str | None = Field(default=None, description="A regular expression; null: by the architecture.")

    @field_validator("target_modules")
    @classmethod
    def _regular_expression(cls, pattern: str | None) -> str | None:
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise ValueError(f"wanted a regular expression over full module paths: {error}") from None
        return pattern


class Loss(_Strict):
    """Multiple negatives ranking loss, plain or with cached gradients. ``scale`` is one over the temperature."""

    name: Literal["mnrl", "cached_mnrl"] = "mnrl"
    scale: float = Field(default=20.0, gt=0)
    mini_batch: int | None = Field(default=None, gt=0, description="Rows embedded at once; cached_mnrl only.")

    @model_validator(mode="after")
    def _mini_batch_is_for_cached(self) -> Self:
        if (self.mini_batch is not None) != (self.name == "cached_mnrl"):
            raise ValueError(f"loss {self.name} with mini_batch {self.mini_batch}: cached_mnrl wants one, mnrl none")
        return self

    def mini_batch_of(self, batch: int) -> int | None:
        """Rows embedded at once of ``batch`` a process; None for all: cached gradients cost a second pass and save the
        memory of what exceeds a mini-batch, so where nothing does, the plain loss is the same in one pass."""
        return None if self.mini_batch is None or self.mini_batch >= batch else self.mini_batch


class DataEntry(_Strict):
    """One table of training rows, from the Hub (``repo``, ``revision``) or a folder or file (``path``, ``sha256``)."""

    repo: str | None = None
    path: str | None = None
    config: str | None = Field(default=None, description="Null: the default configuration of the data.")
    revision: str | None = Field(default=None, description="Commit of `repo`.")
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$", description="Over the rows of `path`.")
    split: Literal["train", "validation", "test"] = "train"
    task: ObliqueTaskName | None = Field(
        default=None, description="Of oblique rows: take those of this task alone; rows that name none are of it."
    )
    dose: int | None = Field(default=None, gt=0, description="Rows to draw; null: all.")
    mode: Literal["blend", "replace"] = Field(
        default="blend", description="Of style pairs: beside the written queries of their task, or in their place."
    )

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.repo is None) == (self.path is None):
            raise ValueError(f"got repo {self.repo!r} and path {self.path!r}, wanted exactly one of them")
        if self.repo is None and self.revision is not None:
            raise ValueError("`revision` pins a `repo`; a `path` is pinned by `sha256`")
        if self.path is None and self.sha256 is not None:
            raise ValueError("`sha256` pins a `path`; a `repo` is pinned by `revision`")
        return self


class Recipe(_Strict):
    """Base, adapter, loss, batch, schedule and data of one run. See `load_recipe`.

    Attributes:
        base: Hub id or folder of the encoder that is adapted.
        base_revision: Its commit; null where unknown.
        base_licence: Where the base's own card does not say it in the Hub's words; several with " and ".
        pooling: How token vectors become one; null: as the base's own files say.
        dense: Output width of the base's projection after pooling, which stays frozen; null where it has none.
        end_token: The token whose vector last-token pooling reads; appended to each text, also to a truncated one.
        max_seq_length: In tokens; texts are cut there. Never above what the base can take.
        max_query_length: In tokens, template included: where oblique *search* cuts its queries (O 4), at a lower place
            than training does; null: at ``max_seq_length``.
        bidirectional: Refuse a base whose early tokens do not see late ones. The code that makes a decoder look both
            ways may fail to with another version of transformers, without a word.
        trust_remote_code: The Hub id of ``base`` once more, if code from its repository may run here; else null.
        query_template: Formats a query from ``{instruction}`` and ``{claim}``; documents are bare.
        global_batch: Rows that see each other in one step: per-device batch × processes.
        accumulation: Steps whose gradients are summed before the optimiser moves; not part of ``global_batch``.
        negatives_per_anchor: Negatives of its own that each anchor brings along.
        warmup: Share of the optimiser steps over which the learning rate rises, in [0, 1).
        precision: Of the computation. ``auto``: bf16 where the device has units for it, else fp32.
        seed: Of the adapter's start, the sampler and the dropout.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")
    base: str = Field(min_length=1)
    base_revision: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")
    base_licence: str | None = Field(default=None, min_length=1)
    architecture: Architecture | None = None
    pooling: Pooling | None = None
    dense: int | None = Field(default=None, gt=0)
    end_token: str | None = None
    max_seq_length: int = Field(gt=3)
    max_query_length: int | None = Field(default=None, gt=3)
    bidirectional: bool = False
    trust_remote_code: str | None = None
    query_template: str = DEFAULT_QUERY_TEMPLATE
    lora: Lora
    loss: Loss = Loss()
    global_batch: int = Field(gt=1)
    accumulation: int = Field(default=1, gt=0)
    negatives_per_anchor: int = Field(default=1, ge=0)
    epochs: float = Field(gt=0)
    learning_rate: float = Field(gt=0)
    warmup: float = Field(default=0.0, ge=0, lt=1)
    schedule: Literal["linear", "cosine"] = "linear"
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    gradient_checkpointing: bool = False
    seed: int = Field(default=0, ge=0, lt=2**32)  # NumPy's bound
    data: tuple[DataEntry, ...]

    @field_validator("query_template")
    @classmethod
    def _template(cls, template: str) -> str:
        check_template(template)
        return template

    @field_validator("data")
    @classmethod
    def _some_data(cls, data: tuple[DataEntry, ...]) -> tuple[DataEntry, ...]:
        if not data:
            raise ValueError("wanted at least one entry with a `repo` or a `path`")
        return data

    @model_validator(mode="after")
    def _fitting_names_and_lengths(self) -> Self:
        if self.trust_remote_code not in (None, self.base):
            raise ValueError(
                f"got trust_remote_code {self.trust_remote_code!r} for the base {self.base!r}, wanted the base's own "
                "name, whose code is to run, or null"
            )
        if (self.max_query_length or 0) > self.max_seq_length:
            raise ValueError(
                f"got max_query_length {self.max_query_length} above max_seq_length {self.max_seq_length}, wanted at "
                "most that; null cuts queries there"
            )
        return self

    @property
    def replaces(self) -> bool:
        """Whether style pairs take the place of the written queries of their task (O N.1)."""
        return any(entry.mode == "replace" for entry in self.data)

    @property
    def hash(self) -> str:
        """SHA-256 over every field, independent of their order in the file."""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()

    def per_device_batch(self, world_size: int) -> int:
        """Rows per process and step.

        Raises:
            ValueError: If ``world_size`` processes cannot share ``global_batch`` evenly.
        """
        if world_size < 1 or self.global_batch % world_size:
            fits = [n for n in range(1, self.global_batch + 1) if self.global_batch % n == 0]
            raise ValueError(
                f"recipe {self.name}: global_batch {self.global_batch} cannot be shared by {world_size} processes; "
                f"use one of {fits} processes or set global_batch to a multiple of {world_size}"
            )
        return self.global_batch // world_size

    def lora_targets(self, model_type: str) -> str:
        """The regular expression over full module paths that LoRA is put on.

        Raises:
            ValueError: If the recipe names none and ``model_type`` is unknown.
        """
        targets = self.lora.target_modules or LORA_TARGETS.get(model_type)
        if targets is None:
            raise ValueError(
                f"recipe {self.name}: base {self.base} has the architecture {model_type!r}, for which no LoRA modules "
                f"are known (known: {', '.join(LORA_TARGETS)}); set lora.target_modules to a regular expression over "
                f"full module paths, such as {_DECODER_TARGETS!r}"
            )
        return targets

    def to_yaml(self) -> str:
        """The resolved recipe as a file that `load_recipe` reads back to an equal recipe."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


# What describes the base and not the task: another base does not inherit it.
_OF_THE_BASE = (
    *("base_revision", "architecture", "pooling", "dense", "end_token", "query_template"),
    *("base_licence", "bidirectional", "trust_remote_code"),
)


def recipe_names() -> list[str]:
    """The names of the recipes that come with the package, sorted."""
    return sorted(p.stem for p in RECIPES.glob("*.yaml"))


def load_recipe(name_or_path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read and check a recipe.

    Args:
        name_or_path: A name of `recipe_names`, or a YAML file.
        overrides: ``key=value`` with the value in YAML and the key dotted where nested: ``"lora.r=8"``,
            ``"data.0.config=mixed"``. Another ``base`` starts without the old base's revision, architecture, pooling
            and query template. ``data=PATH`` replaces the whole list by that path.

    Raises:
        FileNotFoundError: If there is no such recipe.
        ValueError: If the file is too large, no UTF-8 or no YAML, or if it or an override has an unknown key, a value
            out of range, or lacks a key. All faults are listed at once.

    Example:
        >>> load_recipe("stance-minilm", ["lora.r=8"]).lora.r
        8
    """
    path = Path(name_or_path)
    if str(name_or_path) in recipe_names():
        path = RECIPES / f"{name_or_path}.yaml"
    elif not path.is_file():
        raise FileNotFoundError(
            f"recipe {str(name_or_path)!r}: neither a file nor one of {recipe_names()}."
            f"{did_you_mean(str(name_or_path), recipe_names())}"
        )
    text = read_description(path)
    try:
        raw = read_yaml(text)
    except ValueError as error:
        raise ValueError(f"{path} is no YAML ({error}); repair it") from None
    if not isinstance(raw, dict):
        raise ValueError(f"{path}: got {type(raw).__name__}, wanted the keys and values of a recipe")
    _override(raw, overrides)
    try:
        return Recipe.model_validate(raw)
    except ValidationError as error:
        raise ValueError(f"recipe {name_or_path}: {_explain(error)}") from None


def _override(raw: dict[str, Any], overrides: Sequence[str]) -> None:
    given: dict[str, Any] = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"override {override!r}: wanted key=value, such as learning_rate=1e-4 or lora.r=8")
        given[key.strip()] = _parse(key.strip(), value)
    if given.get("base", raw.get("base")) != raw.get("base"):
        for key in _OF_THE_BASE:
            raw.pop(key, None)
        if isinstance(raw.get("lora"), dict):
            raw["lora"].pop("target_modules", None)
    if isinstance(given.get("data"), str):
        given["data"] = [{"path": given["data"]}]
    for key, value in given.items():
        _set(raw, key, value)


def _parse(key: str, value: str) -> Any:
    try:
        parsed = read_yaml(value)
    except ValueError as error:
        if key == "query_template":
            return value
        raise ValueError(
            f"override {key}={value}: the value is no YAML ({error}); quote it twice if it is a text, "
            f"such as \"{key}='…'\""
        ) from None
    # Its braces look like YAML's.
    return parsed if key != "query_template" or isinstance(parsed, str) else value


def _set(raw: dict[str, Any], key: str, value: Any) -> None:
    *parents, last = key.split(".")
    node: Any = raw
    for part in parents:
        if isinstance(node, list):
            node = node[_position(node, part, key)]
        else:
            if node.get(part) is None:
                node[part] = {}
            node = node[part]
        if not isinstance(node, dict | list):
            raise ValueError(f"override {key}={value}: {part!r} is a single value and has no keys")
    node[_position(node, last, key) if isinstance(node, list) else last] = value


def _position(node: list[Any], part: str, key: str) -> int:
    if not part.isdecimal() or int(part) >= len(node):
        raise ValueError(f"override {key}: got {part!r}, wanted a position from 0 to {len(node) - 1}")
    return int(part)


def _explain(error: ValidationError) -> str:
    faults = []
    for fault in error.errors():
        where = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "extra_forbidden":
            known = _fields(fault["loc"][:-1])
            hint = did_you_mean(str(fault["loc"][-1]), known)
            faults.append(f"unknown key {where!r}.{hint} Keys: {', '.join(known)}")
        elif fault["type"] == "missing":
            faults.append(f"key {where!r} is missing")
        else:
            faults.append(f"{where} = {shown(fault['input'])}: {fault['msg'].removeprefix('Value error, ')}")
    return "; ".join(faults)


def _fields(loc: tuple[int | str, ...]) -> list[str]:
    """The keys known at a place inside a recipe: of the recipe itself, or of the block named by ``loc``."""
    model: type[BaseModel] = Recipe
    for part in loc:
        if isinstance(part, int):
            continue
        annotation = model.model_fields[part].annotation
        candidates = (annotation, *get_args(annotation))
        model = next(c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel))
    return list(model.model_fields)
