"""Encoders: from a recipe, a folder or a Hub id to a `SentenceTransformer`, and which weights it holds."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from huggingface_hub import hf_hub_download, snapshot_download, try_to_load_from_cache
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from safetensors import SafetensorError
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import processors

from dataset_builders.instructions import (
    DEFAULT_QUERY_TEMPLATE,
    OBLIQUE_INSTRUCTIONS,
    STANCES,
    query_prefix,
    seen_for,
)
from dataset_builders.text import did_you_mean
from hub_models import luar, remote_code
from hub_models.adapter import adapter_off, attach_lora, check_scale, scale_adapter
from hub_models.corpus import encode_corpus
from hub_models.hub_cache import ensure_base
from hub_models.manifest import ADAPTER_NAME, adapter_sha256, check_adapter
from hub_models.recipe import Recipe, load_recipe, recipe_names

# Beside a release: what plain loading cannot hold. Read here: base, base_revision, query_template, adapter_sha256.
SLANT_JSON = "slant.json"

_ADAPTER_CONFIG = "adapter_config.json"
# Without its own tokenizer an adapter would be loaded with the base's, which lacks what training has set.
_PICKLED = "adapter_model.bin"
_OF_AN_ADAPTER = (_ADAPTER_CONFIG, ADAPTER_NAME, "modules.json", "tokenizer.json", "tokenizer_config.json")

__all__ = [
    "ModelIdentity",
    "adapter_off",
    "attach_lora",
    "encode_corpus",
    "identity",
    "load",
    "load_base",
    "prompts",
    "query_template_of",
]


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Which weights answered. ``base``, ``base_revision`` and ``adapter_sha256`` are null for a model without adapter.

    Attributes:
        id: Hub id, or the folder's name: never a path of this machine.
        revision: Commit of a Hub model; null for a folder.
        base: Hub id of the adapter's base, or its folder's name.
        base_revision: Commit of the base.
        adapter_sha256: Of the file ``adapter_model.safetensors``.
    """

    id: str
    revision: str | None
    base: str | None
    base_revision: str | None
    adapter_sha256: str | None


def load(
    path_or_id: str | Path,
    *,
    revision: str | None = None,
    device: str | None = None,
    adapter_scale: float | None = None,
    trust_remote_code: str | None = None,
) -> SentenceTransformer:
    """Load an encoder, adapter and base at the commits that its release pins.

    `SentenceTransformer(...)` alone takes an adapter's weights from ``main`` whatever its ``revision``, and never pins
    the base. A folder or Hub model without ``slant.json`` names no base commit and gets the base's current one.

    Args:
        path_or_id: Folder or Hub id.
        revision: Branch, tag or commit of a Hub model.
        device: Such as ``"cpu"``; null lets sentence-transformers choose.
        adapter_scale: Weight of the adapter from 0 (the base) to 2; null is as trained, which is also what plain
            loading gives, and what it cannot change. The one that ``tune`` found is the ``adapter_scale`` of
            ``slant.json``.
        trust_remote_code: Hub id of the base (or of a whole model: its own) whose repository's code may run, where it
            brings some; of an adapter at the commit that its release pins. A LUAR checkpoint of the Hub needs its
            commit as ``revision`` besides.

    Raises:
        FileNotFoundError: If there is no such folder, and neither the Hub nor its cache has such a model.
        ValueError: If it lacks ``modules.json`` (its pooling is not known, and mean pooling would be a guess) or
            another file that it needs, a file is damaged, the adapter is not the one that ``slant.json`` names, or
            the scale is out of range or of a model without an adapter; or if code would have to run that
            ``trust_remote_code`` does not name, or LUAR's at a commit that nobody named.
    """
    if adapter_scale is not None:
        check_scale(adapter_scale)
    source = str(path_or_id)
    ensure_base(source)
    episodes = _is_luar(source, revision)
    if not episodes:
        _require_modules(source, revision)
    with loading(source):
        if episodes:
            code = runs_own_code(source, revision, trust_remote_code)
            remote_code.check_pinned(source, revision)
            model = luar.load(source, revision, device, code=code)
        elif find(source, _ADAPTER_CONFIG, revision) is None:
            code = runs_own_code(source, revision, trust_remote_code)
            model = SentenceTransformer(source, revision=revision, device=device, trust_remote_code=code)
        else:
            folder = Path(source) if Path(source).is_dir() else Path(snapshot_download(source, revision=revision))
            model = _load_adapter(folder, device, trust_remote_code)
    _pad_for_absolute_positions(model)
    if adapter_scale is not None:
        scale_adapter(model, adapter_scale)
    return model


def _is_luar(source: str, revision: str | None) -> bool:
    config = find(source, "config.json", revision)
    return config is not None and _read_json(config).get("model_type") == luar.MODEL_TYPE


def _load_adapter(folder: Path, device: str | None, trust_remote_code: str | None) -> SentenceTransformer:
    if missing := missing_files(folder):
        pickled = ADAPTER_NAME in missing and (folder / _PICKLED).is_file()
        hint = f" ({_PICKLED} is a pickle, which may hold any program: it is not read)" if pickled else ""
        raise ValueError(
            f"model {folder}: it has no {', '.join(missing)}{hint}; restore what is missing or train again"
        )
    config, pinned = _read_json(folder / _ADAPTER_CONFIG), _slant_json(folder)
    if pinned.get("adapter_sha256") is not None:
        check_adapter(folder, pinned["adapter_sha256"])
    base, base_revision = pinned.get("base") or config["base_model_name_or_path"], pinned.get("base_revision")
    ensure_base(base)
    code = runs_own_code(base, base_revision, trust_remote_code)
    if base_revision is None:
        return SentenceTransformer(str(folder), device=device, trust_remote_code=code)
    # Neither library can pin the base of an adapter, so it is loaded through a folder that names the snapshot.
    try:
        snapshot = snapshot_download(base, revision=base_revision, ignore_patterns=["onnx/*", "openvino/*"])
    except GatedRepoError:
        raise
    except (EntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError) as error:
        raise FileNotFoundError(
            f"model {folder}: its base {base} at commit {base_revision} is not in the Hub's local cache, and the Hub "
            f"does not give it{_offline()}; run once with a network and without HF_HUB_OFFLINE, or copy it into the "
            "cache"
        ) from error
    with tempfile.TemporaryDirectory(prefix="slant-pinned-") as name:
        view = Path(name)
        for entry in folder.iterdir():
            (view / entry.name).symlink_to(entry.resolve())
        (view / _ADAPTER_CONFIG).unlink()
        (view / _ADAPTER_CONFIG).write_text(
            json.dumps(config | {"base_model_name_or_path": snapshot}), encoding="utf-8"
        )
        model = SentenceTransformer(name, device=device, trust_remote_code=code)
    transformer = model.transformers_model
    transformer.name_or_path = transformer.config._name_or_path = base
    for adapter in transformer.peft_config.values():
        adapter.base_model_name_or_path = base
    return model


def missing_files(folder: Path) -> list[str]:
    """Which of the files that an adapter's folder needs are not there."""
    return [name for name in _OF_AN_ADAPTER if not (folder / name).is_file()]


@contextmanager
def loading(source: str) -> Iterator[None]:
    """Say in our words what a library finds wrong with a model: damage, or code of its own.

    Raises:
        ValueError: If the weights are damaged, or the model's repository brings code, which is never run.
    """
    try:
        yield
    except ValueError as error:
        if isinstance(error, remote_code.UnnamedCodeError) or "trust_remote_code" not in str(error):
            raise
        raise ValueError(
            f"model {source}: it brings code of its own, which is not run here; wanted a model of a class that the "
            "libraries know. If you trust that code, load the model yourself, with trust_remote_code=True"
        ) from None
    except SafetensorError as error:
        raise ValueError(
            f"model {source}: its weights or its base's are cut off or damaged ({error}); restore them or train again"
        ) from None


def load_base(recipe: Recipe, *, device: str | None = None) -> SentenceTransformer:
    """The recipe's base, ready for an adapter: pooling, length, padding, end token, prompts and similarity set.

    A base with ``modules.json`` keeps its own modules, which must agree with the recipe; for a plain transformer the
    recipe's pooling and a normalisation are added. The weights keep the precision they were published in, because that
    is what plain loading of the release will give.

    Raises:
        FileNotFoundError: If there is no such base.
        ValueError: If the base brings code that the recipe does not name, is no transformer or itself an adapter, its
            weights are damaged, its pooling is known neither from it nor from the recipe, or what both say differs; or
            if it should attend both ways and does not.
    """
    ensure_base(recipe.base)
    adapter_config = find(recipe.base, _ADAPTER_CONFIG, recipe.base_revision)
    if adapter_config is not None:
        own = _read_json(adapter_config).get("base_model_name_or_path")
        raise ValueError(
            f"base {recipe.base}: got an adapter on {own}, wanted a whole encoder: an adapter is not put on another; "
            f"set base={own}"
        )
    code = runs_own_code(recipe.base, recipe.base_revision, recipe.trust_remote_code)
    with loading(recipe.base):
        if find(recipe.base, "modules.json", recipe.base_revision) is not None:
            model = SentenceTransformer(
                recipe.base, revision=recipe.base_revision, device=device, trust_remote_code=code
            )
        else:
            model = _with_pooling(recipe, device, code)
    _check_modules(model, recipe)
    if recipe.bidirectional and not attends_both_ways(model):
        raise ValueError(
            f"base {recipe.base}: its first token does not see the last one, recipe {recipe.name} wants attention "
            "both ways; its code does not fit this version of transformers, or it is a decoder: set "
            "bidirectional=false to train it as it is"
        )
    # In the paper's mode the instruction is pooled like the claim; Instructor's own configuration leaves it out.
    model.set_pooling_include_prompt(True)
    if recipe.end_token is not None:
        _append_end_token(model.tokenizer, recipe.end_token)
    if recipe.pooling == "lasttoken":
        _pad_on(model.tokenizer, "left")
    _pad_for_absolute_positions(model)
    model.max_seq_length = min(recipe.max_seq_length, model.max_seq_length or recipe.max_seq_length)
    model.prompts = prompts(recipe.query_template)
    model.default_prompt_name = None
    model.similarity_fn_name = "cosine"
    # Else adapter_config.json would name a folder of this machine wherever the base came from the cache.
    model.transformers_model.name_or_path = recipe.base
    return model


def prompts(query_template: str, family: Literal["stance", "oblique"] = "stance") -> dict[str, str]:
    """The prompts of a release as prefixes: the first seen instruction of each stance, or the instruction of each
    oblique task; queries and documents bare."""
    instructions: dict[str, str] = (
        OBLIQUE_INSTRUCTIONS if family == "oblique" else {stance: seen_for(stance)[0].text for stance in STANCES}
    )
    named = {name: query_prefix(query_template, instruction) for name, instruction in instructions.items()}
    return named | {"query": "", "document": ""}


def _with_pooling(recipe: Recipe, device: str | None, code: bool) -> SentenceTransformer:
    if find(recipe.base, "config.json", recipe.base_revision) is None:
        raise FileNotFoundError(no_such_model(recipe.base, recipe.base_revision))
    if recipe.pooling is None or recipe.dense is not None:
        raise ValueError(
            f"base {recipe.base} has no modules.json, so its pooling is not known and a projection has no weights: "
            f"got pooling {recipe.pooling} and dense {recipe.dense}; set pooling=cls, mean or lasttoken and dense=null"
        )
    # Left out, transformers would ask at the terminal whether to run a repository's code.
    pin: dict[str, Any] = {"revision": recipe.base_revision, "trust_remote_code": code}
    transformer = Transformer(recipe.base, model_kwargs=dict(pin), processor_kwargs=dict(pin), config_kwargs=dict(pin))
    pooling = Pooling(transformer.get_embedding_dimension(), pooling_mode=recipe.pooling)
    return SentenceTransformer(modules=[transformer, pooling, Normalize()], device=device)


def _check_modules(model: SentenceTransformer, recipe: Recipe) -> None:
    pooling = next((m for m in model if isinstance(m, Pooling)), None)
    if model.transformers_model is None or pooling is None:
        got = [type(m).__name__ for m in model]
        raise ValueError(f"base {recipe.base}: got the modules {got}, wanted a Transformer and a Pooling")
    if recipe.pooling not in (None, pooling.pooling_mode):
        raise ValueError(
            f"base {recipe.base}: its files say pooling {pooling.pooling_mode!r}, recipe {recipe.name} says "
            f"{recipe.pooling!r}; set pooling={pooling.pooling_mode}"
        )
    dense = next((m.out_features for m in model if isinstance(m, Dense)), None)
    if recipe.architecture is not None and recipe.dense != dense:
        raise ValueError(f"base {recipe.base}: its Dense is {dense} wide, recipe {recipe.name} says {recipe.dense}")


@torch.no_grad()
def attends_both_ways(model: SentenceTransformer) -> bool:
    """Whether another last token changes the first token's hidden state, in a text alone and in a padded batch."""
    transformer = model.transformers_model.eval()
    first, second = [i for i in range(len(model.tokenizer)) if i not in model.tokenizer.all_special_ids][:2]
    ids = torch.tensor([[first, second, first, second], [first, second, first, first]], device=transformer.device)

    def state(rows: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = transformer(input_ids=rows, attention_mask=mask).last_hidden_state
        return hidden[:, 0]

    whole = torch.ones_like(ids)
    padded = torch.cat([whole, torch.zeros_like(whole[:, :1])], dim=1)
    alone = [state(ids[i : i + 1], whole[:1]) for i in (0, 1)]
    longer = torch.cat([ids, ids[:, :1]], dim=1)
    together = state(longer, padded)
    return not torch.equal(*alone) and not torch.equal(together[0], together[1])


def _append_end_token(tokenizer: Any, token: str) -> None:
    """Make every text end with ``token`` exactly once, however short it is cut; saved with the tokenizer."""
    backend, end = tokenizer.backend_tokenizer, tokenizer.get_vocab().get(token)
    if end is None:
        raise ValueError(f"end_token {token!r} is not in the vocabulary of {tokenizer.name_or_path}")

    def ends() -> bool:
        probes = tokenizer(["a", "a b c d e f"], truncation=True, max_length=4)["input_ids"]
        backend.no_truncation()  # else the length of the probe would be saved
        return all(ids[-1] == end and ids.count(end) == 1 for ids in probes)

    if ends():
        return
    template = processors.TemplateProcessing(
        single=f"$A {token}", pair=f"$A {token} $B:1 {token}:1", special_tokens=[(token, end)]
    )
    before = [] if backend.post_processor is None else [backend.post_processor]
    backend.post_processor = processors.Sequence([*before, template])
    if not ends():
        raise ValueError(f"end_token {token!r}: the tokenizer of {tokenizer.name_or_path} appends tokens of its own")


def _pad_for_absolute_positions(model: SentenceTransformer) -> None:
    """Pad on the right where position vectors are looked up by index.

    There a pad on the left moves the text to other positions, so that a text alone and in a batch would differ.
    Rotary and relative positions do not care.
    """
    transformer = model.transformers_model
    if transformer is not None and any(
        isinstance(module, torch.nn.Embedding) and re.search(r"position|\bwpe$", name)
        for name, module in transformer.named_modules()
    ):
        _pad_on(model.tokenizer, "right")


def _pad_on(tokenizer: Any, side: Literal["left", "right"]) -> None:
    tokenizer.padding_side = side
    tokenizer.init_kwargs["padding_side"] = side  # the attribute alone is not saved


def find(source: str, filename: str, revision: str | None = None) -> Path | None:
    """A file of a model's folder or Hub repository, or null if it is not there (offline: not in the cache)."""
    if Path(source).is_dir():
        path = Path(source) / filename
        return path if path.is_file() else None
    try:
        return Path(hf_hub_download(source, filename, revision=revision))
    except EntryNotFoundError:
        return None
    except GatedRepoError:
        raise  # there is such a model, and the Hub's own words say how to get at it
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise FileNotFoundError(no_such_model(source, revision)) from error


def runs_own_code(base: str, revision: str | None, named: str | None) -> bool:
    """`remote_code.allowed` for a model's folder or Hub repository, its tokenizer's code included."""
    if not remote_code.allowed(base, find(base, "config.json", revision), named):
        return False
    remote_code.check_own(base, find(base, "tokenizer_config.json", revision))
    return True


def _require_modules(source: str, revision: str | None) -> None:
    if find(source, "modules.json", revision) is not None:
        return
    if not Path(source).is_dir() and find(source, "config.json", revision) is None:
        raise FileNotFoundError(no_such_model(source, revision))
    raise ValueError(
        f"model {source}: it has no modules.json, so its pooling is not known and mean pooling would be a guess; "
        f"restore the file, or train from it with `--set base={source} pooling=...`"
    )


def no_such_model(source: str, revision: str | None) -> str:
    if Path(source).is_dir():
        return (
            f"model {source!r}: the folder has neither modules.json nor config.json, wanted the folder of a trained "
            "model or a Hub id such as 'organisation/name'"
        )
    parent = Path(source).parent
    near = did_you_mean(Path(source).name, [p.name for p in parent.iterdir() if p.is_dir()]) if parent.is_dir() else ""
    wanted = f"{source!r} at {revision}" if revision else repr(source)
    return (
        f"model {wanted}: there is no such folder, and neither the Hub nor its local cache gives such a model"
        f"{_offline()}.{near} Wanted the folder of a trained model or a Hub id such as 'organisation/name'."
    )


def _offline() -> str:
    return " (HF_HUB_OFFLINE is set)" if os.environ.get("HF_HUB_OFFLINE") else ""


def slant_json(path_or_id: str | Path, *, revision: str | None = None) -> dict[str, Any]:
    """What stands in a model's ``slant.json``; nothing, where it has none."""
    path = find(str(path_or_id), SLANT_JSON, revision)
    return {} if path is None else _read_json(path)


def _slant_json(folder: Path) -> dict[str, Any]:
    path = folder / SLANT_JSON
    return _read_json(path) if path.is_file() else {}


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON ({error}); restore it or train again") from None
    if not isinstance(content, dict):
        raise ValueError(
            f"{path}: got {type(content).__name__}, wanted an object with keys; restore it or train again"
        )
    return content


def identity(model: SentenceTransformer, path_or_id: str | Path, *, revision: str | None = None) -> ModelIdentity:
    """Name the weights that `load` gave for ``path_or_id`` at ``revision``."""
    source = str(path_or_id)
    name = Path(source).resolve().name if Path(source).is_dir() else source
    commit = _commit(source, revision)
    weights = find(source, ADAPTER_NAME, revision)
    if weights is None:
        return ModelIdentity(name, commit, None, None, None)
    pinned = _slant_json(weights.parent)
    base = str(pinned.get("base") or model.transformers_model.config._name_or_path)
    return ModelIdentity(
        id=name,
        revision=commit,
        base=Path(base).resolve().name if Path(base).is_dir() else base,
        base_revision=pinned.get("base_revision") or _commit(base, None),
        adapter_sha256=adapter_sha256(weights.parent),
    )


def _commit(repo_id: str, revision: str | None) -> str | None:
    """The commit in the Hub cache that ``revision`` (null: ``main``) stands for; null for a folder."""
    if Path(repo_id).is_dir():
        return None
    paths = [try_to_load_from_cache(repo_id, name, revision=revision) for name in ("modules.json", "config.json")]
    return next((Path(path).parent.name for path in paths if isinstance(path, str)), None)


def query_template_of(path_or_id: str | Path, *, revision: str | None = None) -> str:
    """The template that formats a model's queries: its release's own, its recipe's for the base of a recipe that comes
    with the package, else the default."""
    template = slant_json(path_or_id, revision=revision).get("query_template")
    if template:
        return str(template)
    recipes = [load_recipe(name) for name in recipe_names()]
    return next((r.query_template for r in recipes if r.base == str(path_or_id)), DEFAULT_QUERY_TEMPLATE)


def max_query_length_of(path_or_id: str | Path, *, revision: str | None = None) -> int | None:
    """After how many tokens a model's oblique queries are cut, where that is earlier than other texts: as its release
    says, or the recipe that comes with the package of its base."""
    stored = slant_json(path_or_id, revision=revision)
    if stored:
        return stored.get("max_query_length")
    recipes = [load_recipe(name) for name in recipe_names()]
    return next((r.max_query_length for r in recipes if r.base == str(path_or_id)), None)


@contextmanager
def cut_at(model: SentenceTransformer, tokens: int | None) -> Iterator[None]:
    """Inside, ``model`` cuts texts after ``tokens`` if that is earlier than it did; None changes nothing."""
    before = model.max_seq_length
    if tokens is not None and (before is None or tokens < before):
        model.max_seq_length = tokens
    try:
        yield
    finally:
        if model.max_seq_length != before:
            model.max_seq_length = before
