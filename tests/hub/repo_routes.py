"""Who am I, and repositories as a whole: create, delete, describe, list, settings, branches, tags, history."""

from __future__ import annotations

import re
from typing import Any

import yaml

from tests.hub.accounts import may_see, may_write
from tests.hub.card_rules import problems
from tests.hub.messages import Answer, HubError, Request, Route, commit_of
from tests.hub.store import TYPES, Commit, Repo, Store

NAME = re.compile(r"(?!.*(\.\.|--))[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?")


def whoami(request: Request) -> Answer:
    return Answer.json(request.user().describe())


def agent_harnesses(request: Request) -> Answer:
    return Answer.json({})


def validate_yaml(request: Request) -> Answer:
    body = request.json()
    errors, warnings = problems(body.get("content", ""), body.get("repoType", "model"))
    answer: dict[str, Any] = {"errors": errors, "warnings": warnings}
    if errors:
        answer["error"] = "Invalid YAML metadata"
    return Answer.json(answer, status=400 if errors else 200)


def create(request: Request) -> Answer:
    body, user = request.json(), request.user()
    kind, name = body.get("type") or "model", body.get("name", "")
    namespace = body.get("organization") or user.user
    if kind not in TYPES:
        raise HubError(400, f'"type" must be one of {", ".join(TYPES)}')
    if not NAME.fullmatch(name):
        raise HubError(400, f"Invalid repository name: {name!r}")
    if not may_write(user, namespace):
        text = f'You don\'t have the rights to create a {kind} under the namespace "{namespace}"'
        raise HubError(403, text)
    if kind == "space" and body.get("sdk") not in ("gradio", "docker", "static"):
        raise HubError(400, '"sdk" must be one of gradio, docker, static')
    id = f"{namespace}/{name}"
    url = f"{request.hub.endpoint}/{'' if kind == 'model' else kind + 's/'}{id}"
    with request.store.lock:
        if (kind, id) in request.store.repos:
            raise HubError(409, f"You already created this {kind} repo: {id}", url=url)
        private = body.get("private") is True or body.get("visibility") == "private"
        repo = request.store.create(kind, id, private=private, sdk=body.get("sdk"), author=user.user)
    return Answer.json({"url": url, "name": id, "id": repo.head.oid[:24]})


def delete(request: Request) -> Answer:
    body, user = request.json(), request.user()
    repo = request.writable(body.get("type"), f"{body.get('organization') or user.user}/{body.get('name')}")
    with request.store.lock:
        del request.store.repos[repo.type, repo.id]
        request.store.save()
    return Answer.json({"ok": True})


def settings(request: Request, type: str, repo: str) -> Answer:
    found, body = request.writable(type, repo), request.json()
    with request.store.lock:
        if "private" in body or "visibility" in body:
            found.private = body.get("private") is True or body.get("visibility") == "private"
        if "gated" in body:
            found.gated = bool(body["gated"])
        request.store.save()
    return Answer.json({"private": found.private, "gated": found.gated})


def describe(store: Store, repo: Repo, commit: Commit) -> dict[str, Any]:
    """A repository as its info and its list show it; tags and library come from the card at that commit."""
    card = card_data(store, commit)
    tags = [str(tag) for tag in card.get("tags") or []]
    tags += [f"{name}:{card[name]}" for name in ("license",) if name in card]
    info: dict[str, Any] = {
        "_id": repo.commits[next(iter(repo.commits))].oid[:24],
        "id": repo.id,
        "author": repo.namespace,
        "sha": commit.oid,
        "createdAt": repo.created,
        "lastModified": commit.date,
        "private": repo.private,
        "gated": "auto" if repo.gated else False,
        "disabled": False,
        "downloads": 0,
        "likes": 0,
        "tags": tags,
        "cardData": card or None,
        "siblings": [{"rfilename": path} for path in commit.files],
    }
    if repo.type == "model":
        info |= {"modelId": repo.id}
        info |= {name: card[name] for name in ("library_name", "pipeline_tag") if name in card}
    if repo.type == "space":
        info |= {"sdk": card.get("sdk", repo.sdk), "runtime": runtime_of(repo)}
    return info


def card_data(store: Store, commit: Commit) -> dict[str, Any]:
    blob = commit.files.get("README.md")
    text = store.read(blob).decode("utf-8", errors="replace") if blob else ""
    found = re.match(r"---\s*\n(.*?)\n---\s*(?:\n|$)", text, re.DOTALL)
    try:
        card = yaml.safe_load(found[1]) if found else {}
    except yaml.YAMLError:
        card = {}
    return card if isinstance(card, dict) else {}


def info(request: Request, type: str, repo: str, rev: str = "main") -> Answer:
    found = request.repo(type, repo)
    commit = commit_of(found, rev)
    described = describe(request.store, found, commit)
    if request.flag("blobs"):
        for row in described["siblings"]:
            blob = commit.files[row["rfilename"]]
            row |= {"size": blob.size, "blobId": blob.git_oid}
            if blob.lfs:
                row["lfs"] = {"sha256": blob.sha256, "size": blob.size, "pointerSize": blob.pointer_size}
    expand = request.query.get("expand") or request.query.get("expand[]")
    if expand:
        described = {name: value for name, value in described.items() if name in ("_id", "id", *expand)}
    return Answer.json(described)


def listing(kind: str, request: Request) -> Answer:
    """Repositories of one type, newest first, by author, search words and tags."""
    query = request.query
    author, limit = query.get("author", [None])[0], int(query.get("limit", ["1000"])[0])
    words = query.get("search", [""])[0].lower()
    rows = [
        describe(request.store, repo, repo.head)
        for repo in list(request.store.repos.values())
        if repo.type == kind and may_see(request.account, repo) and author in (None, repo.namespace)
    ]
    wanted = set(query.get("filter", []))
    rows = [row for row in rows if words in row["id"].lower() and wanted <= {*row["tags"], row.get("library_name")}]
    rows.sort(key=lambda row: row["lastModified"], reverse=True)
    return Answer.json(rows[:limit])


def auth_check(request: Request, type: str, repo: str) -> Answer:
    request.readable(type, repo)
    return Answer.json({"ok": True})


def auth_check_write(request: Request, type: str, repo: str) -> Answer:
    request.writable(type, repo)
    return Answer.json({"ok": True})


def refs(request: Request, type: str, repo: str) -> Answer:
    found = request.repo(type, repo)

    def rows(names: dict[str, str], folder: str) -> list[dict[str, str]]:
        return [{"name": n, "ref": f"refs/{folder}/{n}", "targetCommit": oid} for n, oid in names.items()]

    answer: dict[str, Any] = {"branches": rows(found.branches, "heads"), "tags": rows(found.tags, "tags")}
    return Answer.json(answer | {"converts": [], "pullRequests": []})


def create_tag(request: Request, type: str, repo: str, rev: str) -> Answer:
    found, name = request.writable(type, repo), request.json().get("tag", "")
    with request.store.lock:
        commit = commit_of(found, rev)
        if name in found.tags:
            raise HubError(409, f"Tag reference exists already: {name}")
        found.tags[name] = commit.oid
        request.store.save()
    return Answer.json({"ok": True}, status=201)


def delete_tag(request: Request, type: str, repo: str, rev: str) -> Answer:
    found = request.writable(type, repo)
    with request.store.lock:
        if rev not in found.tags:
            raise HubError(404, f"Invalid rev id: {rev}", "RevisionNotFound")
        del found.tags[rev]
        request.store.save()
    return Answer.json({"ok": True})


def create_branch(request: Request, type: str, repo: str, rev: str) -> Answer:
    found = request.writable(type, repo)
    with request.store.lock:
        commit = commit_of(found, request.json().get("startingPoint") or "main")
        if rev in found.branches:
            raise HubError(409, f"Reference already exists: {rev}")
        found.branches[rev] = commit.oid
        request.store.save()
    return Answer.json({"ok": True}, status=201)


def delete_branch(request: Request, type: str, repo: str, rev: str) -> Answer:
    found = request.writable(type, repo)
    with request.store.lock:
        if rev == "main":
            raise HubError(403, "Cannot delete the main branch")
        if rev not in found.branches:
            raise HubError(404, f"Invalid rev id: {rev}", "RevisionNotFound")
        del found.branches[rev]
        request.store.save()
    return Answer.json({"ok": True})


def commits(request: Request, type: str, repo: str, rev: str) -> Answer:
    found = request.repo(type, repo)
    rows = [
        {
            "id": commit.oid,
            "title": commit.title,
            "message": commit.message,
            "date": commit.date,
            "authors": [{"user": commit.author or "system"}],
        }
        for commit in found.history(commit_of(found, rev))
    ]
    return Answer.json(rows)


def runtime_of(repo: Repo) -> dict[str, Any]:
    stage = "RUNNING" if len(repo.commits) > 1 else "NO_APP_FILE"
    return {"stage": stage, "hardware": {"current": "cpu-basic", "requested": "cpu-basic"}, "storage": None}


def runtime(request: Request, repo: str) -> Answer:
    return Answer.json(runtime_of(request.repo("spaces", repo)) | {"gcTimeout": 172800})


ROUTES = [
    Route("GET", "/api/whoami-v2", whoami),
    Route("GET", "/api/agent-harnesses", agent_harnesses),
    Route("POST", "/api/validate-yaml", validate_yaml),
    Route("POST", "/api/repos/create", create),
    Route("DELETE", "/api/repos/delete", delete),
    Route("GET", "/api/models", lambda request: listing("model", request)),
    Route("GET", "/api/datasets", lambda request: listing("dataset", request)),
    Route("GET", "/api/spaces", lambda request: listing("space", request)),
    Route("GET", "/api/spaces/{repo}/runtime", runtime),
    Route("GET", "/api/{type}/{repo}", info),
    Route("GET", "/api/{type}/{repo}/revision/{rev}", info),
    Route("PUT", "/api/{type}/{repo}/settings", settings),
    Route("GET", "/api/{type}/{repo}/auth-check", auth_check),
    Route("GET", "/api/{type}/{repo}/auth-check/write", auth_check_write),
    Route("GET", "/api/{type}/{repo}/refs", refs),
    Route("GET", "/api/{type}/{repo}/commits/{rev}", commits),
    Route("POST", "/api/{type}/{repo}/tag/{rev}", create_tag),
    Route("DELETE", "/api/{type}/{repo}/tag/{rev}", delete_tag),
    Route("POST", "/api/{type}/{repo}/branch/{rev}", create_branch),
    Route("DELETE", "/api/{type}/{repo}/branch/{rev}", delete_branch),
]
