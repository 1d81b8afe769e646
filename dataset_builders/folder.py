"""The dataset folder: parquet shards, a README whose ``configs:`` name them, and a manifest, written atomically.

The README is the one switch: shards carry a hash of their bytes in their names, so new ones never overwrite old ones,
and a folder changes from the old rows to the new ones in the moment in which README.md is replaced. (The names have a
second use: ``load_dataset`` caches a local folder with ``configs:`` by its file names and never looks at it again.)
"""

from __future__ import annotations

import filecmp
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml
from datasets import Features
from tqdm import tqdm

from dataset_builders.description import read_description
from dataset_builders.lock import locked
from dataset_builders.plain_yaml import read_yaml
from dataset_builders.schema import Split

README = "README.md"
MANIFEST = "build.json"
_STAGING = ".staging-"
_LOCK = ".staging.lock"
_OF_A_REPOSITORY = {"README.md", "LICENSE", "build.json", ".git", ".gitattributes", ".gitignore", ".cache"}
_SHARD = re.compile(r"[a-z]+-\d{5}-of-\d{5}-[0-9a-f]{16}\.parquet")
_FRONT = re.compile(r"\A\ufeff?---\r?\n(.*?)^---[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE)
BEGIN, END = "<!-- build: begin -->", "<!-- build: end -->"
_GENERATED = re.compile(rf"{BEGIN}.*?{END}", re.DOTALL)


@dataclass(frozen=True)
class Table:
    """One split of one config, as batches that may be made while they are written.

    Attributes:
        config: Name of the config, and of its sub-folder.
        split: Name of the split.
        features: Columns of every batch; texts may be dictionary-encoded, each value once.
        rows: How many there are, for the progress bar.
        batches: Read once.
    """

    config: str
    split: Split
    features: Features
    rows: int
    batches: Iterable[pa.RecordBatch]


def batches_of(rows: list[dict[str, Any]], features: Features) -> Iterable[pa.RecordBatch]:
    """Rows that are in memory as the batches of a `Table`."""
    batches: list[pa.RecordBatch] = pa.Table.from_pylist(rows, schema=features.arrow_schema).to_batches()
    return batches


def write(
    out: Path,
    tables: Iterable[Table],
    *,
    default: str,
    licences: Iterable[str],
    summary: str,
    facts: Mapping[str, Any],
) -> bool:
    """Write a dataset folder that ``load_dataset(out, config)`` reads.

    A README that is there already keeps its body, its YAML keys and those configs of its own that have files; only the
    part between the ``build: begin`` and ``build: end`` comments, where it has one, is renewed. Other files stay.

    Args:
        out: The folder, made if need be.
        tables: All splits of all configs; those of one config in the order of the splits.
        default: The config that ``load_dataset(out)`` takes.
        licences: Licence ids for the README, if it does not name one.
        summary: Markdown for the generated part of the README, starting with a heading.
        facts: What the manifest records besides rows and hashes; the same facts and rows give the same bytes.

    Returns:
        False if every byte was there already.

    Raises:
        FileExistsError: If ``out`` is a file, or a folder with data that no build has written.
        BlockingIOError: If another build writes into ``out``.
        ValueError: If the README that is there starts with broken YAML, or its configs are not as `shards` wants them.
        OSError: If the disk is full or cannot be written. What was there stays as it was.
    """
    check_target(out)
    made = not out.exists()
    try:
        out.mkdir(parents=True, exist_ok=True)
        with locked(out / _LOCK) as mine:
            if not mine:
                raise BlockingIOError(
                    f"{out}: another build writes into this folder; wait until it is done, or choose another folder"
                )
            return _write(out, tables, default, licences, summary, facts)
    finally:
        if made:
            with suppress(OSError):  # it holds something
                out.rmdir()


def _write(
    out: Path,
    tables: Iterable[Table],
    default: str,
    licences: Iterable[str],
    summary: str,
    facts: Mapping[str, Any],
) -> bool:
    old = _read_readme(out / README)
    for left in out.glob(f"{_STAGING}*"):  # by a build that was killed: a living one has the lock
        shutil.rmtree(left, ignore_errors=True)
    staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=out))
    try:
        configs: dict[str, dict[str, dict[str, Any]]] = {}
        for table in tables:
            configs.setdefault(table.config, {})[table.split] = _write_shard(staging, table)
        manifest = json.dumps({**facts, "configs": configs}, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        readme = _new_readme(old, _own_configs(out, old, configs), configs, default, licences, summary)
        (staging / README).write_text(readme, encoding="utf-8", newline="")
        (staging / MANIFEST).write_text(manifest, encoding="utf-8", newline="")
        return _swap(staging, out)
    except OSError as error:
        raise OSError(
            error.errno,
            f"writing the dataset failed ({error.strerror or error}); what was there before is unchanged: free some "
            "space or choose another folder",
            str(out),
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def check_target(out: Path) -> None:
    """Refuse what `write` cannot write to, before long work.

    Raises:
        FileExistsError: If ``out`` is a file, or a folder with data that no build has written.
    """
    if out.exists() and not out.is_dir():
        raise FileExistsError(f"{out}: a file is in the way; choose a folder")
    if out.is_dir() and not (out / MANIFEST).exists():
        # A dataset repository's own files are welcome, and shards of a build that was killed before its manifest.
        files = [
            f for f in out.iterdir() if f.name not in _OF_A_REPOSITORY and not f.name.startswith((_STAGING, _LOCK))
        ]
        foreign = sorted(f.name for f in files if not (f.is_dir() and _holds_only_shards(f)))
        if foreign:
            raise FileExistsError(
                f"{out}: the folder holds what no build has written, such as {foreign[0]}; choose an empty folder or "
                "one that an earlier build made"
            )


def _holds_only_shards(folder: Path) -> bool:
    return all(_SHARD.fullmatch(f.name) for f in folder.iterdir())


def _write_shard(staging: Path, table: Table) -> dict[str, Any]:
    """Write one split as one parquet file. Returns its manifest entry."""
    folder = staging / table.config
    folder.mkdir(exist_ok=True)
    path = folder / table.split
    rows = RowsHash()
    batches = iter(table.batches)
    first = next(batches, None)
    schema = table.features.arrow_schema
    if first is not None:  # texts may come dictionary-encoded
        schema = first.schema.with_metadata(schema.metadata)
    with (
        # Row groups are the batches. Without the Arrow schema in the file, encoded texts are read back as plain ones.
        pq.ParquetWriter(path, schema, compression="zstd", store_schema=False) as writer,
        tqdm(desc=f"{table.config}/{table.split}", total=table.rows, unit="row", delay=2) as bar,
    ):
        for batch in chain([] if first is None else [first], batches):
            rows.update(batch)
            writer.write_batch(batch)
            bar.update(batch.num_rows)
        writer.add_key_value_metadata(schema.metadata)  # the Features; left out with the Arrow schema
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    name = f"{table.split}-00000-of-00001-{digest[:16]}.parquet"
    path.rename(folder / name)
    return {"rows": rows.rows, "sha256": rows.hexdigest(), "file": f"{table.config}/{name}"}


def _swap(staging: Path, out: Path) -> bool:
    new = [f.relative_to(staging) for f in sorted(staging.rglob("*")) if f.is_file()]
    ours = {f.parent for f in new}
    stale = [
        f
        for f in sorted(out.glob("[!.]*/*.parquet"))
        if f.relative_to(out) not in new and (f.relative_to(out).parent in ours or _SHARD.fullmatch(f.name))
    ]
    if not stale and all((out / f).exists() and filecmp.cmp(staging / f, out / f, shallow=False) for f in new):
        return False
    shards = [f for f in new if f.suffix == ".parquet"]
    for name in [*shards, Path(README), Path(MANIFEST)]:  # shards first: the README makes them count
        (out / name).parent.mkdir(exist_ok=True)
        os.replace(staging / name, out / name)
    for file in stale:
        file.unlink()
        if not any(file.parent.iterdir()):
            file.parent.rmdir()
    return True


def _own_configs(out: Path, old: tuple[str, dict[str, Any], str], built: Mapping[str, Any]) -> list[Any]:
    """Configs of the README that no build has made: kept if they have files, since an empty one breaks the others."""
    own = []
    found = shards(out)
    for entry in old[1].get("configs") or []:
        files = [f for split in found[entry["config_name"]].values() for f in split]
        if entry["config_name"] not in built and files and not all(_SHARD.fullmatch(f.name) for f in files):
            own.append({key: value for key, value in entry.items() if key != "default"})
    return own


def _read_readme(path: Path) -> tuple[str, dict[str, Any], str]:
    """The text of a README, the YAML at its head, and what follows."""
    text = read_description(path) if path.exists() else ""
    return text, *read_card(text, str(path))


def read_card(text: str, where: str) -> tuple[dict[str, Any], str]:
    """The YAML at the head of a README, and what follows.

    Raises:
        ValueError: If the head is no YAML, or no keys and values; ``where`` names the README.
    """
    match = _FRONT.match(text)
    if not match:
        return {}, text
    try:
        data = read_yaml(match[1]) or {}
    except ValueError as error:
        raise ValueError(f"{where}: the part between the --- lines is no YAML ({error}); mend it") from None
    if not isinstance(data, dict):
        raise ValueError(f"{where}: got YAML {type(data).__name__} between the --- lines, wanted keys and values")
    return data, text[match.end() :]


def _new_readme(
    old: tuple[str, dict[str, Any], str],
    own: list[Any],
    configs: Mapping[str, Mapping[str, Any]],
    default: str,
    licences: Iterable[str],
    summary: str,
) -> str:
    text, data, body = old
    wanted = [
        {
            "config_name": config,
            "data_files": [{"split": split, "path": entry["file"]} for split, entry in splits.items()],
            **({"default": True} if config == default else {}),
        }
        for config, splits in configs.items()
    ] + own
    generated = f"{BEGIN}\n{summary.strip()}\n{END}"
    if not text:
        body = f"\n{generated}\n"
    if data.get("configs") == wanted:  # not a byte of the YAML changes, comments and quotes included
        return _GENERATED.sub(lambda _: generated, text)
    names = sorted(set(licences))
    data = {"license": names[0] if len(names) == 1 else names, **data, "configs": wanted}
    front = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120)
    return f"---\n{front}---\n" + _GENERATED.sub(lambda _: generated, body)


def is_shard(name: str) -> bool:
    """Whether a file is named as builds name theirs."""
    return _SHARD.fullmatch(name) is not None


def shards(folder: Path) -> dict[str, dict[str, list[Path]]]:
    """The parquet files of a dataset folder, by config and split, as the ``configs:`` of its README say.

    A folder without a README, or with one that names no configs, has none. Patterns are looked up.

    Raises:
        ValueError: If the README starts with broken YAML, or a config lacks its name, its files or their splits.
    """
    readme = folder / README
    _, data, _ = _read_readme(readme)
    configs = data.get("configs") or []
    if not isinstance(configs, list):
        raise ValueError(f"{readme}: configs: got {type(configs).__name__} {configs!r}, wanted a list; mend it")
    found: dict[str, dict[str, list[Path]]] = {}
    for config in configs:
        where = f"{readme}: a config"
        name = _value(config, "config_name", where)
        if not isinstance(name, str):
            raise ValueError(f"{where}: got config_name {name!r}, wanted a text; mend it")
        found.setdefault(name, {})
        where = f"{readme}: config {name!r}"
        entries = _value(config, "data_files", where)
        if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
            entries = [{"split": "train", "path": entries}]
        for entry in entries:
            split, path = (_value(entry, key, f"{where}: data_files") for key in ("split", "path"))
            patterns = path if isinstance(path, list) else [path]
            if not all(isinstance(text, str) and text and text[0] != "/" for text in [split, *patterns]):
                raise ValueError(
                    f"{where}: got split {split!r} and path {path!r}, wanted a name and paths in the folder; mend it"
                )
            files = [file for pattern in patterns for file in sorted(folder.glob(pattern))]
            found[name].setdefault(split, []).extend(files)
    return found


def _value(entry: object, key: str, where: str) -> Any:
    if not isinstance(entry, dict) or key not in entry:
        raise ValueError(f"{where}: got {entry!r}, wanted keys and values with {key!r}; mend it")
    return entry[key]


class RowsHash:
    """SHA-256 over rows, not over the bytes of a file: how rows are cut into batches and encoded does not matter.

    Every column, a nested one by its leaves, is hashed as its name, its lengths (little-endian int64, -1 for null; of
    texts in bytes, of lists in items) and its values (UTF-8, or little-endian numbers).
    """

    def __init__(self) -> None:
        self.rows = 0
        self._lengths: dict[str, Any] = {}
        self._values: dict[str, Any] = {}

    def update(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch."""
        self.rows += batch.num_rows
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            self._add(name, column)

    def hexdigest(self) -> str:
        """64 hexadecimal digits for all rows so far."""
        total = hashlib.sha256()
        for name in self._lengths:
            total.update(f"{name}:{self._lengths[name].hexdigest()}:{self._values[name].hexdigest()}\n".encode())
        return total.hexdigest()

    def _add(self, name: str, column: pa.Array) -> None:
        lengths = self._lengths.setdefault(name, hashlib.sha256())
        values = self._values.setdefault(name, hashlib.sha256())
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_list(column.type):
            lengths.update(_int64(column.value_lengths()))
            self._add(f"{name}[]", column.flatten())
        elif pa.types.is_struct(column.type):
            for field, child in zip(column.type, column.flatten(), strict=True):
                self._add(f"{name}.{field.name}", child)
        elif pa.types.is_string(column.type):
            lengths.update(_int64(pc.binary_length(column)))
            values.update(_bytes(column))
        else:
            lengths.update(_int64(column.is_valid().cast(pa.int64())))
            values.update(np.ascontiguousarray(column.drop_null().to_numpy(zero_copy_only=False)))


def rows_sha256(table: pa.Table) -> str:
    """The `RowsHash` of a whole table."""
    rows = RowsHash()
    for batch in table.to_batches():
        rows.update(batch)
    return rows.hexdigest()


def _int64(lengths: pa.Array) -> Any:
    return lengths.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False).astype("<i8", copy=False)


def _bytes(column: pa.StringArray) -> Any:
    column = column.drop_null() if column.null_count else column
    _, offsets, data = column.buffers()
    if data is None:
        return b""
    ends = np.frombuffer(offsets, np.int32)
    return data.slice(ends[column.offset], ends[column.offset + len(column)] - ends[column.offset])
