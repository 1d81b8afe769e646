"""The loopback Hub: two HTTP servers on 127.0.0.1, the Hub itself and, as another origin, its storage."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import logging
import secrets
import select
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.hub import collection_routes, download_routes, repo_routes, upload_routes, xet_routes
from tests.hub.accounts import ORGANISATIONS, Account, accounts
from tests.hub.faults import MESSAGES, CutDownload, CutUpload, Damage, Fault, Faults, Hold, LoseAnswer, Status
from tests.hub.messages import Answer, HubError, Request, Route
from tests.hub.request_log import Entry, RequestLog
from tests.hub.store import Store

logger = logging.getLogger(__name__)

ROUTES: list[Route] = [
    *repo_routes.ROUTES,
    *collection_routes.ROUTES,
    *upload_routes.ROUTES,
    *download_routes.ROUTES,
    *xet_routes.ROUTES,
]
# What is served, for reports: "METHOD template".
ENDPOINTS = [f"{route.method} {'(storage) ' if route.storage else ''}{route.template}" for route in ROUTES]
UNSERVED = "(not served)"


class LoopbackHub:
    """A Hub of one's own, for the time of a ``with`` block.

    Attributes:
        endpoint: what clients get as HF_ENDPOINT.
        storage: the second origin, from which large files come.
        errors: exceptions that escaped a route, for tests to look at.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        port: int = 0,
        organisations: tuple[str, ...] = ORGANISATIONS,
    ) -> None:
        self._own = tempfile.TemporaryDirectory(prefix="loopback-hub-") if folder is None else None
        self.store = Store(folder or Path(self._own.name), persistent=folder is not None)  # type: ignore[union-attr]
        self.accounts = accounts(organisations)
        self.faults = Faults()
        self.log = RequestLog()
        self.errors: list[BaseException] = []
        self.page = 1000
        self.xet_token = f"xet-{secrets.token_hex(8)}"
        self._secret = secrets.token_bytes(16)
        self._servers = [_Server(self, port, storage=False), _Server(self, 0, storage=True)]
        self.endpoint, self.storage = (f"http://127.0.0.1:{server.server_port}" for server in self._servers)

    def __enter__(self) -> LoopbackHub:
        for server in self._servers:
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()
        if self._own:
            self._own.cleanup()

    def sign(self, path: str) -> str:
        """The address under which the storage gives or takes this path, without an account."""
        return f"{self.storage}{path}?signature={self._signature(path)}"

    def signed(self, path: str, query: dict[str, list[str]]) -> bool:
        return hmac.compare_digest(query.get("signature", [""])[0], self._signature(path))

    def _signature(self, path: str) -> str:
        return hmac.new(self._secret, path.encode(), hashlib.sha256).hexdigest()

    def kind(self, method: str, path: str, *, storage: bool) -> str:
        """The template of the endpoint that a request meets."""
        route, _ = _route(method, path, storage=storage)
        return UNSERVED if route is None else f"{'(storage) ' if storage else ''}{route.template}"

    def answer(self, request: Request, *, storage: bool) -> Answer:
        route, values = _route(request.method, request.path, storage=storage)
        try:
            if route is None:
                raise HubError(404, f"The loopback Hub does not serve {request.method} {request.path}")
            return route.answer(request, **values)
        except HubError as error:
            return error.answer()


def _route(method: str, path: str, *, storage: bool) -> tuple[Route | None, dict[str, str]]:
    for route in ROUTES:
        if route.storage == storage and (values := route.match(method, path)) is not None:
            return route, values
    return None, {}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, hub: LoopbackHub, port: int, *, storage: bool) -> None:
        self.hub = hub
        self.storage = storage
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections end at any time, clients are killed; everything else is a fault of this server."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, ConnectionError):
            self.hub.errors.append(error)
            logger.error("the loopback Hub failed", exc_info=error)


class _Cut(Exception):
    """The connection is to be closed, or was."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """The request log does that."""

    def _serve(self) -> None:
        hub = self.server.hub
        url = urlsplit(self.path)
        fault = hub.faults.take(self.command, unquote(url.path))
        kind = hub.kind(self.command, url.path, storage=self.server.storage)
        self.entry = Entry(self.command, unquote(url.path), kind, type(fault).__name__ if fault else None)
        hub.log.add(self.entry)
        try:
            body = self._read(fault)
            if isinstance(fault, Hold) and not fault.done:
                self._hold(fault)
            account, refused = self._account()
            self.entry.user = account.user if account else None
            request = Request(hub, self.command, url.path, parse_qs(url.query), self.headers, body, account)
            if isinstance(fault, Status):
                answer = HubError(fault.status, MESSAGES.get(fault.status, "Fault")).answer()
                answer.headers |= fault.headers
            elif refused:
                answer = HubError(401, MESSAGES[401]).answer()
            else:
                answer = hub.answer(request, storage=self.server.storage)
            if isinstance(fault, Hold) and fault.done:
                self._hold(fault)
            if isinstance(fault, LoseAnswer):
                raise _Cut
            self._write(answer, fault)
        except (_Cut, ConnectionError):
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

    def _hold(self, fault: Hold) -> None:
        """Wait. A client that has gone in the meantime counts as one whose request never came.

        Raises:
            _Cut: if it has.
        """
        fault.reached.set()
        fault.release.wait()
        if select.select([self.connection], [], [], 0)[0] and not self.connection.recv(1, socket.MSG_PEEK):
            raise _Cut

    def _account(self) -> tuple[Account | None, bool]:
        """Who asks, and whether the token is one that nobody has. The storage knows no accounts."""
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        if self.server.storage or not scheme:
            return None, False
        account = self.server.hub.accounts.get(token)
        return account, account is None

    def _read(self, fault: Fault | None) -> bytes:
        """The request's body, whole.

        Raises:
            _Cut: if the client went away, or is to be cut off.
        """
        parts = []
        limit = fault.after if isinstance(fault, CutUpload) else None
        for size in self._sizes():
            part = self.rfile.read(size if limit is None else min(size, limit - self.entry.bytes_up))
            parts.append(part)
            self.entry.bytes_up += len(part)
            if len(part) < size:
                raise _Cut
        if limit is not None:
            raise _Cut
        return b"".join(parts)

    def _sizes(self) -> Iterator[int]:
        """The sizes of the body's pieces as they lie in the stream."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            yield int(self.headers.get("Content-Length", 0))
            return
        while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
            yield size
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass

    def _write(self, answer: Answer, fault: Fault | None) -> None:
        size = answer.body.stat().st_size if isinstance(answer.body, Path) else len(answer.body)
        start, stop = 0, size
        if isinstance(answer.body, Path):
            answer.headers["Accept-Ranges"] = "bytes"
            if wanted := self.headers.get("Range"):
                start, stop = _range(wanted, size)
                if start >= stop:
                    answer = Answer(416, {"Content-Range": f"bytes */{size}"})
                    start = stop = 0
                else:
                    answer.status = 206
                    answer.headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        self.entry.status = answer.status
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(stop - start))
        self.end_headers()
        if self.command == "HEAD":
            return
        limit = fault.after if isinstance(fault, CutDownload) else None
        for piece in _pieces(answer.body, start, stop):
            if isinstance(fault, Damage) and self.entry.bytes_down <= fault.at < self.entry.bytes_down + len(piece):
                damaged = bytearray(piece)
                damaged[fault.at - self.entry.bytes_down] ^= 1
                piece = bytes(damaged)
            if limit is not None:
                piece = piece[: limit - self.entry.bytes_down]
            self.entry.bytes_down += len(piece)
            self.wfile.write(piece)
            if limit is not None and self.entry.bytes_down >= limit:
                self.wfile.flush()
                raise _Cut


def _range(header: str, size: int) -> tuple[int, int]:
    """The half-open range of bytes that one ``bytes=`` range means; empty if it cannot be met."""
    first, _, last = header.removeprefix("bytes=").partition("-")
    if not first:
        return max(size - int(last), 0), size
    return int(first), min(int(last) + 1, size) if last else size


def _pieces(body: bytes | Path, start: int, stop: int) -> Iterator[bytes]:
    if isinstance(body, bytes):
        if body[start:stop]:
            yield body[start:stop]
        return
    with body.open("rb") as file:
        file.seek(start)
        while start < stop and (piece := file.read(min(1 << 16, stop - start))):
            start += len(piece)
            yield piece
