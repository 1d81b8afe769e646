"""A real chat endpoint on the loopback interface, whose behaviour is a Python function."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Fault:
    """An answer that is not simply a good one.

    Attributes:
        status: HTTP status; with 200, ``text`` is a reply that ends for ``finish_reason``.
        text: The reply, or the body of the error.
        raw: A body to send as it is, in place of a chat completion.
        late: Nothing comes before the endpoint is closed: the client's timeout ends it.
        cut: The connection is closed without an answer.
        drip: What an answer begins with, and after it blanks without an end, one at a time.
    """

    status: int = 200
    text: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    finish_reason: str = "stop"
    raw: str | None = None
    late: bool = False
    cut: bool = False
    drip: bytes | None = None


def truncated(text: str) -> Fault:
    return Fault(text=text, finish_reason="length")


def too_many(retry_after: str = "0") -> Fault:
    return Fault(status=429, text="slow down", headers={"Retry-After": retry_after})


Answer = Callable[[dict[str, Any]], str | Fault]


class Endpoint:
    """What a test sees of it: its address, the bodies and headers that it was sent, and a way to stop it."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        handler = type("Handler", (_Handler,), {"endpoint": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def questions(self) -> list[str]:
        """The last message of each request, in the order in which they came in."""
        return [body["messages"][-1]["content"] for body in self.bodies]

    def note(self, body: dict[str, Any], headers: dict[str, str]) -> None:
        with self._lock:
            self.bodies.append(body)
            self.headers.append(headers)

    def wait_until_closed(self, seconds: float | None = None) -> bool:
        return self._closing.wait(seconds)

    def close(self) -> None:
        """Stop: from now on the address refuses connections."""
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        for connection in tuple(self._server.open):
            with contextlib.suppress(OSError):  # the other side may have closed it
                connection.shutdown(socket.SHUT_RDWR)


class _Server(ThreadingHTTPServer):
    """Knows its open connections: a client that keeps one alive would otherwise be answered after the end."""

    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        self.open: set[socket.socket] = set()
        super().__init__(*arguments)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients are killed in the middle of a request: no fault of this server."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.open.discard(request)
        super().shutdown_request(request)


class _Handler(BaseHTTPRequestHandler):
    endpoint: Endpoint
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.endpoint.note(body, {k.lower(): v for k, v in self.headers.items()})
        if self.path != "/v1/chat/completions":
            return self._send(404, {}, '{"error": "no such route"}')
        answer = self.endpoint.answer(body)
        fault = Fault(text=answer) if isinstance(answer, str) else answer
        if fault.late:
            self.endpoint.wait_until_closed()
        if fault.drip is not None:
            with contextlib.suppress(OSError):
                self.wfile.write(fault.drip)
                while not self.endpoint.wait_until_closed(0.02):
                    self.wfile.write(b" ")
        if fault.late or fault.cut or fault.drip is not None:
            self.close_connection = True
            return None
        if fault.raw is not None:
            return self._send(fault.status, fault.headers, fault.raw)
        if fault.status != 200:
            return self._send(fault.status, fault.headers, json.dumps({"error": {"message": fault.text}}))
        return self._send(200, fault.headers, json.dumps(_completion(body, fault)))

    def _send(self, status: int, headers: dict[str, str], body: str) -> None:
        content = body.encode("utf-8", "surrogatepass")
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


def _completion(body: dict[str, Any], fault: Fault) -> dict[str, Any]:
    """A chat completion that counts words for tokens."""
    prompt = sum(len(m["content"].split()) for m in body["messages"])
    reply = len(fault.text.split())
    message = {"role": "assistant", "content": fault.text}
    return {
        "id": "chat-1",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": fault.finish_reason}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": reply, "total_tokens": prompt + reply},
    }


@contextmanager
def endpoint(answer: Answer) -> Iterator[Endpoint]:
    """A running endpoint, closed at the end."""
    running = Endpoint(answer)
    try:
        yield running
    finally:
        running.close()


def refusing_url() -> str:
    """An address where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"
