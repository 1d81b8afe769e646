"""The merged model: base and adapter as one set of weights, with what the merging changed, measured."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from peft import PeftModel
from safetensors import SafetensorError
from sentence_transformers import SentenceTransformer

from dataset_builders import sources
from dataset_builders.atomic import write_text
from dataset_builders.folder import read_card
from dataset_builders.hub_remote import Remote, read_text
from dataset_builders.lock import locked
from dataset_builders.markdown import check_sections, template
from hub_models import onnx_parity
from hub_models.cards import CARD_NAME, body_with, release_licence
from hub_models.encoder import load
from hub_models.manifest import FILE_NAME, Manifest
from hub_models.release import PROBE_NAME, probe
from hub_models.requirements import REQUIREMENTS
from hub_models.staging import ENCODER_FILES, Base

logger = logging.getLogger(__name__)

DIFFERENCE_NAME = "merged.json"
CLAIMS = 20  # of the sample's test split, asked for both stances
TOP = 10

ALLOW = (
    *(CARD_NAME, "LICENSE", FILE_NAME, PROBE_NAME, DIFFERENCE_NAME),
    *("config.json", "model*.safetensors", "model.safetensors.index.json", *ENCODER_FILES),
)
"""Files of a merged model that are published, as patterns."""

Float32 = NDArray[np.float32]


def name_of(adapter: str) -> str:
    """``…-merged`` for ``…-lora``."""
    return f"{adapter.removesuffix('-lora')}-merged"


def check_family(manifest: Manifest) -> None:
    """Refuse an oblique model.

    Raises:
        ValueError: If it is one.
    """
    if manifest.family == "oblique":
        raise ValueError(
            f"{manifest.name} is a model for oblique search, of which the adapter alone is released: folded into a "
            "base in bf16 it ranks otherwise; leave --merged out"
        )


def merged(run: Path, trust_remote_code: str | None = None) -> Path:
    """The merged model of a run, in a folder beside it; made once, and anew for another adapter.

    Args:
        run: A run folder.
        trust_remote_code: See `encoder.load`. The merged model carries the code, and is loaded by its own name.

    Raises:
        FileNotFoundError: If ``run`` is no run folder.
        ValueError: If its adapter is not the one that was trained, the model is an oblique one, or its base brings
            code that nobody named.
        BlockingIOError: If another process merges it.
        OSError: If the disk is full or cannot be written. What was there stays as it was.
    """
    run = run.resolve()
    manifest, target = Manifest.read(run), run.with_name(f"{run.name}-merged")
    check_family(manifest)
    with locked(run.with_name(f".{run.name}-merged.lock")) as mine:
        if not mine:
            raise BlockingIOError(f"{target}: another process merges {run.name}; wait until it is done")
        if not _is_of(target, manifest):
            _merge(run, manifest, target, trust_remote_code)
    return target


def _is_of(target: Path, manifest: Manifest) -> bool:
    """Whether there is a merged model of this very adapter and base."""
    if not (target / FILE_NAME).is_file():
        return False
    there = Manifest.read(target)
    return (there.adapter_sha256, there.base_revision) == (manifest.adapter_sha256, manifest.base_revision)


def _merge(run: Path, manifest: Manifest, target: Path, trust_remote_code: str | None) -> None:
    logger.info("merging %s", run.name)
    adapter, whole = (load(run, trust_remote_code=trust_remote_code) for _ in range(2))
    transformer = whole.transformers_model
    clean = type(transformer).from_pretrained(
        manifest.base, revision=manifest.base_revision, dtype=transformer.dtype, attn_implementation="sdpa"
    )
    whole[0].model = PeftModel.from_pretrained(clean, str(run)).merge_and_unload(safe_merge=True).to(whole.device)
    whole.eval()
    staged, old = (run.with_name(f".{run.name}-merged.{end}") for end in ("partial", "old"))
    for left in (staged, old):  # by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    try:
        whole.save_pretrained(str(staged), create_model_card=False)
        probe(whole).write(staged)
        content = difference(adapter, whole) | {"onnx": onnx_parity.measure(whole)}
        write_text(staged / DIFFERENCE_NAME, json.dumps(content, indent=2, allow_nan=False) + "\n")
        manifest.model_copy(update={"name": name_of(manifest.name)}).write(staged)
        if target.exists():
            target.rename(old)
        staged.rename(target)
    except SafetensorError as error:  # its way to say that the disk is full
        raise OSError(f"writing {target} failed ({error}): free some space and run this again") from None
    finally:
        for left in (staged, old):
            shutil.rmtree(left, ignore_errors=True)


def difference(adapter: SentenceTransformer, whole: SentenceTransformer) -> dict[str, Any]:
    """What merging changed, over claims and arguments of the sample.

    Returns:
        ``queries`` and ``documents``, counts; ``largest_cosine_gap``, of all pairs; ``top_10_overlap``, the share of
        the adapter's first ten documents that are among the merged model's, mean over queries.
    """
    data = sources.load("sample")
    claims = [c for c in data.claims if c.split == "test"][:CLAIMS]
    ids = {c.claim_id for c in claims}
    about = {r.argument_id for r in data.relations if r.claim_id in ids}
    documents = sorted({a.text for a in data.arguments if a.argument_id in about})
    ours, theirs = (_cosines(model, [c.claim for c in claims], documents) for model in (adapter, whole))
    top, top_theirs = (np.argsort(-scores, axis=1, kind="stable")[:, :TOP] for scores in (ours, theirs))
    overlap = [len(set(a) & set(b)) / len(a) for a, b in zip(top.tolist(), top_theirs.tolist(), strict=True)]
    return {
        "queries": len(ours),
        "documents": len(documents),
        "largest_cosine_gap": float(np.abs(ours - theirs).max()),
        "top_10_overlap": float(np.mean(overlap)),
    }


def _cosines(model: SentenceTransformer, claims: list[str], documents: list[str]) -> Float32:
    queries = np.concatenate(
        [
            model.encode(claims, prompt_name=stance, normalize_embeddings=True, show_progress_bar=False)
            for stance in ("support", "attack")
        ]
    )
    found: Float32 = queries @ model.encode(documents, normalize_embeddings=True, show_progress_bar=False).T
    return found


def stage(whole: Path, folder: Path, remote: Remote, base: Base, adapter: Path, *, tag: str) -> None:
    """Lay out the release of a merged model in ``folder``.

    Args:
        whole: From `merged`.
        folder: Does not exist yet.
        remote: The repository that it is made for.
        base: As for the adapter.
        adapter: The staged release of the adapter.
        tag: The release's.

    Raises:
        ValueError: If the card that stands on the Hub cannot be kept, or lacks a section.
    """
    shutil.copytree(whole, folder, ignore=shutil.ignore_patterns(CARD_NAME))
    released = Manifest.read(adapter)
    manifest = released.model_copy(update={"name": name_of(released.name), "repo_id": remote.repo_id, "tag": tag})
    manifest.write(folder)
    block = template("merged.md.j2").render(
        m=manifest,
        adapter=released.repo_id,
        base=base,
        licence=release_licence(manifest),
        d=json.loads((whole / DIFFERENCE_NAME).read_bytes()),
        requirements=[r for r in REQUIREMENTS if r.name != "peft"],
    )
    old = read_text(remote, CARD_NAME) or ""
    kept, _ = read_card(old, f"{remote.repo_id}/{CARD_NAME}")
    ours = {
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": ["sentence-transformers", "sentence-similarity", "feature-extraction", "stance", "argument-retrieval"],
        "base_model": base.id,
        "base_model_relation": "finetune",
    }
    if datasets := [d.name for d in manifest.data if "/" in d.name]:
        ours["datasets"] = list(dict.fromkeys(datasets))
    head = {"language": "en", "license": release_licence(manifest), **kept, **ours}
    card = body_with(old, block, Path(remote.repo_id) / CARD_NAME)
    check_sections(card)
    write_text(folder / CARD_NAME, f"---\n{yaml.safe_dump(head, sort_keys=False, allow_unicode=True)}---\n{card}")
