"""Write a file whole or not at all."""

from __future__ import annotations

import glob
import importlib.util
import os
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

fcntl: Any = importlib.import_module("fcntl") if importlib.util.find_spec("fcntl") else None  # not on Windows


def check_folder(folder: Path) -> None:
    """Refuse a folder that nothing can be written to, before long work; nothing is left in it.

    Raises:
        OSError: If it is none, or read-only, or the disk is full.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"?")
    except OSError as error:
        raise named(error, folder, "nothing can be written there; choose another folder") from error


def named(error: OSError, path: Path, advice: str) -> OSError:
    """The same error with the file or folder that it is about, and what to do."""
    if error.errno is None:  # numpy's, of a write that came out short
        return type(error)(f"{error} (is the disk full?): {advice}: {str(path)!r}")
    return type(error)(error.errno, f"{error.strerror}: {advice}", str(path))


def write_text(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8, line ends as they are. See `write_bytes`."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write ``content``. See `write_with`."""
    write_with(path, lambda file: file.write(content))


def write_with(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let ``write`` fill a file staged beside ``path``, then swap it in.

    A killed process leaves the old file or the new one, and perhaps what it had staged, which the next write removes.

    Raises:
        OSError: If the folder does not exist, the disk is full, and so on, naming the file. ``path`` is then as it
            was.
    """
    staged = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.partial")
    try:
        with _hold(staged) as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            if fcntl is not None:  # while it is held, so that nobody takes it for a dead one's
                os.replace(staged, path)
        if fcntl is None:
            os.replace(staged, path)
    except BaseException as error:
        staged.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise named(error, path, "not written, what was there still stands") from error
        raise
    _remove_what_the_dead_left(path)


def _hold(staged: Path) -> IO[bytes]:
    """Open a file that others leave alone as long as it is open."""
    while True:
        file = staged.open("wb")
        if fcntl is None:
            return file
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            if os.path.samestat(os.fstat(file.fileno()), staged.stat()):
                return file
        except FileNotFoundError:  # removed in between, as if its writer were dead
            pass
        file.close()


def _remove_what_the_dead_left(path: Path) -> None:
    if fcntl is None:
        return
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
        with suppress(OSError), left.open("rb") as file:  # one that is held is not ours to remove
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file.fileno()), left.stat()):  # not swapped in meanwhile, and made anew
                left.unlink()
