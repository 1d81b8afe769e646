"""Files that describe something, such as cards, recipes, manifests and results: small, wherever they come from."""

from __future__ import annotations

from pathlib import Path

from dataset_builders.text import decoded

LARGEST = 2**24
"""Bytes of one: twenty times the largest results of a study. One of a Hub may have any size."""


def check_size(size: int, where: str) -> None:
    """Refuse what is too large to be read whole, before it is.

    Args:
        size: Bytes.
        where: Names the file.

    Raises:
        ValueError: If they are more than `LARGEST`.
    """
    if size > LARGEST:
        raise ValueError(
            f"{where}: got a file of {size:,} bytes, wanted at most {LARGEST:,}, for it describes something and holds "
            "no data; get it anew or make it shorter"
        )


def read_description(path: Path, where: str | None = None) -> str:
    """A whole file as text, line ends as they are.

    Args:
        path: The file.
        where: Names it, where its path does not.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If it is larger than `LARGEST`, or no UTF-8.
    """
    where = where or str(path)
    check_size(path.stat().st_size, where)
    return decoded(path.read_bytes(), where)
