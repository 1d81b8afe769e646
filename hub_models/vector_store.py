"""Vectors on the disk, by the hash of their text: shards that several processes fill together."""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dataset_builders.atomic import write_with
from dataset_builders.lock import locked

Vectors = npt.NDArray[np.float32]
Keys = Sequence[bytes]
_BLOCK = 1 << 24  # bytes


class VectorStore:
    """The shards of one folder, ``.npz`` with the arrays ``keys`` (uint8[n, 32]) and ``vectors`` (float32[n, d]).

    A shard is there whole or not at all, and is named after the keys that it was planned for. The folder is shared
    by all processes that see it: each claims a shard by a lock that the system takes back when the process dies.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def find(self, wanted: Container[bytes]) -> tuple[set[bytes], list[Path]]:
        """Which of the wanted keys are stored, and the shards that hold them."""
        found: set[bytes] = set()
        paths = []
        for path in sorted(self._folder.glob("*.npz")):
            here = [key for key in _read_keys(path) if key in wanted]
            if here:
                found.update(here)
                paths.append(path)
        return found, paths

    def path(self, keys: Keys) -> Path:
        """Where the shard planned for these keys stands, or will stand."""
        return self._folder / f"{hashlib.sha256(b''.join(keys)).hexdigest()[:32]}.npz"

    @contextmanager
    def claim(self, shard: Path, *, wait: bool) -> Iterator[bool]:
        """Keep other processes and threads off a shard; false if one has it and we do not wait for it."""
        with locked(shard.with_suffix(".lock"), wait=wait) as mine:
            if mine:
                for staged in self._folder.glob(f".{shard.name}.*.partial"):
                    staged.unlink()  # of a process that was killed
            yield mine

    def write(self, shard: Path, keys: Keys, vectors: Vectors) -> None:
        """Store a shard."""
        matrix = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), -1)
        write_with(shard, lambda file: np.savez(file, keys=matrix, vectors=vectors))

    def read(self, shard: Path) -> tuple[list[bytes], Vectors]:
        """The keys of a shard and their vectors.

        Raises:
            ValueError: If the shard is damaged.
        """
        return _read_keys(shard), _array(shard, "vectors").astype(np.float32, copy=False)

    def mapped(self, rows: int, dimensions: int) -> Vectors:
        """float32[rows, dimensions] in a file without a name: the system moves it between memory and disk as it sees
        fit, and frees it with the array.

        Raises:
            OSError: If the disk is full.
        """
        with tempfile.TemporaryFile(dir=self._folder) as file:
            # Written, not merely declared: a map onto a full disk would be a bus error instead.
            left = rows * dimensions * np.dtype(np.float32).itemsize
            while left > 0:
                left -= file.write(bytes(min(left, _BLOCK)))
            file.flush()
            return np.asarray(np.memmap(file, dtype=np.float32, mode="r+", shape=(rows, dimensions)))


def _read_keys(path: Path) -> list[bytes]:
    return [bytes(key) for key in _array(path, "keys")]


def _array(path: Path, name: str) -> npt.NDArray[np.generic]:
    try:
        with np.load(path, allow_pickle=False) as shard:
            array: npt.NDArray[np.generic] = shard[name]
            return array
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError) as error:
        raise ValueError(f"{path}: the shard is damaged ({error}); delete it and run again") from None
