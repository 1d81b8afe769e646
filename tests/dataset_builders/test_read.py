from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders import plain, write_jsonl

from dataset_builders import folder
from dataset_builders.read import read_config, read_triplets
from dataset_builders.rows import read_rows
from dataset_builders.schema import TRIPLETS
from dataset_builders.stance import tables
from dataset_builders.text import text_id

CASES = Path(__file__).parent.parent / "cases"


@pytest.fixture
def built(tmp_path: Path) -> Path:
    made = tables.triplet_tables(plain(4), triplets=60, seed=0)
    folder.write(tmp_path / "t", made.tables, default=made.default, licences=["x"], summary="# T", facts={})
    return tmp_path / "t"


def test_triplets_come_with_the_columns_of_the_contract(built: Path) -> None:
    rows = read_triplets(built)
    assert rows.features == TRIPLETS and len(rows) == 60
    assert {n["kind"] for row in rows for n in row["negatives"]} == {"hard", "semi_hard", "easy", "inverted"}
    manifest = json.loads((built / "build.json").read_text())
    assert folder.rows_sha256(rows.data.table) == manifest["configs"]["mixed_aug"]["train"]["sha256"]


def test_one_file_reads_like_the_folder(built: Path, tmp_path: Path) -> None:
    rows = read_triplets(built, "homogeneous")
    (shard,) = built.glob("homogeneous/*.parquet")
    assert read_triplets(shard)[:] == rows[:]
    assert read_triplets(write_jsonl(tmp_path / "rows.jsonl", list(rows)))[:] == rows[:]


def test_the_new_rows_come_back_after_a_change_in_place(tmp_path: Path) -> None:
    """Case 2: same path, same time, other content."""
    import os

    for word in ("old", "new"):
        file = write_jsonl(tmp_path / "x.jsonl", [{**triplet(), "positive": word}])
        os.utime(file, (1e9, 1e9))
        assert read_triplets(file)["positive"][:] == [word]


def triplet() -> dict[str, Any]:
    return {
        "instruction": "Find evidence backing",
        "claim": "Guns should be banned.",
        "stance": "support",
        "positive": "It saves lives.",
        "negatives": [{"text": "Nobody obeys.", "kind": "hard"}],
    }


def test_a_shard_whose_types_were_guessed_from_empty_lists_reads_as_the_contract(tmp_path: Path) -> None:
    """Case 4: to a writer that guesses, a column of empty lists or of nulls has no type."""
    whole = {**triplet(), "claim_id": "c", "positive_id": "p", "source": "made up", "licence": "cc0-1.0"}
    pq.write_table(pa.Table.from_pylist([{**whole, "negatives": []}]), tmp_path / "empty.parquet")
    assert pa.types.is_null(pq.read_schema(tmp_path / "empty.parquet").field("negatives").type.value_type)
    rows = read_triplets(tmp_path / "empty.parquet")
    assert rows.features == TRIPLETS and rows["negatives"][:] == [[]]


def test_absent_ids_are_made_from_the_texts(tmp_path: Path) -> None:
    (row,) = read_triplets(write_jsonl(tmp_path / "rows.jsonl", [triplet()]))
    assert row["claim_id"] == text_id("claim", "guns should be banned.")
    assert row["positive_id"] == text_id("argument", "It saves lives.")
    assert row["negatives"][0]["id"] == text_id("argument", "Nobody obeys.")
    assert (row["source"], row["licence"]) == ("unknown", "unknown")


@pytest.mark.parametrize(("name", "n"), [("case14_repeated_claim.jsonl", 20), ("case18_column_order.jsonl", 4)])
def test_rows_with_columns_left_out_and_in_any_order(name: str, n: int) -> None:
    rows = read_triplets(CASES / name)
    wanted = [json.loads(line) for line in (CASES / name).read_bytes().splitlines()]
    assert len(rows) == len(wanted) and rows.column_names == list(TRIPLETS)
    assert [(r["claim_id"], r["positive"]) for r in rows] == [(w["claim_id"], w["positive"]) for w in wanted]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"anchor": "x"}, r"rows.jsonl:1: unknown keys \['anchor'\]"),
        ({"postive": "x"}, "Did you mean 'positive'"),
        ({"negatives": [{"text": "x", "knd": "hard"}]}, r"negative: unknown keys \['knd'\].*Did you mean 'kind'"),
        ({"negatives": [{"text": "x", "kind": "hrad"}]}, "got kind 'hrad', wanted one of .*Did you mean 'hard'"),
        ({"negatives": [{"text": " ", "kind": "hard"}]}, "rows.jsonl:1: negative: the text is empty"),
        ({"negatives": "x"}, "negatives: got str 'x', wanted a list"),
        ({"stance": "suport"}, "got stance 'suport', wanted one of .*Did you mean 'support'"),
        ({"positive": ""}, "rows.jsonl:1: positive: the text is empty"),
        ({"instruction": 3}, "rows.jsonl:1: instruction: got int 3, wanted a text"),
        ({"claim_id": 0}, "rows.jsonl:1: claim_id: got int 0, wanted a text"),
        ({"source": ["x"]}, r"rows.jsonl:1: source: got list \['x'\], wanted a text"),
        ({"negatives": ["x"]}, "rows.jsonl:1: negative: got str 'x', wanted an object with text and kind"),
        ({"negatives": [{"id": 7, "text": "x", "kind": "hard"}]}, "rows.jsonl:1: negative: id: got int 7, wanted a t"),
    ],
)
def test_bad_rows_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_triplets(write_jsonl(tmp_path / "rows.jsonl", [{**triplet(), **change}]))


def full(**changes: Any) -> dict[str, Any]:
    negatives = [{"id": "n", "text": "Nobody obeys.", "kind": "hard"}]
    ids = {"claim_id": "c", "positive_id": "p", "source": "s", "licence": "l", "negatives": negatives}
    return {**triplet(), **ids, **changes}


def negative(**changes: Any) -> dict[str, Any]:
    return {"negatives": [{"id": "n", "text": "Nobody obeys.", "kind": "hard", **changes}]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"claim": " \u00a0"}, "row 2: claim: the text is empty"),
        ({"claim": "a\0b"}, "row 2: claim: the text holds a NUL character"),
        ({"positive": None}, "row 2: positive: got NoneType None, wanted a text"),
        ({"claim_id": None}, "row 2: claim_id: got NoneType None"),
        ({"licence": ""}, "row 2: licence: the text is empty"),
        ({"stance": "suport"}, "row 2: got stance 'suport', wanted one of .*Did you mean 'support'"),
        ({"stance": None}, "row 2: got stance None, wanted one of"),
        ({"negatives": None}, "row 2: negatives: got null, wanted a list"),
        ({"negatives": [None]}, "row 2: negative: id: got NoneType None"),
        (negative(text=""), "row 2: negative: text: the text is empty"),
        (negative(id=None), "row 2: negative: id: got NoneType None"),
        (negative(kind=None), "row 2: negative: got kind None, wanted one of"),
        (negative(kind="hrad"), "row 2: negative: got kind 'hrad', .*Did you mean 'hard'"),
    ],
)
def test_bad_rows_of_parquet_are_refused_too(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    file = tmp_path / "rows.parquet"
    good = full(negatives=[{"id": str(i), "text": "x", "kind": "easy"} for i in range(3)])
    pq.write_table(pa.Table.from_pylist([good, full(**change)], schema=TRIPLETS.arrow_schema), file, row_group_size=1)
    with pytest.raises(ValueError, match=rf"rows\.parquet, {message}"):
        read_triplets(file)


@pytest.mark.parametrize("form", ["rows.jsonl", "rows.parquet"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"positive": "It is old."}, "positive_id 'p' stands for two texts, 'It saves lives.' and 'It is old.'; give"),
        ({"claim": "Guns kill."}, "claim_id 'c' stands for two texts, 'Guns should be banned.' and 'Guns kill.'"),
    ],
)
def test_an_id_that_stands_for_two_texts_is_refused(
    tmp_path: Path, form: str, change: dict[str, Any], message: str
) -> None:
    """Case 6. Texts that differ in letters and spaces alone are one; a negative's id is a label."""
    file = tmp_path / form

    def write(rows: list[dict[str, Any]]) -> None:
        if file.suffix == ".parquet":
            pq.write_table(pa.Table.from_pylist(rows, schema=TRIPLETS.arrow_schema), file, row_group_size=1)
        else:
            write_jsonl(file, rows)

    alike = {"claim": "guns should be  banned", "positive": "it saves lives.", **negative(text="Another.")}
    write([full(), full(**alike)])
    assert len(read_triplets(file)) == 2
    write([full(), full(**change)])
    with pytest.raises(ValueError, match=rf"{form}: {message}"):
        read_triplets(file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"claim_id": 7}, "column 'claim_id': got values of type int64, wanted string"),
        ({"negatives": "x"}, "column 'negatives': got values of type string, wanted list"),
        ({"negatives": [{"text": "x", "id": "n"}]}, "column 'negatives': item: got the fields .*, wanted .*'kind'"),
        (negative(text=3), "column 'negatives': item: text: got values of type int64"),
    ],
)
def test_columns_of_another_type_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    pq.write_table(pa.Table.from_pylist([full(**change)]), tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=rf"rows\.parquet: {message}"):
        read_triplets(tmp_path / "rows.parquet")


def test_dictionary_encoded_texts_are_texts(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([full(), full()])
    encoded = table.set_column(0, table.column_names[0], table.column(0).dictionary_encode())
    pq.write_table(encoded, tmp_path / "rows.parquet")
    assert read_triplets(tmp_path / "rows.parquet")["claim"][:] == ["Guns should be banned."] * 2


def test_damaged_parquet_is_named(built: Path, tmp_path: Path) -> None:
    (shard,) = built.glob("mixed_aug/*.parquet")
    shard.write_bytes(shard.read_bytes()[:-9])
    with pytest.raises(ValueError, match=rf"{shard.name}: the file is no sound parquet .*write it or fetch it anew"):
        read_triplets(built)
    with pytest.raises(ValueError, match="the file is no sound parquet"):
        list(read_rows(shard))
    latin = pa.array(["é".encode("latin-1")]).view(pa.string())
    pq.write_table(pa.table({"claim": latin}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"x\.parquet: the file is no sound parquet .*UTF8"):
        list(read_rows(tmp_path / "x.parquet"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[" * 100_000, "x.jsonl:2: the line nests lists or objects too deeply"),
        ('{"a": ' + "1" * 5000 + "}", "x.jsonl:2: the line cannot be read .*digits"),
        ('{"a": "x", "a": "y"}', r"x.jsonl:2: the line cannot be read \(the keys \['a'\] stand twice in one object"),
        ('{"b": [{"a": 1, "a": 1}]}', r"x.jsonl:2: .*the keys \['a'\] stand twice"),
    ],
)
def test_lines_that_json_trips_over_are_named(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "x.jsonl").write_text('{"a": 1}\n' + line + "\n")
    with pytest.raises(ValueError, match=message):
        list(read_rows(tmp_path / "x.jsonl"))


def test_wrong_names_are_refused(built: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"got curriculum 'mixed-aug', wanted one of .*Did you mean 'mixed_aug'"):
        read_triplets(built, "mixed-aug")
    with pytest.raises(ValueError, match=r"has the splits \['train'\], wanted 'tran'.*Did you mean 'train'"):
        read_triplets(built, split="tran")
    with pytest.raises(ValueError, match="wanted 'claims'"):
        read_config(built, "claims", TRIPLETS)
    with pytest.raises(ValueError, match="Is this a dataset folder"):
        read_triplets(tmp_path)
    with pytest.raises(FileNotFoundError, match="no such file or folder; build one with"):
        read_triplets(tmp_path / "absent")
    pq.write_table(pa.table({"claim": ["a"], "positve": ["b"]}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"unknown \['positve'\].*Did you mean 'positive'"):
        read_triplets(tmp_path / "x.parquet")
