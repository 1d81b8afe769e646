"""The one way in which data, models and Spaces get to the Hub: a folder becomes one commit, whole or not at all.

Unchanged files are not sent and a commit that would change nothing is not made. The clients retry some of their calls
and the commit itself never (or, where it is `upload_folder`, cut it into several and may make it twice): so what is
sent is worked out here, and the commit is tied to the revision that it was worked out for.

A token comes from ``HF_TOKEN`` or `hf auth login`, is found by the clients, and is handled nowhere here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, get_token
from huggingface_hub.errors import HfHubHTTPError

from dataset_builders.hub_errors import HubError, ask, conflict, is_transient, status_of
from dataset_builders.hub_remote import Remote, RepoType, api, check_access, look
from dataset_builders.leaks import machine_paths, secrets

logger = logging.getLogger(__name__)

# A repository that holds no more than these is as good as empty: anybody may have written them by hand.
OF_ANY_REPOSITORY = frozenset({"README.md", "LICENSE", ".gitattributes", ".gitignore"})


@dataclass(frozen=True)
class Plan:
    """What a commit would do.

    Attributes:
        remote: What it would be done to.
        folder: Where the files are.
        wanted: Paths of all files that the repository shall have from ``folder``.
        adds: Those that are new or differ, with their size in bytes.
        deletes: Paths that go.
    """

    remote: Remote
    folder: Path
    wanted: list[str]
    adds: dict[str, int]
    deletes: list[str]

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.adds or self.deletes)

    def lines(self) -> list[str]:
        """For people: each add with its size, each delete, and the sum."""
        rows = [f"add     {size:>12,} B  {path}" for path, size in self.adds.items()]
        rows += [f"delete  {self.remote.files[path].size:>12,} B  {path}" for path in self.deletes]
        new = "" if self.remote.sha else " in a new repository"
        same = len(self.wanted) - len(self.adds)
        return [
            *rows,
            f"{self.remote.repo_id}: {len(self.adds)} adds ({sum(self.adds.values()):,} B), "
            f"{len(self.deletes)} deletes, "
            f"{same} files as they are{new}",
        ]

    def is_done(self, head: Remote) -> bool:
        """Whether ``head`` is exactly what this plan makes of its remote."""
        kept = {p: b for p, b in self.remote.files.items() if p not in self.adds and p not in self.deletes}
        rest = {p: b for p, b in head.files.items() if p not in self.adds}
        return rest == kept and all(p in head.files and head.files[p].is_like(self.folder / p) for p in self.adds)


@dataclass(frozen=True)
class Commit:
    """A release on the Hub.

    Attributes:
        repo_id: ``org/name``.
        sha: The commit that holds it.
        made: Whether this call made that commit; False where all was there already.
        adds: Files sent.
        deletes: Files deleted.
    """

    repo_id: str
    sha: str
    made: bool
    adds: int = 0
    deletes: int = 0


def plan(
    remote: Remote, folder: Path, *, allow: Iterable[str], delete_stale: Callable[[str], bool], marker: str
) -> Plan:
    """Work out what one commit has to do.

    Args:
        remote: From `look`.
        folder: The staged release.
        allow: Patterns (``fnmatch``, ``*`` matches ``/`` too) of the files in it that are published; others stay.
        delete_stale: Whether a path of the Hub that the folder does not have goes.
        marker: The file by which a repository is known as one that a release has written, such as ``build.json``.

    Raises:
        HubError: If the repository holds what no release has written, or the folder holds a secret or a path of this
            machine in what would be published.
    """
    foreign = sorted(remote.files.keys() - OF_ANY_REPOSITORY)
    if foreign and marker not in remote.files:
        raise HubError(
            f"{remote.repo_id} holds what no release has written, such as {foreign[0]!r} (and no {marker}); choose "
            "another name, or empty it first: nothing was pushed"
        )
    patterns = list(allow)
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    wanted = [n for n in (p.relative_to(folder).as_posix() for p in files) if any(fnmatch(n, x) for x in patterns)]
    _refuse_leaks(folder, wanted)
    adds = {
        path: (folder / path).stat().st_size
        for path in wanted
        if path not in remote.files or not remote.files[path].is_like(folder / path)
    }
    deletes = sorted(p for p in remote.files.keys() - set(wanted) if delete_stale(p))
    return Plan(remote, folder, wanted, adds, deletes)


def commit_folder(
    repo_id: str,
    repo_type: RepoType,
    folder: Path,
    *,
    allow: Iterable[str],
    delete_stale: Callable[[str], bool],
    marker: str,
    message: str,
    private: bool = False,
    tag: str | None = None,
    remote: Remote | None = None,
    verify: Callable[[Commit], None] | None = None,
    space_sdk: str | None = None,
) -> Commit:
    """Make a folder the content of a repository, in one commit. A second call with the same folder makes none.

    Args:
        repo_id: ``org/name``; the repository is made if need be.
        repo_type: ``model``, ``dataset`` or ``space``.
        folder: The staged release.
        allow: See `plan`.
        delete_stale: See `plan`.
        marker: See `plan`.
        message: First line of the commit.
        private: Whether a new repository is private. An existing one must be then, too.
        tag: Set on the commit once it is verified.
        remote: What the folder was made for, from `look`: if the head has moved since, nothing is committed.
        verify: Called with the commit before the tag is set; what it raises leaves the commit without the tag. Where
            the tag is there already, it is not called again.
        space_sdk: Of a new Space.

    Returns:
        The commit that holds the release.

    Raises:
        ConflictError: If something else was committed since ``remote``.
        HubError: If the Hub, the token, the names or what is to be published do not permit it.
    """
    check_access(repo_id)
    remote = remote or look(repo_id, repo_type)
    todo = plan(remote, folder, allow=allow, delete_stale=delete_stale, marker=marker)
    if private and remote.private is False:
        raise HubError(
            f"{repo_id} is public, and --private was asked for; change its visibility on the Hub first: nothing was "
            "pushed"
        )
    _check_tag(todo, tag)
    if remote.sha and not todo.changes:
        done = Commit(repo_id, remote.sha, made=False)
    else:
        if remote.sha is None:
            ask(
                repo_id,
                lambda: api.create_repo(
                    repo_id, repo_type=repo_type, private=private, exist_ok=True, space_sdk=space_sdk
                ),
            )
            made = look(repo_id, repo_type)  # with the first commit, which the Hub makes
            todo = plan(made, folder, allow=allow, delete_stale=delete_stale, marker=marker)
            if made.files.keys() - OF_ANY_REPOSITORY and todo.changes:  # another publish was here
                raise conflict(repo_id)
        sha = ask(repo_id, lambda: _commit(todo, message)) if todo.changes else str(todo.remote.sha)
        done = Commit(repo_id, sha, todo.changes, len(todo.adds), len(todo.deletes))
    # A tag that stands there was set once its commit had been read back.
    if verify is not None and (tag is None or remote.tags.get(tag) != done.sha):
        verify(done)
    if tag is not None and remote.tags.get(tag) != done.sha:
        ask(repo_id, lambda: _tag(done, repo_type, tag))
    return done


def _commit(todo: Plan, message: str) -> str:
    remote = todo.remote
    try:
        done = api.create_commit(
            remote.repo_id,
            [
                *(CommitOperationAdd(path, todo.folder / path) for path in todo.adds),
                *(CommitOperationDelete(path) for path in todo.deletes),
            ],
            commit_message=message,
            repo_type=remote.repo_type,
            parent_commit=remote.sha,
        )
    except Exception as error:
        if is_transient(error) or status_of(error) in (409, 412):
            # Perhaps it was made and only the answer was lost: then the head is what we wanted, and whole.
            head = look(remote.repo_id, remote.repo_type)
            if head.sha and head.sha != remote.sha:
                if todo.is_done(head):
                    logger.info("the commit was made, its answer lost: %s", head.sha)
                    return head.sha
                raise conflict(remote.repo_id) from None
        raise
    return str(done.oid)


def check_tag(tag: str | None) -> None:
    """Refuse what git takes for no tag, or would mix up with a branch or a commit.

    Raises:
        HubError: With what a tag may be.
    """
    if tag is None:
        return
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", tag) or ".." in tag or tag.endswith((".", ".lock")):
        raise HubError(
            f"got the tag {tag!r}, wanted letters, digits, '.', '-' and '_', such as 'v1.0.0', and no '.' or '.lock' "
            "at its end; nothing was pushed"
        )
    if tag in ("main", "HEAD") or re.fullmatch(r"[0-9a-f]{40}", tag):
        raise HubError(f"got the tag {tag!r}, which names a branch or a commit; wanted one such as 'v1.0.0'")


def _check_tag(todo: Plan, tag: str | None) -> None:
    check_tag(tag)
    if tag is None:
        return
    if tag in todo.remote.branches:
        raise HubError(
            f"{todo.remote.repo_id} has a branch {tag!r}: a tag of its name would hide it; choose another one. "
            "Nothing was pushed"
        )
    there = todo.remote.tags.get(tag)
    if there is not None and (todo.changes or there != todo.remote.sha):
        raise HubError(
            f"{todo.remote.repo_id} has the tag {tag} at {there[:8]}, not what would be published; a tag stays "
            "where it is: choose the next version. Nothing was pushed"
        )


def _tag(done: Commit, repo_type: RepoType, tag: str) -> None:
    try:
        api.create_tag(done.repo_id, tag=tag, revision=done.sha, repo_type=repo_type)
    except HfHubHTTPError as error:
        # Made by a call whose answer was lost?
        if status_of(error) != 409 or look(done.repo_id, repo_type).tags.get(tag) != done.sha:
            raise


def _refuse_leaks(folder: Path, names: list[str]) -> None:
    files = [folder / name for name in names]
    token = get_token()
    for name, start in secrets(folder, files, known=[token] if token else []):
        raise HubError(
            f"{name} holds what looks like a secret ({start}): take it out, and revoke it if it is real; nothing was "
            "pushed"
        )
    for name, path in machine_paths(folder, files):
        raise HubError(f"{name} names the path {path!r} of a machine; give a Hub id or a name: nothing was pushed")
