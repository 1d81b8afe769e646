"""What the loopback Hub holds: repositories as git sees them, and the files' bytes by their sha256.

A commit is a whole tree (path -> `Blob`) with a parent, a branch or tag is a name for a commit; bytes lie once in
``blobs/<sha256>``. With a folder given, the state is written after every change and read back by the next server.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

TYPES = ("model", "dataset", "space")
# The Hub sends these to large-file storage whatever their size, and any other file from 10 MB or with binary content.
LFS_SUFFIXES = (".parquet", ".arrow", ".safetensors", ".bin", ".npy", ".npz", ".onnx", ".gz", ".zip", ".whl", ".png")
LFS_SIZE = 10_000_000


class Conflict(Exception):
    """The branch has moved since the commit that the client started from."""


@dataclass(frozen=True)
class Blob:
    """One version of one file. ``git_oid`` is what git would call the object: for LFS, the pointer's."""

    sha256: str
    size: int
    lfs: bool
    git_oid: str

    @property
    def pointer_size(self) -> int:
        return len(pointer(self.sha256, self.size))

    @property
    def etag(self) -> str:
        """The name the Hub's clients know the content by."""
        return self.sha256 if self.lfs else self.git_oid


@dataclass(frozen=True)
class Commit:
    oid: str
    parent: str | None
    title: str
    message: str
    author: str
    date: str
    files: dict[str, Blob]


@dataclass
class Repo:
    type: str
    id: str
    private: bool = False
    gated: bool = False
    granted: list[str] = field(default_factory=list)
    sdk: str | None = None
    created: str = field(default_factory=lambda: now())
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    commits: dict[str, Commit] = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        return self.id.split("/")[0]

    def resolve(self, revision: str) -> Commit | None:
        """The commit that a branch, a tag, a ref or a sha (whole or from 7 digits) names."""
        short = revision.removeprefix("refs/heads/").removeprefix("refs/tags/")
        oid = self.branches.get(short) or self.tags.get(short)
        if oid is None and len(revision) >= 7:
            oid = next((each for each in self.commits if each.startswith(revision)), None)
        return self.commits[oid] if oid else None

    @property
    def head(self) -> Commit:
        return self.commits[self.branches["main"]]

    def history(self, commit: Commit) -> list[Commit]:
        """The commit and its ancestors, newest first."""
        found = [commit]
        while found[-1].parent is not None:
            found.append(self.commits[found[-1].parent])
        return found


class Store:
    """Repositories, collections and bytes. Every change happens under ``lock`` and is whole or not at all."""

    def __init__(self, folder: Path, *, persistent: bool = False) -> None:
        self.folder = folder
        self.persistent = persistent
        self.lock = threading.RLock()
        self.repos: dict[tuple[str, str], Repo] = {}
        self.collections: dict[str, dict[str, Any]] = {}
        for name in ("blobs", "xorbs"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        if persistent and self._state.exists():
            self._load()

    @property
    def _state(self) -> Path:
        return self.folder / "state.json"

    def save(self) -> None:
        """Write the state, whole, if the store outlives its server."""
        if not self.persistent:
            return
        state = {"repos": [asdict(repo) for repo in self.repos.values()], "collections": self.collections}
        staged = self._state.with_suffix(".staged")
        staged.write_text(json.dumps(state), encoding="utf-8")
        os.replace(staged, self._state)

    def _load(self) -> None:
        state = json.loads(self._state.read_text(encoding="utf-8"))
        self.collections = state["collections"]
        for row in state["repos"]:
            for oid, commit in row["commits"].items():
                files = {path: Blob(**blob) for path, blob in commit["files"].items()}
                row["commits"][oid] = Commit(**{**commit, "files": files})
            self.repos[row["type"], row["id"]] = Repo(**row)

    # Bytes ---------------------------------------------------------------------------------------------------------

    def blob_path(self, sha256: str) -> Path:
        return self.folder / "blobs" / sha256

    def has(self, sha256: str) -> bool:
        return self.blob_path(sha256).exists()

    def write(self, content: bytes | BinaryIO) -> str:
        """Keep the bytes and return their sha256."""
        staged = self.folder / "blobs" / f"staged-{uuid4().hex}"
        digest = hashlib.sha256()
        with staged.open("wb") as file:
            chunks = [content] if isinstance(content, bytes) else iter(lambda: content.read(1 << 20), b"")
            for chunk in chunks:
                digest.update(chunk)
                file.write(chunk)
        os.replace(staged, self.blob_path(digest.hexdigest()))
        return digest.hexdigest()

    def read(self, blob: Blob) -> bytes:
        return self.blob_path(blob.sha256).read_bytes()

    def blob(self, sha256: str, *, lfs: bool) -> Blob:
        """Describe bytes that are already here as a file of a tree."""
        path = self.blob_path(sha256)
        size = path.stat().st_size
        content = pointer(sha256, size) if lfs else path.read_bytes()
        return Blob(sha256, size, lfs, git_oid(content))

    def put_xorb(self, hash: str, content: bytes) -> bool:
        """Keep a pack of chunks; false if it is here already."""
        path = self.folder / "xorbs" / hash
        if path.exists():
            return False
        staged = self.folder / "xorbs" / f"staged-{uuid4().hex}"
        staged.write_bytes(content)
        os.replace(staged, path)
        return True

    def xorb(self, hash: str) -> bytes | None:
        path = self.folder / "xorbs" / hash
        return path.read_bytes() if path.exists() else None

    # Repositories --------------------------------------------------------------------------------------------------

    def create(self, type: str, id: str, *, private: bool = False, sdk: str | None = None, author: str = "") -> Repo:
        with self.lock:
            repo = Repo(type, id, private, sdk=sdk)
            self.repos[type, id] = repo
            attributes = "".join(f"*{suffix} filter=lfs diff=lfs merge=lfs -text\n" for suffix in LFS_SUFFIXES)
            first = self.blob(self.write(attributes.encode()), lfs=False)
            self.commit(repo, "main", {".gitattributes": first}, (), title="initial commit", author=author)
            return repo

    def commit(
        self,
        repo: Repo,
        branch: str,
        adds: Mapping[str, Blob],
        deletes: Iterable[str],
        *,
        title: str,
        message: str = "",
        author: str = "",
        parent: str | None = None,
    ) -> Commit:
        """Move the branch to a new commit. ``deletes`` holds paths, folders with a slash at their end.

        Raises:
            Conflict: if ``parent`` is given and the branch is elsewhere.
            KeyError: if a path to delete is not there.
        """
        with self.lock:
            base = repo.branches.get(branch)
            if parent is not None and (base is None or not base.startswith(parent)):
                raise Conflict
            files = dict(repo.commits[base].files) if base else {}
            for path in deletes:
                gone = [each for each in files if each == path or (path.endswith("/") and each.startswith(path))]
                if not gone:
                    raise KeyError(path)
                for each in gone:
                    del files[each]
            files |= adds
            oid = hashlib.sha1(f"{repo.type} {repo.id} {base} {uuid4().hex}".encode()).hexdigest()
            commit = Commit(oid, base, title, message, author, now(), dict(sorted(files.items())))
            repo.commits[oid] = commit
            repo.branches[branch] = oid
            self.save()
            return commit


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def git_oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def pointer(sha256: str, size: int) -> bytes:
    """The text that git keeps in the place of a large file."""
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n".encode()


def is_lfs(path: str, sample: bytes, size: int) -> bool:
    """Whether the Hub would ask for the file through large-file storage."""
    return path.endswith(LFS_SUFFIXES) or size >= LFS_SIZE or b"\0" in sample
