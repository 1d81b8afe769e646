"""Encoders: from a recipe or a folder to a `SentenceTransformer`, and the one place that encodes many texts."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from huggingface_hub import hf_hub_download, snapshot_download, try_to_load_from_cache
from huggingface_hub.errors import EntryNotFoundError, HFValidationError, RepositoryNotFoundError
from peft import LoraConfig
from peft.tuners.tuners_utils import BaseTunerLayer
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import processors
from tqdm import tqdm
from transformers import set_seed

from dataset_builders.instructions import DEFAULT_QUERY_TEMPLATE, STANCES, query_prefix, seen_for
from dataset_builders.text import did_you_mean
from hub_models.hub_cache import ensure_base
from hub_models.recipe import Recipe, load_recipe, recipe_names

# Beside a release: what plain loading cannot hold. Keys read here: base, base_revision, query_template.
SLANT_JSON = "slant.json"

Vectors = npt.NDArray[np.float32]


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


# --- Loading ---------------------------------------------------------------------------------------------------------


def load(path_or_id: str | Path, *, revision: str | None = None, device: str | None = None) -> SentenceTransformer:
    """Load an encoder, adapter and base at the commits that its release pins.

    `SentenceTransformer(...)` alone takes an adapter's weights from ``main`` whatever its ``revision``, and never pins
    the base. A folder or Hub model without ``slant.json`` names no base commit and gets the base's current one.

    Args:
        path_or_id: Folder or Hub id.
        revision: Branch, tag or commit of a Hub model.
        device: Such as ``"cpu"``; null lets sentence-transformers choose.

    Raises:
        FileNotFoundError: If there is no such folder, and neither the Hub nor its cache has such a model.
        ValueError: If it lacks ``modules.json``: its pooling is not known, and mean pooling would be a guess.
    """
    source = str(path_or_id)
    ensure_base(source)
    _require_modules(source, revision)
    adapter_config = _find(source, "adapter_config.json", revision)
    if adapter_config is None:
        model = SentenceTransformer(source, revision=revision, device=device)
    else:
        folder = Path(source) if Path(source).is_dir() else Path(snapshot_download(source, revision=revision))
        model = _load_adapter(folder, device)
    _pad_for_absolute_positions(model)
    return model


def _load_adapter(folder: Path, device: str | None) -> SentenceTransformer:
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    pinned = _slant_json(folder)
    base, base_revision = pinned.get("base") or config["base_model_name_or_path"], pinned.get("base_revision")
    ensure_base(base)
    if base_revision is None:
        return SentenceTransformer(str(folder), device=device)
    # Neither library can pin the base of an adapter, so it is loaded through a folder that names the snapshot.
    snapshot = snapshot_download(base, revision=base_revision, ignore_patterns=["onnx/*", "openvino/*"])
    with tempfile.TemporaryDirectory(prefix="slant-pinned-") as name:
        view = Path(name)
        for entry in folder.iterdir():
            (view / entry.name).symlink_to(entry.resolve())
        (view / "adapter_config.json").unlink()
        (view / "adapter_config.json").write_text(
            json.dumps(config | {"base_model_name_or_path": snapshot}), encoding="utf-8"
        )
        model = SentenceTransformer(name, device=device)
    transformer = model.transformers_model
    transformer.name_or_path = transformer.config._name_or_path = base
    for adapter in transformer.peft_config.values():
        adapter.base_model_name_or_path = base
    return model


def load_base(recipe: Recipe, *, device: str | None = None) -> SentenceTransformer:
    """The recipe's base, ready for an adapter: pooling, length, padding, end token, prompts and similarity set.

    A base with ``modules.json`` keeps its own modules, which must agree with the recipe; for a plain transformer the
    recipe's pooling and a normalisation are added. The weights keep the precision they were published in, because that
    is what plain loading of the release will give.

    Raises:
        FileNotFoundError: If there is no such base.
        ValueError: If the base is no transformer, its pooling is known neither from it nor from the recipe, or what
            both say differs.
    """
    ensure_base(recipe.base)
    if _find(recipe.base, "modules.json", recipe.base_revision) is not None:
        model = SentenceTransformer(recipe.base, revision=recipe.base_revision, device=device)
    else:
        model = _with_pooling(recipe, device)
    _check_modules(model, recipe)
    # In the paper's mode the instruction is pooled like the claim; Instructor's own configuration leaves it out.
    model.set_pooling_include_prompt(True)
    if recipe.end_token is not None:
        _append_end_token(model.tokenizer, recipe.end_token)
    if recipe.pooling == "lasttoken":
        model.tokenizer.padding_side = "left"
    _pad_for_absolute_positions(model)
    model.max_seq_length = min(recipe.max_seq_length, model.max_seq_length or recipe.max_seq_length)
    model.prompts = prompts(recipe.query_template)
    model.default_prompt_name = None
    model.similarity_fn_name = "cosine"
    # Else adapter_config.json would name a folder of this machine wherever the base came from the cache.
    model.transformers_model.name_or_path = recipe.base
    return model


def prompts(query_template: str) -> dict[str, str]:
    """The prompts of a release: the first seen instruction of each stance as a prefix; queries and documents bare."""
    named: dict[str, str] = {stance: query_prefix(query_template, seen_for(stance)[0].text) for stance in STANCES}
    return named | {"query": "", "document": ""}


def _with_pooling(recipe: Recipe, device: str | None) -> SentenceTransformer:
    if _find(recipe.base, "config.json", recipe.base_revision) is None:
        raise FileNotFoundError(_no_such_model(recipe.base))
    if recipe.pooling is None or recipe.dense is not None:
        raise ValueError(
            f"base {recipe.base} has no modules.json, so its pooling is not known and a projection has no weights: "
            f"got pooling {recipe.pooling} and dense {recipe.dense}; set pooling=cls, mean or lasttoken and dense=null"
        )
    pin = {"revision": recipe.base_revision}
    transformer = Transformer(recipe.base, model_kwargs=pin, processor_kwargs=dict(pin), config_kwargs=dict(pin))
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


def _append_end_token(tokenizer: Any, token: str) -> None:
    """Make every text end with ``token`` exactly once, however short it is cut; saved with the tokenizer."""
    end = tokenizer.get_vocab().get(token)
    if end is None:
        raise ValueError(f"end_token {token!r} is not in the vocabulary of {tokenizer.name_or_path}")

    def ends() -> bool:
        return all(
            ids[-1] == end and ids.count(end) == 1
            for ids in tokenizer(["a", "a b c d e f"], truncation=True, max_length=4)["input_ids"]
        )

    if ends():
        return
    backend = tokenizer.backend_tokenizer
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
        model.tokenizer.padding_side = "right"


def _find(source: str, filename: str, revision: str | None = None) -> Path | None:
    """A file of a model's folder or Hub repository, or null if it is not there (offline: not in the cache)."""
    if Path(source).is_dir():
        path = Path(source) / filename
        return path if path.is_file() else None
    try:
        return Path(hf_hub_download(source, filename, revision=revision))
    except EntryNotFoundError:
        return None
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise FileNotFoundError(_no_such_model(source)) from error


def _require_modules(source: str, revision: str | None) -> None:
    if _find(source, "modules.json", revision) is not None:
        return
    if not Path(source).is_dir() and _find(source, "config.json", revision) is None:
        raise FileNotFoundError(_no_such_model(source))
    raise ValueError(
        f"model {source}: it has no modules.json, so its pooling is not known and mean pooling would be a guess; "
        f"restore the file, or train from it with `--set base={source} pooling=...`"
    )


def _no_such_model(source: str) -> str:
    parent = Path(source).parent
    near = did_you_mean(Path(source).name, [p.name for p in parent.iterdir() if p.is_dir()]) if parent.is_dir() else ""
    return (
        f"model {source!r}: there is no such folder, and neither the Hub nor its local cache gives such a model"
        f"{' (HF_HUB_OFFLINE is set)' if os.environ.get('HF_HUB_OFFLINE') else ''}.{near} "
        f"Wanted the folder of a trained model or a Hub id such as 'organisation/name'."
    )


def _slant_json(folder: Path) -> dict[str, Any]:
    path = folder / SLANT_JSON
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return content


# --- Adapter ---------------------------------------------------------------------------------------------------------


def attach_lora(model: SentenceTransformer, recipe: Recipe) -> None:
    """Put the recipe's LoRA on the transformer and freeze everything else, a `Dense` after pooling included.

    Seeds every generator with the recipe's seed first, so that the adapter starts the same in each run. The adapter is
    held in float32 also on a base in bfloat16, where steps of 1e-5 would be rounded away.

    Raises:
        ValueError: If the architecture is unknown to the recipe, or its target modules match nothing.
    """
    set_seed(recipe.seed)
    add_lora(model.transformers_model, recipe)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("lora_" in name)
        if parameter.requires_grad:
            parameter.data = parameter.data.float()


def add_lora(transformer: Any, recipe: Recipe) -> None:
    """Inject the recipe's LoRA into a transformer, be it on the meta device. See `attach_lora`."""
    targets = recipe.lora_targets(transformer.config.model_type)
    if not any(re.fullmatch(targets, name) for name, _ in transformer.named_modules()):
        linear = [name for name, module in transformer.named_modules() if isinstance(module, torch.nn.Linear)]
        raise ValueError(
            f"recipe {recipe.name}: lora.target_modules {targets!r} matches no module of {recipe.base}; "
            f"its linear modules are such as {linear[:8]}"
        )
    transformer.add_adapter(
        LoraConfig(
            r=recipe.lora.r,
            lora_alpha=recipe.lora.alpha,
            lora_dropout=recipe.lora.dropout,
            target_modules=targets,
            bias="none",
            task_type="FEATURE_EXTRACTION",
        )
    )


def _adapter_layers(model: SentenceTransformer) -> list[BaseTunerLayer]:
    return [module for module in model.modules() if isinstance(module, BaseTunerLayer)]


@contextmanager
def adapter_off(model: SentenceTransformer) -> Iterator[None]:
    """Inside, ``model`` answers as its base; without an adapter nothing changes. State is restored on leaving."""
    # Not through disable_adapters(): enabling them again would mark a frozen adapter as trainable.
    layers = [layer for layer in _adapter_layers(model) if not layer.disable_adapters]
    for layer in layers:
        layer._disable_adapters = True
    try:
        yield
    finally:
        for layer in layers:
            layer._disable_adapters = False


# --- Identity --------------------------------------------------------------------------------------------------------


def identity(model: SentenceTransformer, path_or_id: str | Path, *, revision: str | None = None) -> ModelIdentity:
    """Name the weights that `load` gave for ``path_or_id`` at ``revision``."""
    source = str(path_or_id)
    folder = Path(source) if Path(source).is_dir() else None
    name = folder.resolve().name if folder else source
    commit = None if folder else _commit(source, revision)
    weights = _find(source, "adapter_model.safetensors", revision)
    if weights is None:
        return ModelIdentity(name, commit, None, None, None)
    pinned = _slant_json(weights.parent)
    config = model.transformers_model.config
    base = str(pinned.get("base") or config._name_or_path)
    return ModelIdentity(
        id=name,
        revision=commit,
        base=Path(base).resolve().name if Path(base).is_dir() else base,
        base_revision=pinned.get("base_revision") or getattr(config, "_commit_hash", None),
        adapter_sha256=hashlib.sha256(weights.read_bytes()).hexdigest(),
    )


def _commit(repo_id: str, revision: str | None) -> str | None:
    """The commit in the Hub cache that ``revision`` (null: ``main``) stands for."""
    path = try_to_load_from_cache(repo_id, "modules.json", revision=revision)
    return Path(path).parent.name if isinstance(path, str) else None


def query_template_of(path_or_id: str | Path, *, revision: str | None = None) -> str:
    """The template that formats a model's queries: its release's own, its recipe's for the base of a recipe that comes
    with the package, else the default."""
    path = _find(str(path_or_id), SLANT_JSON, revision)
    if path is not None:
        template = _slant_json(path.parent).get("query_template")
        if template:
            return str(template)
    recipes = [load_recipe(name) for name in recipe_names()]
    return next((r.query_template for r in recipes if r.base == str(path_or_id)), DEFAULT_QUERY_TEMPLATE)


# --- Encoding --------------------------------------------------------------------------------------------------------


def encode_corpus(
    texts: Sequence[str],
    model: SentenceTransformer,
    *,
    cache_dir: Path | None = None,
    batch_size: int = 32,
    prompt: str | None = None,
    show_progress: bool | None = None,
) -> Vectors:
    """Encode many texts: each distinct one once, longest first, in shards that survive a kill.

    Args:
        texts: Formatted and final: what stands here reaches the tokenizer.
        model: Any `SentenceTransformer`.
        cache_dir: Keeps the vectors for later calls, by weights (adapter on or off), modules, length, precision and
            text. Null: nothing is kept.
        batch_size: Texts per forward pass. In float32 it changes an embedding by less than 1e-5.
        prompt: Put before each text by the model, which may leave it out of the pooling.
        show_progress: Null or true: a bar, on work longer than two seconds.

    Returns:
        float32[n, d], one L2-normalised row for each text, in order; float32[0, d] for no text.

    Raises:
        ValueError: If a text is no valid Unicode, or the model gives a vector with NaN, infinity or of length 0.
    """
    keys = [_text_hash(text, prompt, i) for i, text in enumerate(texts)]
    store = _VectorStore(cache_dir / _model_hash(model) if cache_dir is not None else None)
    rows = store.read(set(keys))
    distinct = dict(zip(keys, texts, strict=True))
    missing = sorted((key for key in distinct if key not in rows), key=lambda key: -len(distinct[key]))
    shard = 16 * batch_size
    with tqdm(total=len(missing), desc="encode", unit=" texts", delay=2, disable=show_progress is False) as bar:
        for start in range(0, len(missing), shard):
            chunk = missing[start : start + shard]
            vectors = _encode([distinct[key] for key in chunk], model, batch_size, prompt)
            store.write(chunk, vectors)
            rows.update(zip(chunk, vectors, strict=True))
            bar.update(len(chunk))
    if not keys:
        return np.zeros((0, model.truncate_dim or model.get_embedding_dimension()), dtype=np.float32)
    return np.stack([rows[key] for key in keys])


def _encode(texts: list[str], model: SentenceTransformer, batch_size: int, prompt: str | None) -> Vectors:
    """float32[n, d], L2-normalised. An empty prompt keeps a model's default prompt away."""
    raw = model.encode(texts, batch_size=batch_size, prompt=prompt or "", show_progress_bar=False)
    vectors: Vectors = np.asarray(raw, dtype=np.float32)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    bad = np.flatnonzero(~np.isfinite(norms[:, 0]) | (norms[:, 0] == 0))
    if len(bad):
        raise ValueError(
            f"{len(bad)} of {len(texts)} texts got a vector with NaN, infinity or of length 0, such as "
            f"{[texts[i][:80] for i in bad[:3]]}; the model is broken or overflows in {model.dtype}"
        )
    vectors /= norms
    return vectors


def _text_hash(text: str, prompt: str | None, position: int) -> bytes:
    try:
        # The length keeps a prompt apart from the start of a text: a model may leave the prompt out of the pooling.
        return hashlib.sha256(f"{len(prompt or '')}:{prompt or ''}{text}".encode()).digest()
    except UnicodeEncodeError as error:
        raise ValueError(f"text {position} holds a lone surrogate and is no valid Unicode: {error}") from None


def _model_hash(model: SentenceTransformer) -> str:
    """Everything a vector depends on but the text. The weights themselves are hashed, not names and commits, which
    would not notice that a loaded model was trained further."""
    off = any(layer.disable_adapters for layer in _adapter_layers(model))
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        if off and "lora_" in name:
            continue
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    modules = [(type(m).__name__, m.get_config_dict()) for m in model if not isinstance(m, Transformer)]
    scaling = [] if off else [sorted(layer.scaling.items()) for layer in _adapter_layers(model)]
    tokenizer = json.loads(model.tokenizer.backend_tokenizer.to_str())
    del tokenizer["truncation"], tokenizer["padding"]  # of the last call
    settings = (modules, scaling, model.max_seq_length, model.truncate_dim, model.tokenizer.padding_side, tokenizer)
    digest.update(repr(settings).encode())
    return digest.hexdigest()


class _VectorStore:
    """Vectors by text hash in the ``.npz`` shards of one folder; a shard is there whole or not at all."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def read(self, wanted: set[bytes]) -> dict[bytes, Vectors]:
        rows: dict[bytes, Vectors] = {}
        for path in sorted(self._folder.glob("*.npz")) if self._folder is not None else []:
            with np.load(path, allow_pickle=False) as shard:
                keys = [bytes(key) for key in shard["keys"]]
                if wanted.intersection(keys):
                    rows.update((k, v) for k, v in zip(keys, shard["vectors"], strict=True) if k in wanted)
        return rows

    def write(self, keys: list[bytes], vectors: Vectors) -> None:
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(b"".join(keys)).hexdigest()[:32]
        with tempfile.NamedTemporaryFile(dir=self._folder, suffix=".partial", delete=False) as file:
            try:
                np.savez(file, keys=np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, 32), vectors=vectors)
                file.flush()
                os.fsync(file.fileno())
                os.replace(file.name, self._folder / f"{name}.npz")
            except BaseException:
                os.unlink(file.name)
                raise
