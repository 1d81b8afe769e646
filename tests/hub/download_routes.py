"""From a revision to its files: trees, facts about paths, and the bytes by the ways that the Hub sends clients."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from tests.hub.messages import Answer, HubError, Request, Route, commit_of
from tests.hub.store import Blob, Commit, Repo


def _file(path: str, blob: Blob, commit: Commit, *, expand: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"type": "file", "path": path, "size": blob.size, "oid": blob.git_oid}
    if blob.lfs:
        row["lfs"] = {"oid": blob.sha256, "size": blob.size, "pointerSize": blob.pointer_size}
    if expand:
        row["lastCommit"] = {"id": commit.oid, "title": commit.title, "date": commit.date}
        scan = {"avScan": None, "pickleImportScan": None}
        row["securityFileStatus"] = {"status": "safe", **scan}
    return row


def _folder(path: str) -> dict[str, Any]:
    return {"type": "directory", "path": path, "size": 0, "oid": "0" * 40}


def tree(request: Request, type: str, repo: str, rev: str, path: str = "") -> Answer:
    """The entries below a folder, in pages."""
    commit = commit_of(request.readable(type, repo), rev)
    root = path.strip("/") + "/" if path.strip("/") else ""
    expand, recursive = request.flag("expand"), request.flag("recursive")
    rows: dict[str, dict[str, Any]] = {}
    for name, blob in commit.files.items():
        if not name.startswith(root):
            continue
        parts = name.removeprefix(root).split("/")
        folders = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
        for folder in folders if recursive else folders[:1]:
            rows.setdefault(root + folder, _folder(root + folder))
        if recursive or len(parts) == 1:
            rows[name] = _file(name, blob, commit, expand=expand)
    if root and not rows:
        raise HubError(404, f"{path} does not exist on {rev}", "EntryNotFound")
    start = int(request.query.get("cursor", ["0"])[0])
    stop = start + int(request.query.get("limit", [request.hub.page])[0])
    headers = {}
    if stop < len(rows):
        query = urlencode({"recursive": recursive, "expand": expand, "cursor": stop, "limit": stop - start})
        headers["Link"] = f'<{request.hub.endpoint}{request.path}?{query}>; rel="next"'
    return Answer.json(list(rows.values())[start:stop], headers=headers)


def paths_info(request: Request, type: str, repo: str, rev: str) -> Answer:
    """Facts about paths that exist; the others are left out. The clients send a form, not JSON."""
    commit = commit_of(request.readable(type, repo), rev)
    form = request.form()
    expand = form.get("expand", ["false"])[0].lower() == "true"
    rows = []
    for path in form.get("paths", []):
        if path in commit.files:
            rows.append(_file(path, commit.files[path], commit, expand=expand))
        elif any(name.startswith(path.rstrip("/") + "/") for name in commit.files):
            rows.append(_folder(path.rstrip("/")))
    return Answer.json(rows)


def _entry(found: Repo, rev: str, path: str) -> tuple[Commit, Blob]:
    commit = commit_of(found, rev)
    if path not in commit.files:
        raise HubError(404, "Entry not found", "EntryNotFound")
    return commit, commit.files[path]


def _headers(commit: Commit, blob: Blob, path: str) -> dict[str, str]:
    return {
        "X-Repo-Commit": commit.oid,
        "ETag": f'"{blob.etag}"',
        "Content-Disposition": f"inline; filename*=UTF-8''{quote(path.split('/')[-1])}",
    }


def resolve(request: Request, prefix: str, repo: str, rev: str, path: str) -> Answer:
    """Large files come from the storage, small ones of public repositories from the cache, all others from here."""
    found = request.readable(prefix.rstrip("/") or None, repo)
    try:
        commit, blob = _entry(found, rev, path)
    except HubError as error:
        answer = error.answer()
        if error.code == "EntryNotFound":
            answer.headers["X-Repo-Commit"] = commit_of(found, rev).oid
        return answer
    headers = _headers(commit, blob, path)
    linked = {"X-Linked-Size": str(blob.size), "X-Linked-Etag": f'"{blob.etag}"'}
    if blob.lfs:
        location = request.hub.sign(f"/_cdn/{blob.sha256}")
        return Answer(302, {**headers, **linked, "Location": location})
    if found.private or found.gated:
        return Answer(200, headers, request.store.blob_path(blob.sha256))
    location = f"/api/resolve-cache/{found.type}s/{found.id}/{commit.oid}/{quote(path, safe='')}"
    return Answer(307, {**headers, **linked, "Location": location})


def resolve_cache(request: Request, type: str, repo: str, rev: str, path: str) -> Answer:
    commit, blob = _entry(request.readable(type, repo), rev, path)
    return Answer(200, _headers(commit, blob, path), request.store.blob_path(blob.sha256))


def cdn(request: Request, sha: str) -> Answer:
    """The storage gives the bytes if the address is signed and no account comes with it."""
    if not request.hub.signed(request.path, request.query):
        raise HubError(403, "SignatureDoesNotMatch")
    if "Authorization" in request.headers:
        raise HubError(400, "Only one auth mechanism allowed")
    if not request.store.has(sha):
        raise HubError(404, "NoSuchKey")
    return Answer(200, {"ETag": f'"{sha}"', "Content-Type": "binary/octet-stream"}, request.store.blob_path(sha))


ROUTES = [
    Route("GET", "/api/{type}/{repo}/tree/{rev}", tree),
    Route("GET", "/api/{type}/{repo}/tree/{rev}/{path}", tree),
    Route("POST", "/api/{type}/{repo}/paths-info/{rev}", paths_info),
    Route("GET", "/{prefix}{repo}/resolve/{rev}/{path}", resolve),
    Route("GET", "/api/resolve-cache/{type}/{repo}/{rev}/{path}", resolve_cache),
    Route("GET", "/_cdn/{sha}", cdn, storage=True),
]
