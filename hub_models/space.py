"""A Space of ``spaces/`` made to stand alone: the package as a wheel inside it, the released model as its default."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import constants

from dataset_builders import hub
from dataset_builders.atomic import write_text
from dataset_builders.description import read_description
from dataset_builders.folder import read_card
from dataset_builders.hub import OF_ANY_REPOSITORY, Commit, Plan
from dataset_builders.hub_remote import Remote, RepoType, check_access, check_name, look, read_text
from dataset_builders.text import did_you_mean
from hub_models.cards import CARD_NAME, body_with

ROOT = Path(__file__).resolve().parent.parent
SPACES = ROOT / "spaces"
RELEASE_NAME = "release.json"
"""Beside the app: ``{"model", "revision", "files"}``, the released model that it opens with, and what was pushed."""

_NEEDED = ("app.py", CARD_NAME, "requirements.txt")
_RUN_BY = ("sdk", "sdk_version", "app_file", "python_version", "models", "datasets")
_OF_THE_HUB = "Check out the configuration reference at https://huggingface.co/docs/hub/spaces-config-reference"
"""What the Hub itself writes into a new Space: a release that was killed before its commit leaves it."""
_PACKAGES = ("dataset_builders", "hub_models", "model_cards")


def release_space(name: str, org: str, *, dry_run: bool = False) -> tuple[Plan, Commit | None]:
    """Push ``spaces/name`` to the Space ``org/name``, in one commit; a second call makes none.

    The metadata of its README name models and data sets, bare where they are the organisation's own; the first model
    is the default, at its newest tag or else its newest commit. On the Hub the README keeps what people wrote there:
    text around the generated part, and metadata but those that the Space runs by.

    Raises:
        FileNotFoundError: If there is no such Space in this checkout, or it lacks a file.
        ValueError: If its README names no model, or one that is not on the Hub, or the wheel cannot be built; or if
            the README on the Hub has broken metadata, or one of the two comments around the generated part.
        HubError: If the Hub, the token or the repository does not permit it.
    """
    repo_id = f"{org}/{name}"
    check_name(repo_id)
    source = _source(name)
    if not dry_run:
        check_access(repo_id)
    remote = look(repo_id, "space")
    with tempfile.TemporaryDirectory(prefix="slant-space-") as folder:
        stage = Path(folder) / name
        ignored = shutil.ignore_patterns("__pycache__", ".*", "*.whl", RELEASE_NAME)
        shutil.copytree(source, stage, ignore=ignored)
        head = _write_card(stage / CARD_NAME, org, read_text(remote, CARD_NAME) or "", f"{repo_id}/{CARD_NAME}")
        models = [_on_the_hub(model, "model") for model in head["models"]]
        for dataset in head.get("datasets", []):
            _on_the_hub(dataset, "dataset")
        wheel = build_wheel(stage)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        # By its address: a Space is built with its requirements.txt alone at hand, and a path would not be found.
        url = f"{constants.ENDPOINT}/spaces/{repo_id}/resolve/main/{wheel.name}#sha256={digest}"
        requirements = (stage / "requirements.txt").read_text(encoding="utf-8").rstrip("\n")
        write_text(stage / "requirements.txt", f"{requirements}\nslant @ {url}\n".lstrip("\n"))
        files = sorted(p.relative_to(stage).as_posix() for p in stage.rglob("*") if p.is_file())
        default = {"model": models[0].repo_id, "revision": _revision(models[0]), "files": [*files, RELEASE_NAME]}
        write_text(stage / RELEASE_NAME, json.dumps(default, indent=2) + "\n")
        pushed = set(json.loads(read_text(remote, RELEASE_NAME) or '{"files": []}')["files"]) - OF_ANY_REPOSITORY

        def is_stale(path: str) -> bool:
            return path in pushed

        plan = hub.plan(remote, stage, allow=["*"], delete_stale=is_stale, marker=RELEASE_NAME)
        if dry_run:
            return plan, None
        return plan, hub.commit_folder(
            repo_id,
            "space",
            stage,
            allow=["*"],
            delete_stale=is_stale,
            marker=RELEASE_NAME,
            message=f"Release {name}",
            remote=remote,
            space_sdk=head["sdk"],
        )


def names() -> list[str]:
    """The Spaces of this checkout."""
    return sorted(p.name for p in SPACES.iterdir() if (p / "app.py").is_file()) if SPACES.is_dir() else []


def _source(name: str) -> Path:
    if name not in names():
        raise FileNotFoundError(
            f"got the Space {name!r}, but {SPACES.name}/ holds {names() or 'none'}; wanted a folder there with "
            f"{', '.join(_NEEDED)}.{did_you_mean(name, names())}"
        )
    if missing := [file for file in _NEEDED if not (SPACES / name / file).is_file()]:
        raise FileNotFoundError(f"{SPACES.name}/{name} lacks {', '.join(missing)}; add what is missing")
    return SPACES / name


def _write_card(path: Path, org: str, there: str, where: str) -> dict[str, Any]:
    """Put the checkout's README over the one on the Hub, with the full names of the organisation's own models and data
    sets. Returns its metadata."""
    head, body = read_card(read_description(path), path.name)
    if not head.get("models") or not head.get("sdk"):
        raise ValueError(f"the Space's {path.name} names no `models` or no `sdk` in its metadata; add both")
    for key in ("models", "datasets"):
        if key in head:
            head[key] = [name if "/" in name else f"{org}/{name}" for name in head[key]]
    kept, text = read_card(there, where)
    if text.strip() == _OF_THE_HUB:
        kept, there = {}, ""
    head = {**head, **kept, **{key: head[key] for key in _RUN_BY if key in head}}
    front = yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=120)
    write_text(path, f"---\n{front}---\n{body_with(there, body, Path(where))}")
    return head


def _on_the_hub(repo_id: str, repo_type: RepoType) -> Remote:
    remote = look(repo_id, repo_type)
    if remote.sha is None:
        raise ValueError(f"the Space names the {repo_type} {repo_id}, which is not on the Hub; release it first")
    return remote


def _revision(model: Remote) -> str:
    at_head = sorted(tag for tag, sha in model.tags.items() if sha == model.sha)
    return at_head[-1] if at_head else str(model.sha)


def build_wheel(out: Path) -> Path:
    """Build the package of this checkout into ``out``; the same sources give the same bytes.

    Raises:
        ValueError: If it cannot be built, with pip's own words.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder)
        for name in _PACKAGES:
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, source)
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
        done = subprocess.run(
            [*command, "-w", str(out), str(source)],
            env={**os.environ, "SOURCE_DATE_EPOCH": "315532800"},  # 1980, where zip's own time begins
            capture_output=True,
            text=True,
            errors="replace",  # a library may write what this locale cannot read
        )
        if done.returncode:
            said = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise ValueError(f"the wheel cannot be built ({said}); install the extra `dev`, which brings setuptools")
    (wheel,) = out.glob("slant-*.whl")
    return wheel
