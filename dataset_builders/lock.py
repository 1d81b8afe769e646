"""One process at a time: a lock file that the system lets go of when its holder dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from dataset_builders.atomic import named


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[bool]:
    """Hold ``path`` as a lock; the file is made, and removed at the end. Its folder must exist.

    Yields:
        Whether the lock is ours. False only without ``wait``, where another process has it. Where the system has no
        such locks (Windows), always True.

    Raises:
        OSError: If nothing can be written beside ``path``, naming its folder.
    """
    try:
        import fcntl
    except ImportError:
        yield True
        return
    mine = None
    while mine is None:
        with _open(path) as file:
            mine = _take(file, path, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if mine is None:
                continue
            try:
                yield mine
            finally:
                if mine:
                    path.unlink(missing_ok=True)


def _open(path: Path) -> IO[bytes]:
    try:
        return path.open("wb")
    except OSError as error:
        raise named(error, path.parent, "nothing can be written there; choose another folder") from error


def _take(file: IO[bytes], path: Path, how: int) -> bool | None:
    """Whether the lock is ours; None if its file was removed in between and another one counts by now."""
    import fcntl

    try:
        fcntl.flock(file, how)
        # Whoever had it removes it when done: then this file is no longer the one that others would lock.
        return True if os.path.samestat(os.fstat(file.fileno()), path.stat()) else None
    except BlockingIOError:
        return False
    except FileNotFoundError:
        return None
