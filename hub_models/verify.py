"""Whether a release on the Hub gives strangers the model that was trained."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dataset_builders.hub_errors import HubError, ask
from dataset_builders.hub_remote import api, check_name
from dataset_builders.readback import environment
from hub_models.release import PROBE_NAME, Probe, last_error

logger = logging.getLogger(__name__)

ATTEMPTS = 2  # the clients retry most of their calls, and not a download that breaks at the start


@dataclass(frozen=True)
class Verified:
    """A release that gives what was trained.

    Attributes:
        repo_id: ``org/name``.
        revision: The commit.
        files: How many files have the checksum that the Hub lists.
        cosine: Lowest cosine of an embedding to the trained model's, by the pinned door.
        plain: The same by plain loading; None where another commit is the newest, which plain loading takes.
    """

    repo_id: str
    revision: str
    files: int
    cosine: float
    plain: float | None

    def line(self) -> str:
        """For people."""
        plain = "not the newest commit" if self.plain is None else f"{self.plain:.6f}"
        return (
            f"verified: {self.repo_id} at {self.revision[:12]}: {self.files} files with their checksums, cosine to "
            f"the trained model {self.cosine:.6f} at least (plain loading: {plain})"
        )


def verify(
    repo_id: str, revision: str | None = None, wanted: Probe | None = None, trust_remote_code: str | None = None
) -> Verified:
    """Load a release in a fresh process with an empty cache, by plain loading and by the pinned door.

    Args:
        repo_id: ``org/name``.
        revision: Branch, tag or commit; ``main`` by default.
        wanted: What the trained model answered; by default what the release itself carries.
        trust_remote_code: The base whose own code may run, see `encoder.load`.

    Raises:
        ValueError: If the repository carries nothing to compare with.
        HubError: If it does not load, a file's checksum is not the Hub's, or an embedding or a setting differs.
    """
    check_name(repo_id)
    sha = str(ask(repo_id, lambda: api.model_info(repo_id, revision=revision), "read").sha)
    head = str(ask(repo_id, lambda: api.model_info(repo_id), "read").sha)
    with tempfile.TemporaryDirectory(prefix="slant-verify-") as folder:
        home = Path(folder)
        cache = home / "hub"
        wanted = wanted or _published(repo_id, sha, home / "probe")
        question = {"repo_id": repo_id, "revision": sha, "plain": sha == head, "texts": wanted.texts}
        question["trust_remote_code"] = trust_remote_code
        _ask_stranger(question, home)
        checked = ask(repo_id, lambda: api.verify_repo_checksums(repo_id, revision=sha, cache_dir=cache), "read")
        faults = [f"{item['path']} has another checksum than the Hub lists" for item in checked.mismatches]
        faults += [f"{path} did not arrive" for path in checked.missing_paths]
        cosines: dict[str, float] = {}
        with np.load(home / "answer.npz") as answer:
            for door in ("plain", "pinned"):
                if door in answer:
                    embeddings = answer[door]
                    found = wanted.faults(embeddings, json.loads(str(answer[f"{door}_description"])))
                    faults += [f"{door} loading: {fault}" for fault in found]
                    if embeddings.shape == wanted.embeddings.shape:
                        cosines[door] = float((embeddings * wanted.embeddings).sum(axis=1).min())
    if faults:
        raise HubError(
            f"{repo_id} at {sha[:12]} is not what was trained: {'; '.join(faults[:4])}; do not use this commit: "
            "release again, and report it if it stays so"
        )
    return Verified(repo_id, sha, checked.checked_count, cosines["pinned"], cosines.get("plain"))


def _published(repo_id: str, sha: str, folder: Path) -> Probe:
    names = {f.rfilename for f in ask(repo_id, lambda: api.model_info(repo_id, revision=sha), "read").siblings or []}
    if PROBE_NAME not in names:
        raise ValueError(
            f"{repo_id} at {sha[:12]} has no {PROBE_NAME}, so there is nothing to compare with: it is no release of "
            "`python -m hub_models release`"
        )
    ask(repo_id, lambda: api.hf_hub_download(repo_id, PROBE_NAME, revision=sha, local_dir=folder), "download")
    return Probe.read(folder)


def _ask_stranger(question: dict[str, object], home: Path) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        done = subprocess.run(
            [sys.executable, "-m", "hub_models.verify_process", str(home / "answer.npz")],
            input=json.dumps(question),
            env=environment(home),
            cwd=home,  # a folder here that is called like the repository would be loaded in its place
            capture_output=True,
            text=True,
            errors="replace",  # a library may write what this locale cannot read
        )
        if done.returncode == 0:
            return
        why = last_error(done.stderr)[:300]
        logger.warning("loading %s failed (attempt %d of %d): %s", question["repo_id"], attempt, ATTEMPTS, why)
    raise HubError(
        f"{question['repo_id']} at {str(question['revision'])[:12]} does not load in a fresh process with an empty "
        f"cache ({why}); run this again: it commits nothing that is there already"
    )
