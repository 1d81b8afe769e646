"""Release a run: gate, stage, one commit, read back by a stranger's process, tag."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dataset_builders import hub
from dataset_builders.hub import Commit, Plan
from dataset_builders.hub_remote import check_access, check_name, look
from hub_models import merge, staging, verify
from hub_models.cards import CARD_NAME
from hub_models.manifest import FILE_NAME, Manifest
from hub_models.release import Probe, gate

logger = logging.getLogger(__name__)

FIRST_TAG = "v1.0.0"


@dataclass(frozen=True)
class Released:
    """What `release` did, or would do.

    Attributes:
        repo_id: ``org/name``.
        plan: Adds and deletes.
        card: The README as it would stand on the Hub.
        commit: None in a dry run.
    """

    repo_id: str
    plan: Plan
    card: str
    commit: Commit | None


def release(
    run: Path,
    org: str,
    *,
    merged: bool = False,
    base_id: str | None = None,
    private: bool = False,
    tag: str = FIRST_TAG,
    dry_run: bool = False,
) -> list[Released]:
    """Release a run's adapter as ``org/NAME-lora`` and, if asked, the merged model as ``org/NAME-merged``.

    What can be refused without work is refused first. Each repository gets one commit; a second call with the same run
    makes none. The tag is set once a fresh process with an empty cache has loaded what was committed.

    Args:
        run: A run folder of ``train.py``.
        org: Organisation or user.
        merged: Whether the merged model is released besides.
        base_id: Hub id of a base that was loaded from a folder.
        private: Whether new repositories are private.
        tag: Of the release.
        dry_run: Only say what would be done.

    Returns:
        The adapter's release, then the merged model's.

    Raises:
        FileNotFoundError: If ``run`` is no run folder, or nothing says what its trained model answered.
        ValueError: If the run may not be released; see `staging.check_run` and `staging.resolve_base`. If a merged
            model is asked for of an oblique run, or of one on a base with code of its own.
        GateError: If the staged folder does not give the trained model.
        HubError: If the Hub, the token or the repository does not permit it, or what was committed does not load.
    """
    manifest = staging.check_run(run)
    if merged:
        merge.check_family(manifest)
        if manifest.code_revision is not None:
            raise ValueError(
                f"{manifest.name}: its base {manifest.base} brings code of its own, which a merged model would carry; "
                "of such a run the adapter alone is released: leave --merged out"
            )
    names = [manifest.name, merge.name_of(manifest.name)][: 1 + merged]
    for name in names:
        check_name(f"{org}/{name}")
        if not dry_run:
            check_access(f"{org}/{name}")
    trained = Probe.read(run)
    base = staging.resolve_base(manifest, base_id, private=private)
    done = []
    with tempfile.TemporaryDirectory(prefix="slant-release-") as folder:
        stage = Path(folder) / manifest.name
        stage.mkdir()
        remote = look(f"{org}/{manifest.name}", "model")
        staging.stage(run, stage, remote, base, tag=tag)
        plan = hub.plan(remote, stage, allow=staging.ALLOW, delete_stale=_stale(staging.ALLOW), marker=FILE_NAME)
        if not _is_up(plan, tag):
            staging.fetch_base(base)
            gate(stage, trained)
        done.append(_push(plan, staging.ALLOW, trained, private=private, tag=tag, dry_run=dry_run))
        if merged:
            stage = Path(folder) / merge.name_of(manifest.name)
            remote = look(f"{org}/{stage.name}", "model")
            whole = merge.merged(run)
            merge.stage(whole, stage, remote, base, Path(folder) / manifest.name, tag=tag)
            plan = hub.plan(remote, stage, allow=merge.ALLOW, delete_stale=_stale(merge.ALLOW), marker=FILE_NAME)
            done.append(_push(plan, merge.ALLOW, Probe.read(stage), private=private, tag=tag, dry_run=dry_run))
    return done


def _stale(allow: tuple[str, ...]) -> Callable[[str], bool]:
    return partial(staging.is_ours, allow=allow)


def _is_up(plan: Plan, tag: str) -> bool:
    """Whether the Hub has this release already, tagged and so read back."""
    return not plan.changes and plan.remote.tags.get(tag) == plan.remote.sha is not None


def _push(plan: Plan, allow: tuple[str, ...], wanted: Probe, *, private: bool, tag: str, dry_run: bool) -> Released:
    repo_id, card = plan.remote.repo_id, (plan.folder / CARD_NAME).read_bytes().decode()
    if dry_run:
        return Released(repo_id, plan, card, None)
    if _is_up(plan, tag):
        return Released(repo_id, plan, card, Commit(repo_id, str(plan.remote.sha), made=False))
    commit = hub.commit_folder(
        repo_id,
        "model",
        plan.folder,
        allow=allow,
        delete_stale=_stale(allow),
        marker=FILE_NAME,
        message=f"Release {repo_id.split('/')[1]} {tag}",
        private=private,
        tag=tag,
        remote=plan.remote,
        verify=lambda made: _verify(repo_id, made.sha, wanted, Manifest.read(plan.folder)),
    )
    return Released(repo_id, plan, card, commit)


def _verify(repo_id: str, sha: str, wanted: Probe, manifest: Manifest) -> None:
    found = verify.verify(repo_id, sha, wanted, manifest.base if manifest.code_revision is not None else None)
    logger.info("%s", found.line())
