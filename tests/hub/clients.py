"""A server with what tests need around it: fresh client processes, and a look at what lies in the store."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.hub.accounts import TOKENS
from tests.hub.server import LoopbackHub
from tests.hub.store import Commit, Repo, is_lfs

UNWANTED = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN", "HF_HUB_CACHE")


class TestHub(LoopbackHub):
    """A loopback Hub whose clients run in processes of their own: the clients read HF_ENDPOINT once, at import."""

    __test__ = False

    def __enter__(self) -> TestHub:
        super().__enter__()
        self._homes = tempfile.TemporaryDirectory(prefix="loopback-homes-")
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._homes.cleanup()

    def environment(
        self, *, token: str | None = TOKENS.write, home: Path | None = None, env: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """The environment of a client: this Hub, one token or none, and an empty cache unless ``home`` is given."""
        own = {name: value for name, value in os.environ.items() if name not in UNWANTED}
        own |= {
            "HF_ENDPOINT": self.endpoint,
            "HF_HOME": str(home or tempfile.mkdtemp(dir=self._homes.name)),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_UPDATE_CHECK": "1",
            "HF_UPDATE_DOWNLOAD_COUNTS": "0",
            "GRADIO_ANALYTICS_ENABLED": "0",
            "NO_PROXY": "127.0.0.1",
        }
        if token is not None:
            own["HF_TOKEN"] = token
        return own | dict(env or {})

    def start(
        self,
        command: str | Sequence[str],
        *,
        token: str | None = TOKENS.write,
        home: Path | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.Popen[str]:
        """Start a client: a piece of Python, or a command line whose first word may be ``python`` or ``hf``."""
        argv = [sys.executable, "-c", command] if isinstance(command, str) else list(command)
        if argv[0] in ("python", "hf"):
            argv[0] = sys.executable if argv[0] == "python" else str(Path(sys.executable).parent / "hf")
        environment = self.environment(token=token, home=home, env=env)
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, env=environment, cwd=cwd, stdout=pipe, stderr=pipe, text=True)

    def run(
        self,
        command: str | Sequence[str],
        *,
        token: str | None = TOKENS.write,
        home: Path | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        check: bool = True,
        timeout: float = 300.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run a client to its end (see `start`).

        Raises:
            AssertionError: if ``check`` and the client failed; the message holds what it wrote.
        """
        process = self.start(command, token=token, home=home, env=env, cwd=cwd)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"the client did not end within {timeout:g} s\n{out}\n{err}") from None
        if check and process.returncode != 0:
            raise AssertionError(f"the client failed ({process.returncode})\n{out}\n{err}")
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        token: str | None = TOKENS.write,
        home: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Any:
        """Run a function in a fresh process, and give what it returned.

        Args:
            function: stands alone: it imports what it needs, and takes and returns what JSON can hold.
        """
        source = textwrap.dedent(inspect.getsource(function))
        code = (
            f"from __future__ import annotations\n{source}\n"
            f"import json, sys\n"
            f"print(json.dumps({function.__name__}(*json.loads({json.dumps(json.dumps(arguments))}))))"
        )
        done = self.run(code, token=token, home=home, env=env)
        return json.loads(done.stdout.splitlines()[-1])

    # The store, seen without a client ------------------------------------------------------------------------------

    def repo(self, type: str, id: str) -> Repo:
        return self.store.repos[type, id]

    def put(self, type: str, id: str, files: Mapping[str, bytes | Path], *, private: bool = False) -> Commit:
        """Commit files as if somebody had uploaded them, to a repository that is made if need be."""
        repo = self.store.repos.get((type, id)) or self.store.create(type, id, private=private)
        blobs = {}
        for path, content in files.items():
            data = content.read_bytes() if isinstance(content, Path) else content
            blobs[path] = self.store.blob(self.store.write(data), lfs=is_lfs(path, data[:512], len(data)))
        return self.store.commit(repo, "main", blobs, (), title="put", author="ada")

    def files(self, type: str, id: str, revision: str = "main") -> dict[str, bytes]:
        """Every file of a revision, but for the ``.gitattributes`` that each repository starts with."""
        commit = self.repo(type, id).resolve(revision)
        assert commit is not None, f"{id} has no revision {revision}"
        return {path: self.store.read(blob) for path, blob in commit.files.items() if path != ".gitattributes"}
