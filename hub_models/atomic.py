"""Write a file whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8 with LF line ends: staged beside ``path``, then swapped in.

    A killed process leaves the old file or the new one.

    Raises:
        OSError: If the folder does not exist, the disk is full, and so on. ``path`` is then as it was.
    """
    staged = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with staged.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(staged, path)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise
