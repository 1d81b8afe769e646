"""Write a file whole or not at all."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO


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
