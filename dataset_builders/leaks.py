"""What may not leave this machine: secrets and paths, looked for in every file that is about to be published."""

from __future__ import annotations

import json
import mmap
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dataset_builders.folder import read_card
from dataset_builders.plain_yaml import read_yaml
from dataset_builders.tokens import SECRET

_MACHINE_PATH = re.compile(r"^(?:[/\\~]|\.{1,2}(?:[/\\]|$)|[A-Za-z]:[/\\]|file:)")
_MAY_HOLD_ANY_TEXT = {"tokenizer.json", "vocab.json", "vocab.txt", "merges.txt"}


def is_machine_path(text: str) -> bool:
    """Whether ``text`` starts as paths do: ``/``, ``./``, ``../``, ``~``, a drive letter or ``file:``."""
    return _MACHINE_PATH.match(text) is not None


def home_folder() -> set[Path]:
    """The user's home folder; none where there is none, as in a container whose user has no account."""
    try:
        return {Path.home()}
    except RuntimeError:
        return set()


def machine_paths(folder: Path, files: Iterable[Path] | None = None) -> Iterator[tuple[str, str]]:
    """Each (file, string) in ``folder`` that names a path of this machine.

    In JSON and YAML, the front matter of a card included, no value may start as a path does; in no other file may
    the home, working, cache or interpreter's folder of this process stand. (Texts in parquet are what their authors
    wrote: a path in one is none of ours.)

    Args:
        folder: Where to look.
        files: Those to look at; all by default.
    """
    here = {Path.cwd(), Path(sys.prefix), Path(tempfile.gettempdir()), folder.resolve().parent, *home_folder()}
    here |= {Path(os.environ[name]) for name in ("HF_HOME", "HF_HUB_CACHE") if os.environ.get(name)}
    needles = sorted({f"{path}{os.sep}".encode() for path in here if len(path.parts) > 1})
    pattern = re.compile(b"|".join(re.escape(needle) for needle in needles)) if needles else None
    for path in _files(folder, files):
        name = path.relative_to(folder).as_posix()
        if pattern is not None and path.suffix != ".parquet":
            found = {match[0] for content in _contents(path) for match in pattern.finditer(content)}
            yield from ((name, needle.decode()) for needle in sorted(found))
        if path.name not in _MAY_HOLD_ANY_TEXT:
            yield from ((name, text) for text in _strings(_parsed(path)) if is_machine_path(text))


def secrets(
    folder: Path, files: Iterable[Path] | None = None, *, known: Iterable[str] = ()
) -> Iterator[tuple[str, str]]:
    """Each (file, beginning of the secret) in ``folder`` that looks like a token or a private key.

    Texts in parquet are looked at as well. What is returned holds no more than six characters of a token.

    Args:
        folder: Where to look.
        files: Those to look at; all by default.
        known: Secrets of whatever shape that this process has, such as its own token.
    """
    own = [re.escape(secret.encode()) for secret in known if len(secret) >= 8]
    pattern = re.compile(b"|".join([*own, SECRET.encode()]))
    for path in _files(folder, files):
        found = {match[0][:6].decode("ascii", "replace") for c in _contents(path) for match in pattern.finditer(c)}
        yield from ((path.relative_to(folder).as_posix(), f"{start}…") for start in sorted(found))


def _files(folder: Path, files: Iterable[Path] | None) -> list[Path]:
    return sorted(p for p in (folder.rglob("*") if files is None else files) if p.is_file())


def _contents(path: Path) -> Iterator[Any]:
    """The bytes of a file, mapped and not read; of parquet also its texts, which are compressed there."""
    if path.stat().st_size:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            yield content
    if path.suffix == ".parquet":
        for batch in pq.ParquetFile(path).iter_batches():
            for column in batch.columns:
                yield from _texts(column)


def _texts(column: pa.Array) -> Iterator[bytes]:
    if pa.types.is_dictionary(column.type):
        yield from _texts(column.dictionary)
    elif pa.types.is_list(column.type):
        yield from _texts(column.flatten())
    elif pa.types.is_struct(column.type):
        for child in column.flatten():
            yield from _texts(child)
    elif pa.types.is_string(column.type):
        yield "\n".join(text for text in pc.unique(column).to_pylist() if text).encode()


def _parsed(path: Path) -> Any:
    if path.suffix == ".json":
        return json.loads(path.read_bytes())
    if path.suffix in (".yaml", ".yml"):
        return read_yaml(path.read_text(encoding="utf-8"))
    if path.suffix == ".md":
        return read_card(path.read_bytes().decode("utf-8", "replace"), path.name)[0]
    return None


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
