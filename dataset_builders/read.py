"""Read dataset folders and triplets: parquet directly, with the Features of the contract, never from a cache."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset, Features

from dataset_builders.folder import shards
from dataset_builders.instructions import STANCES
from dataset_builders.rows import Row, check_keys, one_of, read_parquet, read_rows
from dataset_builders.schema import CURRICULA, TRIPLETS, NegativeKind, same_columns
from dataset_builders.text import check_text, claim_key, did_you_mean, shown, text_id, text_key

NEGATIVE_KINDS: tuple[NegativeKind, ...] = get_args(NegativeKind)


def read_config(folder: Path, config: str, features: Features) -> dict[str, pa.Table]:
    """Every split of one config of a dataset folder, in the order of its README.

    Raises:
        ValueError: If the folder has no such config, or a file is damaged or has other columns or types.
    """
    found = shards(folder)
    if config not in found:
        raise ValueError(
            f"{folder}: got configs {list(found)}, wanted {config!r}.{did_you_mean(config, found)}"
            f"{'' if found else ' Is this a dataset folder? It needs a README.md with configs.'}"
        )
    return {split: _read_table(files, features) for split, files in found[config].items()}


def _read_table(files: list[Path], features: Features) -> pa.Table:
    tables = []
    for file in files:
        table = read_parquet(file)
        same_columns(table.column_names, features, str(file))
        for field in features.arrow_schema:
            _same_type(table.schema.field(field.name).type, field.type, f"{file}: column {field.name!r}")
        try:
            table = table.select(list(features)).cast(features.arrow_schema)
        except pa.ArrowException as error:
            raise ValueError(f"{file}: the columns are not those of the contract ({error}); build it anew") from None
        if features is TRIPLETS:
            _check_triplets(table, file)
        tables.append(table)
    whole = pa.concat_tables(tables) if tables else features.arrow_schema.empty_table()
    if features is TRIPLETS and files:
        check_ids(whole, str(files[0]))
    return whole


def _same_type(got: pa.DataType, wanted: pa.DataType, where: str) -> None:
    """Refuse what a cast would take silently: numbers as texts, and fields that come or go."""
    if pa.types.is_dictionary(got):
        got = got.value_type
    if pa.types.is_list(wanted) and (pa.types.is_list(got) or pa.types.is_large_list(got)):
        _same_type(got.value_type, wanted.value_type, f"{where}: item")
    elif pa.types.is_struct(wanted) and pa.types.is_struct(got):
        names, known = [f.name for f in got], [f.name for f in wanted]
        if sorted(names) != sorted(known):
            raise ValueError(f"{where}: got the fields {names}, wanted {known}; build it anew")
        for field in wanted:
            _same_type(got.field(field.name).type, field.type, f"{where}: {field.name}")
    elif not (pa.types.is_null(got) or any(of(got) and of(wanted) for of in (_is_text, _is_number))):
        raise ValueError(f"{where}: got values of type {got}, wanted {wanted}; build it anew")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _check_triplets(table: pa.Table, file: Path) -> None:
    """What `_triplet` checks in one row, for all rows at once: only what looks wrong is looked at in Python."""
    start = 1
    for batch in table.to_batches():
        lists = batch["negatives"]
        for i in _places(pc.is_null(lists)):
            raise ValueError(f"{file}, row {start + i}: negatives: got null, wanted a list")
        rows = pc.list_parent_indices(lists)
        negatives = dict(zip(("id", "text", "kind"), pc.list_flatten(lists).flatten(), strict=True))
        for key in ("claim_id", "instruction", "claim", "positive_id", "positive", "source", "licence"):
            for i in _places(_suspect(batch[key])):
                check_text(batch[key][i].as_py(), f"{file}, row {start + i}: {key}")
        for i in _places(_none_of(batch["stance"], STANCES)):
            one_of("stance", batch["stance"][i].as_py(), STANCES, f"{file}, row {start + i}")
        for key in ("id", "text"):
            for i in _places(_suspect(negatives[key])):
                check_text(negatives[key][i].as_py(), f"{file}, row {start + rows[i].as_py()}: negative: {key}")
        for i in _places(_none_of(negatives["kind"], NEGATIVE_KINDS)):
            where = f"{file}, row {start + rows[i].as_py()}: negative"
            one_of("kind", negatives["kind"][i].as_py(), NEGATIVE_KINDS, where)
        start += batch.num_rows


def check_ids(table: pa.Table, where: str) -> None:
    """Refuse triplets whose ids are doubled. Ids of negatives are labels, by which nothing is found, and may repeat.

    Args:
        table: Columns of ``schema.TRIPLETS``.
        where: Names the file, or the first of several.

    Raises:
        ValueError: If an id stands for two claims, or for two positives. Texts of one key are one text.
    """
    for column, key_of in (("claim", claim_key), ("positive", text_key)):
        name = f"{column}_id"
        pairs = table.select([name, column]).group_by([name, column], use_threads=False).aggregate([])
        counted = pairs.group_by(name, use_threads=False).aggregate([([], "count_all")])
        several = counted.filter(pc.field("count_all") > 1)[name].combine_chunks()
        first: dict[str, str] = {}
        for row in pairs.filter(pc.is_in(pairs[name], several)).to_pylist():  # few, if any
            known = first.setdefault(row[name], row[column])
            if key_of(known) != key_of(row[column]):
                raise ValueError(
                    f"{where}: {name} {shown(row[name])} stands for two texts, {shown(known)} and "
                    f"{shown(row[column])}; give each its own id"
                )


def _places(mask: pa.BooleanArray) -> list[int]:
    places: list[int] = pc.indices_nonzero(mask).to_pylist()
    return places


def _suspect(texts: pa.StringArray) -> pa.BooleanArray:
    """Which texts are null, blank or hold a NUL character."""
    blank = pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(texts)), 0)
    return pc.fill_null(pc.or_(blank, pc.match_substring(texts, "\0")), True)


def _none_of(names: pa.StringArray, known: tuple[str, ...]) -> pa.BooleanArray:
    return pc.invert(pc.is_in(names, pa.array(known)))


def read_triplets(path: Path, config: str = "mixed_aug", split: str = "train") -> Dataset:
    """Training triplets (``schema.TRIPLETS``) from a built folder, or from one parquet or JSONL file.

    In JSONL, ids that are absent are made from the texts; ``source`` and ``licence`` may be absent.

    Args:
        path: A folder of ``build {source}-stance-triplets``, or a file, for which config and split do not matter.
        config: The curriculum.
        split: ``train`` or ``validation``.

    Raises:
        FileNotFoundError: If there is nothing at ``path``.
        ValueError: If config or split is not there, columns are wrong, a text is empty or broken, or an id stands for
            two texts.
    """
    if path.is_dir():
        if config not in CURRICULA:
            raise ValueError(
                f"got curriculum {config!r}, wanted one of {list(CURRICULA)}.{did_you_mean(config, CURRICULA)}"
            )
        splits = read_config(path, config, TRIPLETS)
        if split not in splits:
            raise ValueError(
                f"{path}: config {config!r} has the splits {list(splits)}, wanted {split!r}."
                f"{did_you_mean(split, splits)}"
            )
        return Dataset(splits[split])
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file or folder; build one with `python -m dataset_builders build`")
    if path.suffix == ".parquet":
        return Dataset(_read_table([path], TRIPLETS))
    rows = [_triplet(row, where) for where, row in read_rows(path)]
    table = pa.Table.from_pylist(rows, schema=TRIPLETS.arrow_schema)
    check_ids(table, path.name)
    return Dataset(table)


def _triplet(row: Row, where: str) -> Row:
    optional = ("claim_id", "positive_id", "source", "licence")
    check_keys(row, [c for c in TRIPLETS if c not in optional], optional, where)
    for key in ("claim", "instruction", "positive"):
        check_text(row[key], f"{where}: {key}")
    one_of("stance", row["stance"], STANCES, where)
    if not isinstance(row["negatives"], list):
        raise ValueError(
            f"{where}: negatives: got {type(row['negatives']).__name__} {shown(row['negatives'])}, wanted a list"
        )
    return {
        **row,
        "claim_id": _given(row, "claim_id", where) or text_id("claim", row["claim"]),
        "positive_id": _given(row, "positive_id", where) or text_id("argument", row["positive"]),
        "negatives": [_negative(negative, f"{where}: negative") for negative in row["negatives"]],
        "source": _given(row, "source", where) or "unknown",
        "licence": _given(row, "licence", where) or "unknown",
    }


def _negative(row: object, where: str) -> Row:
    if not isinstance(row, dict):
        raise ValueError(f"{where}: got {type(row).__name__} {shown(row)}, wanted an object with text and kind")
    check_keys(row, ("text", "kind"), ("id",), where)
    check_text(row["text"], where)
    one_of("kind", row["kind"], NEGATIVE_KINDS, where)
    return {**row, "id": _given(row, "id", where) or text_id("argument", row["text"])}


def _given(row: Row, key: str, where: str) -> str | None:
    value = row.get(key)
    return None if value in (None, "") else check_text(value, f"{where}: {key}")
