"""A request as the routes see it, the answer they give, and the errors with the Hub's own codes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

from tests.hub.accounts import Account, may_download, may_see, may_write
from tests.hub.store import Commit, Repo, Store

if TYPE_CHECKING:
    from tests.hub.server import LoopbackHub


class HubError(Exception):
    """An answer that is no success. ``code`` is the X-Error-Code by which clients tell errors apart."""

    def __init__(self, status: int, message: str, code: str | None = None, **body: Any) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.body = body

    def answer(self) -> Answer:
        headers = {"X-Error-Message": self.message}
        if self.code:
            headers["X-Error-Code"] = self.code
        return Answer.json({"error": self.message, **self.body}, status=self.status, headers=headers)


@dataclass
class Answer:
    """``body`` is bytes, or a file of which the handler sends what the Range header asks for."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | Path = b""

    @classmethod
    def json(cls, value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
        kind = {"Content-Type": "application/json; charset=utf-8"}
        return cls(status, {**kind, **(headers or {})}, json.dumps(value).encode())


@dataclass(frozen=True)
class Request:
    hub: LoopbackHub
    method: str
    path: str  # as it came, percent-encoded
    query: dict[str, list[str]]
    headers: Message
    body: bytes
    account: Account | None

    @property
    def store(self) -> Store:
        return self.hub.store

    def json(self) -> Any:
        try:
            return json.loads(self.body or b"{}")
        except ValueError as error:
            raise HubError(400, f"The body is not JSON: {error}") from None

    def form(self) -> dict[str, list[str]]:
        return parse_qs(self.body.decode())

    def flag(self, name: str) -> bool:
        return self.query.get(name, ["false"])[0].lower() in ("1", "true")

    def user(self) -> Account:
        """Who asks.

        Raises:
            HubError: 401, if nobody is logged in.
        """
        if self.account is None:
            raise HubError(401, "Invalid username or password.")
        return self.account

    def repo(self, kind: str | None, id: str) -> Repo:
        """The repository, if the account may know of it.

        Args:
            kind: "models", "datasets", "spaces", or None as in the web address of a model.
        """
        repo = self.store.repos.get(((kind or "models").removesuffix("s"), id))
        if repo is None or not may_see(self.account, repo):
            if self.account is None:
                raise HubError(401, "Invalid username or password.", "RepoNotFound")
            raise HubError(404, "Repository not found", "RepoNotFound")
        return repo

    def readable(self, kind: str | None, id: str) -> Repo:
        """The repository, if the account may download from it."""
        repo = self.repo(kind, id)
        if not may_download(self.account, repo):
            where = f"{self.hub.endpoint}/{repo.id}"
            if self.account is None:
                text = (
                    f"Access to {repo.type} {repo.id} is restricted. You must be authenticated to access it: {where}"
                )
                raise HubError(401, text, "GatedRepo")
            text = f"Access to {repo.type} {repo.id} is restricted and you are not in the authorized list: {where}"
            raise HubError(403, text, "GatedRepo")
        return repo

    def writable(self, kind: str | None, id: str) -> Repo:
        """The repository, if the account may change it."""
        repo = self.repo(kind, id)
        self.user()
        if not may_write(self.account, repo.namespace):
            raise HubError(403, "Forbidden: pass a token with write access to this resource")
        return repo


def commit_of(repo: Repo, revision: str) -> Commit:
    commit = repo.resolve(revision)
    if commit is None:
        raise HubError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
    return commit


PATTERNS = {
    "type": "models|datasets|spaces",
    "prefix": "(?:datasets/|spaces/)?",
    "repo": "[^/]+/[^/]+",
    "slug": "[^/]+/[^/]+",
    "path": ".+",
}


class Route:
    """One endpoint: a method, a template as in the list of endpoints, and the function that answers."""

    def __init__(self, method: str, template: str, answer: Callable[..., Answer], *, storage: bool = False) -> None:
        self.method = method
        self.template = template
        self.answer = answer
        self.storage = storage
        parts = re.split(r"\{(\w+)\}", template)
        pattern = "".join(
            re.escape(part) if place % 2 == 0 else f"(?P<{part}>{PATTERNS.get(part, '[^/]+')})"
            for place, part in enumerate(parts)
        )
        self._pattern = re.compile(pattern)

    def match(self, method: str, path: str) -> dict[str, str] | None:
        """The template's values, decoded, or None if the route is another's."""
        if method != self.method and not (method == "HEAD" and self.method == "GET"):
            return None
        found = self._pattern.fullmatch(path)
        return {name: unquote(value) for name, value in found.groupdict().items()} if found else None
