"""From files to a commit: which way each file goes, large files to the storage, then one atomic commit."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.hub.messages import Answer, HubError, Request, Route, commit_of
from tests.hub.store import Blob, Commit, Conflict, is_lfs

LFS = {"Content-Type": "application/vnd.git-lfs+json"}


def preupload(request: Request, type: str, repo: str, rev: str) -> Answer:
    """The mode of each file, and the name of the content that the branch has under its path now."""
    commit = commit_of(request.writable(type, repo), rev)
    rows = []
    for file in request.json()["files"]:
        lfs = is_lfs(file["path"], base64.b64decode(file.get("sample", "")), file["size"])
        there = commit.files.get(file["path"])
        row: dict[str, Any] = {"path": file["path"], "uploadMode": "lfs" if lfs else "regular", "shouldIgnore": False}
        rows.append(row | ({"oid": there.etag} if there else {}))
    return Answer.json({"files": rows, "commitOid": commit.oid})


def lfs_batch(request: Request, prefix: str, repo: str) -> Answer:
    """Where to put large files; those that are here already need no upload."""
    request.writable(prefix.rstrip("/") or None, repo)
    body = request.json()
    objects = []
    for row in body["objects"]:
        objects.append({"oid": row["oid"], "size": row["size"]})
        if not request.store.has(row["oid"]):
            upload = {"href": request.hub.sign(f"/_s3/{row['oid']}")}
            verify = {"href": f"{request.hub.endpoint}/{prefix}{repo}.git/info/lfs/objects/verify"}
            objects[-1]["actions"] = {"upload": upload, "verify": verify}
    return Answer.json({"transfer": "basic", "objects": objects}, headers=LFS)


def lfs_verify(request: Request, prefix: str, repo: str) -> Answer:
    request.writable(prefix.rstrip("/") or None, repo)
    row = request.json()
    path = request.store.blob_path(row["oid"])
    if not path.exists() or path.stat().st_size != row["size"]:
        raise HubError(404, f"Object {row['oid']} does not exist or has another size")
    return Answer.json({"ok": True}, headers=LFS)


def put(request: Request, sha: str) -> Answer:
    """The storage takes the bytes if the address is signed, no account comes with it, and they are the right ones."""
    if not request.hub.signed(request.path, request.query):
        raise HubError(403, "SignatureDoesNotMatch")
    if "Authorization" in request.headers:
        raise HubError(400, "Only one auth mechanism allowed")
    if request.store.write(request.body) != sha:
        raise HubError(400, "The content's sha256 is not the one that was announced")
    return Answer(headers={"ETag": f'"{sha}"'})


def commit(request: Request, type: str, repo: str, rev: str) -> Answer:
    found = request.writable(type, repo)
    if request.flag("create_pr"):
        raise HubError(400, "The loopback Hub has no pull requests")
    if rev not in found.branches:
        raise HubError(404, f"Invalid rev id: {rev}", "RevisionNotFound")
    header, adds, deletes = _operations(request)
    try:
        made = request.store.commit(
            found,
            rev,
            adds,
            deletes,
            title=header.get("summary", ""),
            message=header.get("description", ""),
            author=request.user().user,
            parent=header.get("parentCommit"),
        )
    except Conflict:
        raise HubError(412, "A commit has happened since. Please refresh and try again.") from None
    except KeyError as error:
        text = f"A file with this name doesn't exist: {error.args[0]}"
        raise HubError(404, text, "EntryNotFound") from None
    return Answer.json(_receipt(request, type, repo, made))


def _operations(request: Request) -> tuple[dict[str, Any], dict[str, Blob], list[str]]:
    """The header, the files to add and the paths to delete, from the lines of the body."""
    header: dict[str, Any] = {}
    adds: dict[str, Blob] = {}
    deletes: list[str] = []
    store = request.store
    for line in request.body.splitlines():
        item = json.loads(line)
        value = item["value"]
        if item["key"] == "header":
            header = value
            continue
        path = value["path"]
        if item["key"] == "file":
            adds[path] = store.blob(store.write(base64.b64decode(value["content"])), lfs=False)
        elif item["key"] == "lfsFile":
            if not store.has(value["oid"]):
                raise HubError(400, f"The large file of {path} was not uploaded: {value['oid']}")
            adds[path] = store.blob(value["oid"], lfs=True)
        elif item["key"] == "deletedFile":
            deletes.append(path)
        elif item["key"] == "deletedFolder":
            deletes.append(path.rstrip("/") + "/")
        else:
            raise HubError(400, f"Unknown operation: {item['key']}")
        if path.startswith("/") or ".." in path.split("/") or path.split("/")[0] == ".git":
            raise HubError(400, f"Invalid path: {path}")
    return header, adds, deletes


def _receipt(request: Request, type: str, repo: str, made: Commit) -> dict[str, Any]:
    prefix = "" if type == "models" else f"{type}/"
    url = f"{request.hub.endpoint}/{prefix}{repo}/commit/{made.oid}"
    return {"success": True, "commitOid": made.oid, "commitUrl": url, "hookOutput": ""}


ROUTES = [
    Route("POST", "/api/{type}/{repo}/preupload/{rev}", preupload),
    Route("POST", "/{prefix}{repo}.git/info/lfs/objects/batch", lfs_batch),
    Route("POST", "/{prefix}{repo}.git/info/lfs/objects/verify", lfs_verify),
    Route("PUT", "/_s3/{sha}", put, storage=True),
    Route("POST", "/api/{type}/{repo}/commit/{rev}", commit),
]
