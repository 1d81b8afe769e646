"""Rows from files as they lie on the disk: JSONL and parquet, never through a cache that knows paths or times."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from dataset_builders.text import check_text, decoded, did_you_mean, shown

Row = dict[str, Any]
Name = TypeVar("Name", bound=str)

SUFFIXES = (".jsonl", ".parquet")

LONGEST_LINE = 64 * 2**20
"""Bytes of a line of JSONL: a longer one is no row, and would be held in memory several times over."""

_LONGEST_KEY = 1_000  # characters; errors name keys whole
_MARK = b"\xef\xbb\xbf"  # the byte order mark that some editors put before UTF-8


def read_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Every row with the words that say where it stands, ``file.jsonl:12``.

    A line of JSONL ends at LF alone: U+2028, U+2029 and U+0085 are text like any other. A file ``.json`` holds one
    array of objects, or is JSONL by another name.

    Raises:
        ValueError: If the suffix is none of ``.jsonl``, ``.json`` and ``.parquet``, a line is longer than
            `LONGEST_LINE`, a line or a file is no UTF-8 or no JSON object whose keys are unique, or a parquet file is
            damaged.
    """
    if path.suffix == ".parquet":
        for number, row in enumerate(read_parquet(path).to_pylist(), start=1):
            yield f"{path.name}, row {number}", row
    elif path.suffix == ".json" and _is_array(path):
        for number, row in enumerate(read_json(path), start=1):
            where = f"{path.name}, row {number}"
            yield where, _object_only(row, where)
    elif path.suffix in (".json", ".jsonl"):
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), start=1):
                where = f"{path.name}:{number}"
                if len(line) > LONGEST_LINE:
                    raise ValueError(
                        f"{where}: the line is longer than {LONGEST_LINE:,} bytes; wanted one object a line, each "
                        "ended by LF"
                    )
                if line.strip():
                    content = line.removeprefix(_MARK) if number == 1 else line
                    yield where, _object_only(_parse(content, where, "line", "one object a line"), where)
    else:
        raise ValueError(f"{path.name}: got a file of type {path.suffix!r}, wanted one of {list(SUFFIXES)}")


def read_parquet(path: Path) -> pa.Table:
    """The table of one parquet file.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is damaged, or no parquet.
    """
    try:
        table = pq.read_table(path, partitioning=None)  # the names of the folders above are no columns
        table.validate(full=True)  # texts are UTF-8
    except (FileNotFoundError, PermissionError):
        raise
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path}: the file is no sound parquet ({error}); write it or fetch it anew") from None
    return table


def read_json(path: Path) -> Any:
    """The one JSON value of a whole file.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is no UTF-8 or no JSON, or an object in it has a key twice.
    """
    return _parse(path.read_bytes().removeprefix(_MARK), path.name, "file", "one JSON value")


def read_text(path: Path) -> str:
    """A whole file of text, line ends as they are, without the mark that some editors begin it with.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is no UTF-8.
    """
    return decoded(path.read_bytes().removeprefix(_MARK), path.name)


def read_texts(path: Path) -> list[str]:
    """The texts of a file: ``text`` of each row of JSONL or parquet; of any other file the lines, which LF alone ends.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: As `read_rows` and `read_text` do; if a row has no text, or there is no row.
    """
    if path.suffix not in (*SUFFIXES, ".json"):
        return [line.removesuffix("\r") for line in read_text(path).removesuffix("\n").split("\n")]
    texts = [check_text(row.get("text"), f"{where}: text") for where, row in read_rows(path)]
    if not texts:
        raise ValueError(f"{path.name}: there is no row in it; wanted one with a `text` for each document")
    return texts


def _is_array(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(1024).removeprefix(_MARK).lstrip().startswith(b"[")


def _parse(content: bytes, where: str, unit: str, wanted: str) -> Any:
    text = decoded(content, where, unit)
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: the {unit} is no JSON ({error}); wanted {wanted}") from None
    except RecursionError:
        raise ValueError(f"{where}: the {unit} nests lists or objects too deeply; wanted {wanted}") from None
    except ValueError as error:  # of `unique_keys`, or of an integer of more digits than Python reads
        raise ValueError(
            f"{where}: the {unit} cannot be read ({error}); wanted {wanted}, with unique keys and texts"
        ) from None


def _object_only(value: Any, where: str) -> Row:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: got a JSON {type(value).__name__}, wanted an object")
    return value


def unique_keys(pairs: list[tuple[str, Any]]) -> Row:
    """An object of JSON, for ``object_pairs_hook``: by itself the last of two equal keys wins.

    Raises:
        ValueError: If a key stands twice, or is far too long for one.
    """
    row = dict(pairs)
    if too_long := [key for key in row if len(key) > _LONGEST_KEY]:
        raise ValueError(f"a key of {len(too_long[0]):,} characters is none: {shown(too_long[0])}")
    if len(row) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the keys {[key for key in row if keys.count(key) > 1]} stand twice in one object")
    return row


def check_keys(row: Row, required: Iterable[str], optional: Iterable[str], where: str) -> None:
    """Refuse a row with a missing or an unknown key.

    Raises:
        ValueError: Naming the keys, and the known one that an unknown one resembles.
    """
    required = list(required)
    known = [*required, *optional]
    unknown = [key for key in row if key not in known]
    missing = [key for key in required if key not in row]
    if unknown or missing:
        hints = "".join(did_you_mean(key, known) for key in unknown)
        raise ValueError(f"{where}: unknown keys {unknown}, missing keys {missing}; wanted {known}.{hints}")


def one_of(key: str, value: object, known: Iterable[Name], where: str) -> Name:
    """The name in ``known`` that ``value`` is.

    Raises:
        ValueError: If it is none, with the nearest one.
    """
    known = list(known)
    for name in known:
        if value == name:
            return name
    raise ValueError(f"{where}: got {key} {shown(value)}, wanted one of {known}.{did_you_mean(str(value), known)}")


def files_of(path: Path) -> list[Path]:
    """The file itself, or the JSONL and parquet files of a folder, by name.

    Raises:
        FileNotFoundError: If there is nothing at ``path``.
        ValueError: If the folder holds no such file.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise FileNotFoundError(f"{path}: no such file or folder; give a JSONL or parquet file, or a folder of them")
    files = sorted(f for f in path.iterdir() if f.suffix in SUFFIXES and f.is_file())
    if not files:
        raise ValueError(f"{path}: the folder holds no {' or '.join(SUFFIXES)} file")
    return files
