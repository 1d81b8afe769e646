"""What there is on the Hub, and whether the token at hand may change it."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from huggingface_hub import HfApi, constants, get_token
from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils._validators import validate_repo_id

from dataset_builders.description import check_size, read_description
from dataset_builders.hub_errors import HubError, ask, offline

RepoType = Literal["model", "dataset", "space"]

api = HfApi(library_name="slant")


@dataclass(frozen=True)
class Blob:
    """One file on the Hub; ``oid`` is the SHA-256 of its bytes where it lies in LFS, else its git blob id."""

    size: int
    oid: str
    lfs: bool

    def is_like(self, path: Path) -> bool:
        """Whether a local file holds the same bytes."""
        if path.stat().st_size != self.size:
            return False
        with path.open("rb") as file:
            if self.lfs:
                return hashlib.file_digest(file, "sha256").hexdigest() == self.oid
            return hashlib.sha1(b"blob %d\0" % self.size + file.read()).hexdigest() == self.oid


@dataclass(frozen=True)
class Remote:
    """A repository as it stands at the head of ``main``.

    Attributes:
        repo_id: ``org/name``.
        repo_type: ``model``, ``dataset`` or ``space``.
        sha: The head; None if there is no such repository, as far as the token can tell.
        private: Whether it is; None if there is none.
        files: By path.
        tags: The commit of each tag.
        branches: Their names.
    """

    repo_id: str
    repo_type: RepoType
    sha: str | None = None
    private: bool | None = None
    files: dict[str, Blob] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    branches: frozenset[str] = frozenset()


def check_name(repo_id: str) -> None:
    """Refuse what cannot be the id of a repository, and to go on where ``HF_HUB_OFFLINE`` is set.

    Raises:
        HubError: With what an id may hold.
    """
    try:
        validate_repo_id(repo_id)
        named = repo_id.count("/") == 1
    except HFValidationError:
        named = False
    if not named:
        raise HubError(
            f"got the repository {repo_id!r}, wanted organisation/name, each of letters, digits, '-', '_' and '.', "
            "96 characters at most; nothing was pushed"
        )
    if constants.HF_HUB_OFFLINE:
        raise offline("publish")


def check_access(repo_id: str) -> None:
    """See to it that there is a token, that it may write, and that the organisation is one of its own.

    A fine-grained token does not say all of this; the Hub has the last word on it.

    Raises:
        HubError: One sentence for each.
    """
    check_name(repo_id)
    if get_token() is None:
        raise HubError("there is no token: set HF_TOKEN or run `hf auth login`; nothing was pushed")
    me = ask(repo_id, lambda: api.whoami(cache=True))
    role = me.get("auth", {}).get("accessToken", {}).get("role")
    if role == "read":
        raise HubError(
            f"the token is read-only: use one that may write to {repo_id} (your Hub settings); nothing was pushed"
        )
    org, own = repo_id.split("/")[0], [me["name"], *(o["name"] for o in me.get("orgs", []))]
    if org not in own and role == "write":
        raise HubError(
            f"the organisation {org!r} does not exist, or {me['name']} is no member of it; wanted one of {own}: "
            "nothing was pushed"
        )


def look(repo_id: str, repo_type: RepoType) -> Remote:
    """What there is on the Hub.

    Raises:
        HubError: If the Hub cannot be reached or refuses.
    """
    check_name(repo_id)
    return ask(repo_id, lambda: _look(repo_id, repo_type))


def _look(repo_id: str, repo_type: RepoType) -> Remote:
    try:
        info = api.repo_info(repo_id, repo_type=repo_type)
    except RepositoryNotFoundError:
        return Remote(repo_id, repo_type)
    # The tree of that very commit, whatever happens to the head meanwhile.
    tree = api.list_repo_tree(repo_id, repo_type=repo_type, revision=info.sha, recursive=True)
    files = {
        f.path: Blob(f.size, f.lfs.sha256 if f.lfs else f.blob_id, f.lfs is not None)
        for f in tree
        if isinstance(f, RepoFile)
    }
    refs = api.list_repo_refs(repo_id, repo_type=repo_type)
    tags = {tag.name: tag.target_commit for tag in refs.tags}
    branches = frozenset(branch.name for branch in refs.branches)
    return Remote(repo_id, repo_type, info.sha, info.private, files, tags, branches)


def read_text(remote: Remote, path: str) -> str | None:
    """One file of the head that describes something, line ends as they are; None if there is none.

    Raises:
        HubError: If the Hub cannot be reached or refuses.
        ValueError: If the file is no UTF-8, or larger than a description; it is then not fetched.
    """
    if path not in remote.files:
        return None
    where = f"{remote.repo_id}/{path}"
    check_size(remote.files[path].size, where)
    with tempfile.TemporaryDirectory() as cache:
        file = ask(
            remote.repo_id,
            lambda: api.hf_hub_download(
                remote.repo_id, path, repo_type=remote.repo_type, revision=remote.sha, cache_dir=cache
            ),
        )
        return read_description(Path(file), where)
