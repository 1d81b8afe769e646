"""What the Space opens with: read from the environment, from what a release left beside it, or from the checkout."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hub_models.hub_cache import SAMPLE_BASE

HERE = Path(__file__).resolve().parents[1]
QUICKSTART = HERE.parents[1] / "runs" / "quickstart"


@dataclass(frozen=True, slots=True)
class Settings:
    """What is searched, and with what.

    Attributes:
        model: A run folder or Hub id.
        revision: Branch, tag or commit of a Hub model.
        model_name: What visitors read.
        note: A sentence about the model where it is not what one would expect; else empty.
        corpus: A file or folder of your own in place of the sample's arguments.
        cache: Keeps the corpus' vectors from start to start.
    """

    model: str
    revision: str | None
    model_name: str
    note: str
    corpus: Path | None
    cache: Path | None


def read_settings(environ: Mapping[str, str], here: Path = HERE, quickstart: Path = QUICKSTART) -> Settings:
    """Read ``SLANT_MODEL``, ``SLANT_REVISION``, ``SLANT_CORPUS`` and ``SLANT_CACHE``.

    Without a model: the one that ``release.json`` names, else the quickstart's run, else the plain sample base.

    Raises:
        FileNotFoundError: If there is nothing at ``SLANT_CORPUS``.
    """
    model, revision, note = environ.get("SLANT_MODEL"), environ.get("SLANT_REVISION"), ""
    released = here / "release.json"
    if model is None and released.is_file():
        content = json.loads(released.read_text(encoding="utf-8"))
        model, revision = content["model"], content.get("revision")
    if model is None and (quickstart / "adapter_model.safetensors").is_file():
        model, note = str(quickstart), "trained by “make quickstart” on this machine"
    if model is None:
        model = SAMPLE_BASE
        note = "plain, not tuned: run “make quickstart” for an adapter, or name a model in SLANT_MODEL"
    corpus = Path(environ["SLANT_CORPUS"]) if environ.get("SLANT_CORPUS") else None
    if corpus is not None and not corpus.exists():
        raise FileNotFoundError(f"SLANT_CORPUS={corpus}: there is no such file or folder")
    cache = Path(environ["SLANT_CACHE"]) if environ.get("SLANT_CACHE") else None
    name = Path(model).resolve().name if Path(model).is_dir() else model
    return Settings(model, revision, name, note, corpus, cache)
