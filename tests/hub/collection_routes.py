"""Collections: a titled list of repositories and papers."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

from tests.hub.accounts import may_see, may_write
from tests.hub.messages import Answer, HubError, Request, Route
from tests.hub.store import TYPES, now

DESCRIPTION, NOTE = 150, 500  # characters
CHANGEABLE = ("title", "description", "private", "position", "theme")


def _visible(request: Request, slug: str, *, write: bool = False) -> dict[str, Any]:
    found = request.store.collections.get(slug)
    account = request.account
    if found is None or (found["private"] and (account is None or found["owner"] not in account.namespaces)):
        raise HubError(404, "Collection not found")
    if write and not may_write(account, found["owner"]):
        raise HubError(401 if account is None else 403, "You don't have the rights to change this collection")
    return found


def _checked(body: dict[str, Any]) -> dict[str, Any]:
    if len(body.get("description") or "") > DESCRIPTION:
        raise HubError(400, f'"description" length must be less than or equal to {DESCRIPTION} characters long')
    if len(body.get("note") or "") > NOTE:
        raise HubError(400, f'"note" length must be less than or equal to {NOTE} characters long')
    return body


def create(request: Request) -> Answer:
    body, user = _checked(request.json()), request.user()
    owner, title = body["namespace"], body["title"]
    if not may_write(user, owner):
        raise HubError(403, f'You don\'t have the rights to create a collection under the namespace "{owner}"')
    with request.store.lock:
        for slug, other in request.store.collections.items():
            if (other["owner"], other["title"]) == (owner, title):
                raise HubError(409, f"This collection exists already: {slug}", slug=slug)
        words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
        slug = f"{owner}/{words}-{uuid4().hex[:24]}"
        collection = {
            "slug": slug,
            "title": title,
            "description": body.get("description"),
            "owner": owner,
            "private": bool(body.get("private")),
            "theme": "orange",
            "upvotes": 0,
            "position": len(request.store.collections),
            "lastUpdated": now(),
            "items": [],
        }
        request.store.collections[slug] = collection
        request.store.save()
    return Answer.json(collection)


def listing(request: Request) -> Answer:
    owners = request.query.get("owner")
    rows = []
    for slug, collection in list(request.store.collections.items()):
        if owners and collection["owner"] not in owners:
            continue
        try:
            found = _visible(request, slug)
        except HubError:
            continue
        rows.append({name: value for name, value in found.items() if name != "position"})
    return Answer.json(rows)


def read(request: Request, slug: str) -> Answer:
    return Answer.json(_visible(request, slug))


def update(request: Request, slug: str) -> Answer:
    found, body = _visible(request, slug, write=True), _checked(request.json())
    with request.store.lock:
        found |= {
            name: body[name] for name in ("title", "description", "private", "position", "theme") if name in body
        }
        found["lastUpdated"] = now()
        request.store.save()
    return Answer.json({"success": True, "data": found})


def delete(request: Request, slug: str) -> Answer:
    _visible(request, slug, write=True)
    with request.store.lock:
        del request.store.collections[slug]
        request.store.save()
    return Answer.json({"success": True})


def add_item(request: Request, slug: str) -> Answer:
    found, body = _visible(request, slug, write=True), _checked(request.json())
    kind, id = body["item"]["type"], body["item"]["id"]
    if kind in TYPES:
        repo = request.store.repos.get((kind, id))
        if repo is None or not may_see(request.account, repo):
            raise HubError(404, f"The {kind} {id} does not exist")
    elif kind != "paper" or not re.fullmatch(r"\d{4}\.\d{4,5}", id):
        raise HubError(404, f"The {kind} {id} does not exist")
    with request.store.lock:
        if any((item["type"], item["id"]) == (kind, id) for item in found["items"]):
            raise HubError(409, f"The {kind} {id} is in the collection already")
        item = {"_id": uuid4().hex[:24], "id": id, "type": kind, "position": len(found["items"])}
        found["items"].append(item | ({"note": {"text": body["note"]}} if body.get("note") else {}))
        found["lastUpdated"] = now()
        request.store.save()
    return Answer.json(found)


def _item(found: dict[str, Any], id: str) -> dict[str, Any]:
    items: list[dict[str, Any]] = found["items"]
    item = next((item for item in items if item["_id"] == id), None)
    if item is None:
        raise HubError(404, "Item not found")
    return item


def update_item(request: Request, slug: str, item: str) -> Answer:
    found, body = _visible(request, slug, write=True), _checked(request.json())
    with request.store.lock:
        row = _item(found, item)
        if "note" in body:
            row["note"] = {"text": body["note"]}
        if "position" in body:
            found["items"].remove(row)
            found["items"].insert(body["position"], row)
        _renumber(found)
        request.store.save()
    return Answer.json({"success": True})


def delete_item(request: Request, slug: str, item: str) -> Answer:
    found = _visible(request, slug, write=True)
    with request.store.lock:
        found["items"].remove(_item(found, item))
        _renumber(found)
        request.store.save()
    return Answer.json({"success": True})


def _renumber(found: dict[str, Any]) -> None:
    for place, item in enumerate(found["items"]):
        item["position"] = place
    found["lastUpdated"] = now()


ROUTES = [
    Route("GET", "/api/collections", listing),
    Route("POST", "/api/collections", create),
    Route("GET", "/api/collections/{slug}", read),
    Route("PATCH", "/api/collections/{slug}", update),
    Route("DELETE", "/api/collections/{slug}", delete),
    Route("POST", "/api/collections/{slug}/items", add_item),
    Route("PATCH", "/api/collections/{slug}/items/{item}", update_item),
    Route("DELETE", "/api/collections/{slug}/items/{item}", delete_item),
]
