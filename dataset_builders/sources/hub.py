"""Data sets of the Hub as sources: a snapshot of one commit, from the Hub or from its cache."""

from __future__ import annotations

import logging
import re
from pathlib import Path

logger = logging.getLogger(__name__)

REPO_ID = r"[\w.-]+/[\w.-]+"
"""A pattern for ``ORG/NAME``."""
_ID = re.compile(rf"(?P<repo>{REPO_ID})@(?P<revision>[\w./-]+)")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def parse(data: Path) -> tuple[str, str] | None:
    """Repository and revision, where ``data`` is no path but reads ``ORG/NAME@REVISION``."""
    found = None if data.exists() else _ID.fullmatch(data.as_posix())
    return None if found is None else (found["repo"], found["revision"])


def snapshot(repo: str, revision: str | None) -> Path:
    """Fetch a data set from the Hub, or from its cache.

    Args:
        repo: ``ORG/NAME``.
        revision: Commit, branch or tag. None takes ``main``; whatever is no commit is resolved to one, and the log
            says to which, so that it can be had again.

    Returns:
        A folder that is named after the commit.

    Raises:
        FileNotFoundError: If the Hub cannot be asked and the cache lacks the data set, or the Hub has no such one.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    asked = revision or "main"
    try:
        folder = Path(snapshot_download(repo, repo_type="dataset", revision=asked))
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        raise FileNotFoundError(
            f"the Hub data set {repo} at {asked} cannot be had ({type(error).__name__}); allow access to the Hub, or "
            "give its files with --data FOLDER, or another copy of it with --data ORG/NAME@REVISION"
        ) from error
    if not _COMMIT.fullmatch(asked):
        logger.warning(
            "%s: no commit is pinned; %s is %s, and --data %s@%s takes the same again",
            *(repo, asked, folder.name, repo, folder.name),
        )
    return folder


def is_cached(repo: str, file: str) -> bool:
    """Whether the cache has a file of a data set's ``main``."""
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(repo, file, repo_type="dataset"), str)
