"""Encoders: from a folder or a Hub id to a `SentenceTransformer`, and which weights it holds."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import EntryNotFoundError, GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError
from sentence_transformers import SentenceTransformer

from hub_models import luar, remote_code
from hub_models.adapter import check_scale, scale_adapter
from hub_models.base import pad_for_absolute_positions
from hub_models.hub_cache import ensure_base
from hub_models.manifest import ADAPTER_NAME, adapter_sha256, check_adapter
from hub_models.model_files import (
    ADAPTER_CONFIG,
    commit_of,
    find,
    loading,
    missing_files,
    no_such_model,
    offline_said,
    read_json,
    runs_own_code,
    slant_json,
)

_PICKLED = "adapter_model.bin"


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
        elif find(source, ADAPTER_CONFIG, revision) is None:
            code = runs_own_code(source, revision, trust_remote_code)
            model = SentenceTransformer(source, revision=revision, device=device, trust_remote_code=code)
        else:
            folder = Path(source) if Path(source).is_dir() else Path(snapshot_download(source, revision=revision))
            model = _load_adapter(folder, device, trust_remote_code)
    pad_for_absolute_positions(model)
    if adapter_scale is not None:
        scale_adapter(model, adapter_scale)
    return model


def _is_luar(source: str, revision: str | None) -> bool:
    config = find(source, "config.json", revision)
    return config is not None and read_json(config).get("model_type") == luar.MODEL_TYPE


def _load_adapter(folder: Path, device: str | None, trust_remote_code: str | None) -> SentenceTransformer:
    if missing := missing_files(folder):
        pickled = ADAPTER_NAME in missing and (folder / _PICKLED).is_file()
        hint = f" ({_PICKLED} is a pickle, which may hold any program: it is not read)" if pickled else ""
        raise ValueError(
            f"model {folder}: it has no {', '.join(missing)}{hint}; restore what is missing or train again"
        )
    config, pinned = read_json(folder / ADAPTER_CONFIG), slant_json(folder)
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
            f"does not give it{offline_said()}; run once with a network and without HF_HUB_OFFLINE, or copy it into "
            "the cache"
        ) from error
    with tempfile.TemporaryDirectory(prefix="slant-pinned-") as name:
        view = Path(name)
        for entry in folder.iterdir():
            (view / entry.name).symlink_to(entry.resolve())
        (view / ADAPTER_CONFIG).unlink()
        (view / ADAPTER_CONFIG).write_text(
            json.dumps(config | {"base_model_name_or_path": snapshot}), encoding="utf-8"
        )
        model = SentenceTransformer(name, device=device, trust_remote_code=code)
    transformer = model.transformers_model
    transformer.name_or_path = transformer.config._name_or_path = base
    for adapter in transformer.peft_config.values():
        adapter.base_model_name_or_path = base
    return model


def identity(model: SentenceTransformer, path_or_id: str | Path, *, revision: str | None = None) -> ModelIdentity:
    """Name the weights that `load` gave for ``path_or_id`` at ``revision``."""
    source = str(path_or_id)
    name = Path(source).resolve().name if Path(source).is_dir() else source
    commit = commit_of(source, revision)
    weights = find(source, ADAPTER_NAME, revision)
    if weights is None:
        return ModelIdentity(name, commit, None, None, None)
    pinned = slant_json(weights.parent)
    base = str(pinned.get("base") or model.transformers_model.config._name_or_path)
    return ModelIdentity(
        id=name,
        revision=commit,
        base=Path(base).resolve().name if Path(base).is_dir() else base,
        base_revision=pinned.get("base_revision") or commit_of(base, None),
        adapter_sha256=adapter_sha256(weights.parent),
    )


def _require_modules(source: str, revision: str | None) -> None:
    if find(source, "modules.json", revision) is not None:
        return
    if not Path(source).is_dir() and find(source, "config.json", revision) is None:
        raise FileNotFoundError(no_such_model(source, revision))
    raise ValueError(
        f"model {source}: it has no modules.json, so its pooling is not known and mean pooling would be a guess; "
        f"restore the file, or train from it with `--set base={source} pooling=...`"
    )


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
