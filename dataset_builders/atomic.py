"""Write a file whole or not at all."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO


def check_folder(folder: Path) -> None:
    """Refuse a folder that nothing can be written to, before long work; nothing is left in it.

    Raises:
        OSError: If it is none, or read-only, or the disk is full.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"?")
    except OSError as error:
        raise type(error)(
            error.errno, f"{error.strerror}: nothing can be written there; choose another folder", str(folder)
        ) from error


def write_text(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8, line ends as they are. See `write_bytes`."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write ``content``. See `write_with`."""
    write_with(path, lambda file: file.write(content))


def write_with(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let ``write`` fill a file staged beside ``path``, then swap it in.

    A killed process leaves the old file or the new one, and perhaps what it had staged.

    Raises:
        OSError: If the folder does not exist, the disk is full, and so on, naming the file. ``path`` is then as it
            was.
    """
    staged = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.partial")
    try:
        with staged.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(staged, path)
    except BaseException as error:
        staged.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise type(error)(
                error.errno, f"{error.strerror}: not written, what was there still stands", str(path)
            ) from error
        raise
