"""Publish a data set: build, check, card, one commit, read back."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dataset_builders import builds, dataset_card, hub, quality, readback
from dataset_builders.atomic import write_text
from dataset_builders.folder import MANIFEST, README, is_shard, shards
from dataset_builders.hub import Commit, Plan
from dataset_builders.hub_errors import HubError
from dataset_builders.hub_remote import Remote, check_access, check_name, look, read_text
from dataset_builders.leaks import is_machine_path
from dataset_builders.markdown import check_sections
from dataset_builders.quality import Report
from dataset_builders.sources import hub as hub_source
from dataset_builders.sources import kpa, perspectrum, public_json, sample, tfu

ALLOW = (README, MANIFEST, dataset_card.EVAL, "*/*.parquet")


def _on_the_hub(repo: str) -> Callable[[Path], bool]:
    """Whether ``--source`` reads ``repo@REVISION``."""
    return lambda path: (found := hub_source.parse(path)) is not None and found[0] == repo


def _has(*files: str) -> Callable[[Path], bool]:
    return lambda path: all((path / file).is_file() for file in files)


def _is(file: str) -> Callable[[Path], bool]:
    return lambda path: path.name == file and path.is_file()


def _either(*tests: Callable[[Path], bool]) -> Callable[[Path], bool]:
    return lambda path: any(test(path) for test in tests)


RESERVED: dict[str, Callable[[Path], bool] | None] = {
    sample.NAME: None,
    perspectrum.NAME: _has(perspectrum.CLAIMS),
    kpa.NAME: lambda path: bool(kpa.files_in(path)),
    tfu.NAME: _either(_has(*tfu.FILES), _on_the_hub(tfu.REPO)),
    **{name: _either(_has(file), _is(file), _on_the_hub(public_json.REPO))
       for name, file in public_json.FILES.items()},
}  # fmt: skip
"""Names that stand for one source's own text, all of `sources.SOURCES`, and how to tell that ``--source`` is that
source's own files, or its own repository. None: it takes no ``--source``."""


@dataclass(frozen=True)
class Published:
    """What `publish` did, or would do.

    Attributes:
        plan: Adds and deletes.
        card: The README as it would stand on the Hub.
        commit: None in a dry run.
    """

    plan: Plan
    card: str
    commit: Commit | None


def publish(
    name: str,
    org: str,
    *,
    source: Path | None = None,
    seed: int = 0,
    triplets: int | None = None,
    private: bool = False,
    tag: str | None = None,
    dry_run: bool = False,
) -> Published:
    """Publish ``{source}-{kind}`` as ``org/{source}-{kind}``.

    What can be refused without work is refused first. The commit is made whole or not at all, a second call with the
    same data makes none, and the tag is set once what was committed has been read back.

    Args:
        name: See `builds.parse`.
        org: Organisation or user.
        source: Your own data, as for `sources.load`.
        seed: See `builds.prepare`.
        triplets: See `builds.prepare`.
        private: Whether a new repository is private.
        tag: Of the release, such as ``v1.0.0``.
        dry_run: Only say what would be done; needs to read the Hub, and no token where the repository is public.

    Raises:
        FileNotFoundError: If there is nothing at ``source``.
        ValueError: If the data cannot be built, carries an unknown licence or none that the Hub
            could know, breaks a bound, or is not of the source
            that its name stands for; or if the card lacks a section.
        HubError: If the Hub, the token or the repository does not permit it.
    """
    prefix, _ = builds.parse(name)
    repo_id = f"{org}/{name}"
    check_name(repo_id)
    hub.check_tag(tag)
    _check_reserved(prefix, source)
    if not dry_run:
        check_access(repo_id)
    remote = look(repo_id, "dataset")
    _check_ours(remote, name)
    build = builds.prepare(name, source, seed=seed, triplets=triplets)
    _check_licences(build)
    measured = build.part is not None
    report = Report(prefix, build.part, {}) if build.part is not None else _checked(prefix, source, seed)
    if report.broken or report.mended:
        faults = [f"{c.name} ({c.figure:g}, bound {c.limit:g})" for c in report.broken] + report.mended
        more = "remove or rewrite those rows" if measured else f"`python -m dataset_builders check {prefix}` says more"
        raise ValueError(f"{name}: {len(faults)} bounds do not hold: {'; '.join(faults[:5])}; {more}")
    with tempfile.TemporaryDirectory(prefix="slant-publish-") as staging:
        stage = Path(staging) / name
        build.write(stage)
        _check_sources(stage, prefix)
        found = shards(stage)

        def is_stale(path: str) -> bool:
            folder, _, file = path.rpartition("/")
            return file.endswith(".parquet") and (folder in found or is_shard(file))

        card = dataset_card.render(repo_id, build, stage, report)
        kept = [path for path in remote.files if not is_stale(path)]
        text = dataset_card.merge(read_text(remote, README), card, kept, repo_id)
        check_sections(text)
        write_text(stage / README, text)
        if card.eval_yaml:
            write_text(stage / dataset_card.EVAL, card.eval_yaml)
        plan = hub.plan(remote, stage, allow=ALLOW, delete_stale=is_stale, marker=MANIFEST)
        if dry_run:
            return Published(plan, text, None)
        prints = readback.of_folder(stage, card.configs)
        commit = hub.commit_folder(
            repo_id,
            "dataset",
            stage,
            allow=ALLOW,
            delete_stale=is_stale,
            marker=MANIFEST,
            message=f"Release {name}{f' {tag}' if tag else ''}",
            private=private,
            tag=tag,
            remote=remote,
            verify=lambda done: readback.compare(repo_id, done.sha, prints, build.tables.default),
        )
        return Published(plan, text, commit)


@functools.cache
def _checked(prefix: str, source: Path | None, seed: int) -> quality.Report:
    """One check for all repositories of a source that a process publishes."""
    return quality.check(prefix, source, seed=seed)


def _check_reserved(prefix: str, source: Path | None) -> None:
    is_own = RESERVED.get(prefix)
    if source is not None and is_own is not None and not is_own(source):
        raise ValueError(f"{prefix}-* is for {prefix}'s own files, which {source.name} is not; choose another name")
    if prefix in RESERVED:
        return
    for name in RESERVED:
        if prefix.startswith(name) and not prefix[len(name)].isalnum():
            raise ValueError(
                f"got the source name {prefix!r}, but {name}-* is for {name}'s own text; choose another one"
            )


def _check_licences(build: builds.Build) -> None:
    unknown = [row for row, licence in build.unlicensed.items() if licence == "unknown"]
    if unknown:
        raise ValueError(
            f"{build.name}: {len(unknown)} rows have the licence 'unknown', such as {unknown[:3]}; "
            "nothing is published without one: give each row a `licence`, such as cc-by-4.0"
        )
    if build.unlicensed:
        row, licence = next(iter(build.unlicensed.items()))
        near = licence.strip().lower()
        hint = f" Did you mean {near!r}?" if builds.LICENCE.fullmatch(near) and near != "unknown" else ""
        raise ValueError(
            f"{build.name}: {len(build.unlicensed)} rows have a licence that is no identifier, such as "
            f"{licence[:60]!r} of {row!r}; wanted one as the Hub spells it, in small letters, such as cc-by-4.0 or "
            f"mit.{hint}"
        )


def _check_sources(stage: Path, prefix: str) -> None:
    found = {source for by in dataset_card.origins(stage).values() for source, _ in by}
    paths = sorted(source for source in found if is_machine_path(source))
    if paths:
        raise ValueError(f"the rows' source {paths[0]!r} is a path of this machine; give a name")
    others = sorted(found - {prefix})
    if prefix in RESERVED and others:
        raise ValueError(
            f"{prefix}-* names are for {prefix}'s own text, and there are rows whose source is {others[:3]}; give "
            "your data a name of its own"
        )


def _check_ours(remote: Remote, name: str) -> None:
    manifest = read_text(remote, MANIFEST)
    if manifest is None:
        return  # `hub.plan` refuses what nobody knows
    try:
        there = json.loads(manifest).get("name")
    except (ValueError, AttributeError):
        there = None
    if there != name:
        raise HubError(
            f"{remote.repo_id} holds {there!r} by its {MANIFEST}, wanted {name!r} or an empty repository; choose "
            "another name: nothing was pushed"
        )
