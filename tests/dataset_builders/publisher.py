"""Run ``python -m dataset_builders`` many times against one loopback Hub without paying its imports each time.

One process imports everything, with the environment that the clients read at import, and forks for each command: what
runs is the real command with the real clients, in a process of its own that can be killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.hub.accounts import TOKENS
from tests.hub.clients import TestHub
from tests.toughness.endings import Ending

NAME = "my-stance-arguments"
STOPPED = 1000
"""In place of an exit code: the command stands still."""


def claims(path: Path, words: tuple[str, ...] = ("one", "two", "three", "four"), **more: Any) -> Path:
    """Stance data in short form: train, train, validation, test."""
    splits = ("train", "train", "validation", "test", "test")
    rows = [
        {
            "claim": f"Claim {word} holds.",
            "support": [f"Because {word} is so."],
            "attack": [f"But {word} is not so."],
            "split": split,
            "licence": "cc0-1.0",
            **more,
        }
        for word, split in zip(words, splits, strict=False)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def commits(hub: TestHub, name: str = NAME) -> int:
    """Commits beside the one that a repository starts with."""
    return len(hub.repo("dataset", f"org/{name}").commits) - 1


@dataclass
class Done:
    """How a command ended: ``code`` is negative for a signal; ``output`` holds stdout and stderr."""

    code: int
    output: str


class Running:
    def __init__(self, publisher: Publisher, pid: int, output: Path) -> None:
        self._publisher, self.pid, self._output = publisher, pid, output

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def go_on(self) -> None:
        """After it was stopped."""
        os.kill(self.pid, signal.SIGCONT)

    def wait(self) -> Done:
        """Wait until it has ended, or stands still (`STOPPED`)."""
        code = self._publisher.ask({"wait": self.pid})
        return Done(code, self._output.read_text())

    def settle(self, seconds: float = 60.0) -> None:
        """Wait until it has ended, or waits for a lock that another one holds; or for so long."""
        end = time.monotonic() + seconds
        while not self.has_ended() and not self._waits() and time.monotonic() < end:
            time.sleep(0.02)

    def has_ended(self) -> bool:
        """Whether it has, and nobody has waited for it yet."""
        with open(f"/proc/{self.pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"

    def _waits(self) -> bool:
        with open("/proc/locks") as locks:
            return any(line.split()[1] == "->" and int(line.split()[5]) == self.pid for line in locks)


class Publisher:
    """Forks commands; a context manager."""

    module = "tests.dataset_builders.publisher"

    def __init__(self, hub: TestHub, env: Mapping[str, str] | None = None) -> None:
        self.hub = hub
        self._env = dict(env or {})
        self._outputs = tempfile.TemporaryDirectory(prefix="publisher-")
        self._count = 0

    def __enter__(self) -> Publisher:
        self._process = subprocess.Popen(
            [sys.executable, "-m", self.module],
            # What a killed command has staged goes with the rest.
            env=self.hub.environment(token=None, env={"TMPDIR": self._outputs.name, **self._env}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._outputs.cleanup()

    def ask(self, order: dict[str, Any]) -> int:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def start(
        self,
        *argv: object,
        token: str | None = TOKENS.write,
        read_back: bool = True,
        ending: Ending | None = None,
    ) -> Running:
        """Start a command.

        Args:
            argv: After ``python -m dataset_builders``.
            token: The token that the environment holds.
            read_back: False where the test is about what happens before, and looks at the repository itself.
            ending: How it is to end; by default in its own way.
        """
        self._count += 1
        output = Path(self._outputs.name) / str(self._count)
        order = {"argv": [str(a) for a in argv], "token": token, "output": str(output), "read_back": read_back}
        if ending is not None:
            order["ending"] = asdict(ending)
        return Running(self, self.ask(order), output)

    def run(
        self,
        *argv: object,
        token: str | None = TOKENS.write,
        read_back: bool = True,
        ending: Ending | None = None,
    ) -> Done:
        """Run a command to its end."""
        return self.start(*argv, token=token, read_back=read_back, ending=ending).wait()


def serve(command: Callable[[list[str]], None], skip_reading_back: Callable[[], None]) -> None:
    """Fork ``command`` for each order on stdin.

    Args:
        command: Runs a command line; may exit.
        skip_reading_back: Called in the forked process where an order says so.
    """
    living: set[int] = set()
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            _, status = os.waitpid(order["wait"], os.WUNTRACED)
            answer = STOPPED if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status)
            if answer != STOPPED:
                living.discard(order["wait"])
        else:
            answer = os.fork()
            living.add(answer)
            if answer == 0:
                with open(order["output"], "wb") as output:
                    os.dup2(output.fileno(), 1)
                    os.dup2(output.fileno(), 2)
                if order["token"]:
                    os.environ["HF_TOKEN"] = order["token"]
                if not order["read_back"]:
                    skip_reading_back()
                code = 1
                if "ending" in order:
                    Ending(**order["ending"]).install()
                try:
                    command(order["argv"])
                except SystemExit as end:
                    code = int(end.code or 0)
                except Exception:
                    traceback.print_exc()
                finally:
                    sys.stdout.flush()
                    sys.stderr.flush()
                    os._exit(code)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()
    for pid in living:  # of a test that failed
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _serve() -> None:
    import datasets  # noqa: F401
    import huggingface_hub.hf_api  # noqa: F401

    from dataset_builders import __main__ as command
    from dataset_builders import publish

    def skip() -> None:
        publish.readback.compare = lambda *asked: None

    serve(lambda argv: command.app(argv), skip)


if __name__ == "__main__":
    _serve()
