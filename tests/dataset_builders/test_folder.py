from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from datasets import Features, Value, load_dataset
from hypothesis import given
from hypothesis import strategies as st

from dataset_builders.folder import RowsHash, Table, rows_sha256, shards, write
from dataset_builders.rows import Row
from dataset_builders.schema import CORPUS, INVERSIONS, TRIPLETS, Split

CASES = Path(__file__).parent.parent / "cases"
WORDS = Features({"word": Value("string")})


def table(words: Iterable[str], config: str = "words", split: Split = "train") -> Table:
    words = list(words)
    return Table(config, split, WORDS, len(words), [pa.RecordBatch.from_pydict({"word": words}, WORDS.arrow_schema)])


def put(out: Path, *tables: Table, default: str = "words", summary: str = "# Words", **facts: Any) -> bool:
    return write(out, tables, default=default, licences=["cc0-1.0"], summary=summary, facts=facts)


def content(folder: Path) -> dict[str, bytes]:
    return {f.relative_to(folder).as_posix(): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def words_of(folder: Path, config: str = "words") -> list[str]:
    return load_dataset(str(folder), config, split="train")["word"][:]


def test_a_folder_loads_by_config_and_split(tmp_path: Path) -> None:
    assert put(tmp_path / "d", table(["a", "b"]), table(["c"], split="test"), table(["x"], config="more"), seed=3)
    loaded = load_dataset(str(tmp_path / "d"))
    assert {split: rows["word"][:] for split, rows in loaded.items()} == {"train": ["a", "b"], "test": ["c"]}
    assert loaded["train"].features == WORDS
    assert words_of(tmp_path / "d", "more") == ["x"]
    manifest = json.loads((tmp_path / "d" / "build.json").read_text(encoding="utf-8"))
    assert manifest["seed"] == 3
    assert manifest["configs"]["words"]["train"]["rows"] == 2
    assert (tmp_path / "d" / manifest["configs"]["words"]["test"]["file"]).is_file()
    assert yaml.safe_load((tmp_path / "d" / "README.md").read_text().split("---")[1])["license"] == "cc0-1.0"


def test_the_same_rows_give_the_same_bytes_and_nothing_is_written(tmp_path: Path) -> None:
    put(tmp_path / "a", table(["a", "b"]), seed=0)
    before = content(tmp_path / "a")
    times = {f: (tmp_path / "a" / f).stat().st_mtime_ns for f in before}
    assert put(tmp_path / "a", table(["a", "b"]), seed=0) is False
    assert {f: (tmp_path / "a" / f).stat().st_mtime_ns for f in content(tmp_path / "a")} == times
    put(tmp_path / "b", table(["a", "b"]), seed=0)
    assert content(tmp_path / "b") == before
    assert put(tmp_path / "a", table(["a", "b"]), seed=1) is True


def test_a_damaged_shard_is_mended(tmp_path: Path) -> None:
    put(tmp_path, table(["a"]))
    before = content(tmp_path)
    (shard,) = tmp_path.glob("words/*.parquet")
    shard.write_bytes(b"")
    assert put(tmp_path, table(["a"])) is True
    assert content(tmp_path) == before


def test_case_1_and_2_a_rebuilt_folder_gives_the_new_rows_and_no_old_file(tmp_path: Path) -> None:
    """`load_dataset` caches a folder with configs by its file names and looks at neither content nor time."""
    first, second = (
        [json.loads(line) for line in (CASES / "case01_rebuild" / f).read_bytes().splitlines()]
        for f in ("first.jsonl", "second.jsonl")
    )

    def corpus(rows: list[dict[str, Any]]) -> Table:
        full = [{**row, "source": "made up", "licence": "cc0-1.0"} for row in rows]
        return Table(
            "corpus", "train", CORPUS, len(rows), pa.Table.from_pylist(full, CORPUS.arrow_schema).to_batches()
        )

    for rows in (first, second):
        put(tmp_path, corpus(rows), default="corpus")
        for f in tmp_path.rglob("*.parquet"):
            os.utime(f, (1e9, 1e9))
        loaded = load_dataset(str(tmp_path), "corpus", split="train")
        assert [r["_id"] for r in loaded] == [r["_id"] for r in rows]
    assert len(list(tmp_path.rglob("*.parquet"))) == 1


def test_a_config_that_is_no_longer_built_is_gone(tmp_path: Path) -> None:
    put(tmp_path, table(["a"]), table(["x"], config="more"))
    put(tmp_path, table(["a"]))
    assert not (tmp_path / "more").exists()
    assert list(shards(tmp_path)) == ["words"]


def test_case_3_a_hand_written_readme_keeps_its_text_and_its_keys(tmp_path: Path) -> None:
    shutil.copytree(CASES / "case03_card", tmp_path, dirs_exist_ok=True)
    by_hand = (tmp_path / "README.md").read_text(encoding="utf-8")
    head, body = by_hand.split("---\n", 2)[1:]
    (tmp_path / "README.md").write_text(f"---\n{head}pretty_name: My data # a comment\n---\n{body}", encoding="utf-8")
    put(tmp_path, table(["a"]))
    readme = (tmp_path / "README.md").read_bytes()
    assert readme.decode().endswith(body)
    data = yaml.safe_load(readme.decode().split("---\n")[1])
    assert (data["license"], data["pretty_name"]) == ("cc-by-4.0", "My data")
    assert words_of(tmp_path) == ["a"]
    put(tmp_path, table(["a"]), seed=1)
    assert (tmp_path / "README.md").read_bytes() == readme, "the second run changes no byte"


def test_other_files_and_configs_with_files_stay(tmp_path: Path) -> None:
    put(tmp_path, table(["a"]))
    (tmp_path / "extra").mkdir()
    pq.write_table(pa.table({"word": ["mine"]}), tmp_path / "extra" / "mine.parquet")
    own = "- config_name: extra\n  data_files: extra/*.parquet\n- config_name: empty\n  data_files: no/*.parquet"
    readme = tmp_path / "README.md"
    readme.write_text(readme.read_text().replace("configs:", f"configs:\n{own}").replace("  default: true\n", ""))
    put(tmp_path, table(["b"]))
    assert words_of(tmp_path, "extra") == ["mine"]
    assert load_dataset(str(tmp_path), split="train")["word"][:] == ["b"]
    assert list(shards(tmp_path)) == ["words", "extra"]


def test_only_the_generated_part_of_a_readme_is_renewed(tmp_path: Path) -> None:
    put(tmp_path, table(["a"]), summary="# One row")
    readme = (tmp_path / "README.md").read_text()
    assert "# One row" in readme
    (tmp_path / "README.md").write_text(readme + "\nWritten by hand \\1.\n")
    put(tmp_path, table(["a", "b"]), summary="# Two rows \\1")
    readme = (tmp_path / "README.md").read_text()
    assert "# Two rows \\1" in readme and "# One row" not in readme and readme.endswith("\nWritten by hand \\1.\n")


KILLED = """
import os, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from test_folder import put, table
calls, replace = 0, os.replace
def replace_or_die(a, b):
    global calls
    calls += 1
    if calls == {at}:
        os._exit(9)
    replace(a, b)
os.replace = replace_or_die
put(Path({out!r}), table(["new"]), table(["new"], config="more"))
"""


@pytest.mark.parametrize("at", [1, 3, 4, 5])  # first shard, README, manifest, never
def test_a_killed_build_leaves_the_old_rows_or_the_new_ones(tmp_path: Path, at: int) -> None:
    put(tmp_path, table(["old"]), table(["old"], config="more"))
    script = KILLED.format(tests=str(Path(__file__).parent), at=at, out=str(tmp_path))
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == (9 if at < 5 else 0)
    expected = ["old"] if at <= 3 else ["new"]
    assert words_of(tmp_path) == words_of(tmp_path, "more") == expected
    put(tmp_path, table(["new"]), table(["new"], config="more"))
    assert words_of(tmp_path) == words_of(tmp_path, "more") == ["new"]
    assert sorted(content(tmp_path)) == sorted(
        [
            "README.md",
            "build.json",
            *(f.relative_to(tmp_path).as_posix() for c in shards(tmp_path).values() for f in c["train"]),
        ]
    )


def test_a_first_build_that_is_killed_can_be_repeated(tmp_path: Path) -> None:
    script = KILLED.format(tests=str(Path(__file__).parent), at=3, out=str(tmp_path / "d"))
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 9
    put(tmp_path / "d", table(["new"]))
    assert words_of(tmp_path / "d") == ["new"]
    assert len(content(tmp_path / "d")) == 3


FULL = """
import resource, signal, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from test_folder import put, table
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    put(Path({out!r}), table(["new"]), table([str(i * 7919 % 10007) for i in range(9999)], config="more"))
except OSError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on file sizes")
@pytest.mark.parametrize("there", [True, False])
def test_when_nothing_more_can_be_written_the_old_state_stays(tmp_path: Path, there: bool) -> None:
    out = tmp_path / "d"
    if there:
        put(out, table(["old"]), table(["old"], config="more"))
    before = content(tmp_path)
    script = FULL.format(tests=str(Path(__file__).parent), out=str(out))
    run = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert "what was there before is unchanged: free some space or choose another folder" in run.stdout
    assert content(tmp_path) == before
    assert out.exists() == there


def test_what_is_in_the_way_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError, match="a file is in the way; choose a folder"):
        put(tmp_path / "file", table(["a"]))
    (tmp_path / "d" / "words").mkdir(parents=True)
    (tmp_path / "d" / "words" / "mine.parquet").write_bytes(b"mine")
    with pytest.raises(FileExistsError, match=r"what no build has written, such as words; choose an empty"):
        put(tmp_path / "d", table(["a"]))
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"what no build has written, such as notes\.txt"):
        put(tmp_path / "f", table(["a"]))
    assert (tmp_path / "f" / "notes.txt").read_text() == "mine"
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "README.md").write_text("---\na: [\n---\n")
    with pytest.raises(ValueError, match="the part between the --- lines is no YAML"):
        put(tmp_path / "e", table(["a"]))


NESTED = Features({"t": TRIPLETS["claim_id"], "n": TRIPLETS["negatives"], "j": INVERSIONS["jaccard"]})
texts = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
negatives = st.none() | st.lists(st.fixed_dictionaries({"id": texts, "text": texts, "kind": texts}), max_size=3)
nested_rows = st.lists(
    st.fixed_dictionaries({"t": texts, "n": negatives, "j": st.none() | st.floats(allow_nan=False)}), max_size=6
)


def nested(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=NESTED.arrow_schema)


@given(nested_rows, st.integers(0, 6))
def test_the_hash_of_rows_does_not_see_batches(rows: list[Row], cut: int) -> None:
    whole = nested(rows)
    split = RowsHash()
    for part in (whole.slice(0, cut), whole.slice(cut)):
        for batch in part.to_batches():
            split.update(batch)
    assert split.rows == len(rows)
    if rows:
        assert split.hexdigest() == rows_sha256(whole)


@given(nested_rows.filter(bool), nested_rows.filter(bool))
def test_the_hash_of_rows_sees_every_difference(a: list[Row], b: list[Row]) -> None:
    assert (rows_sha256(nested(a)) == rows_sha256(nested(b))) == (
        json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)
    )


def test_the_hash_of_rows_does_not_see_encodings() -> None:
    plain = pa.table({"t": ["a", "b", None, "a"]})
    encoded = pa.table({"t": plain["t"].combine_chunks().dictionary_encode()})
    assert rows_sha256(plain) == rows_sha256(encoded)
    # worked by hand: name, SHA-256 of the lengths, SHA-256 of the bytes
    from hashlib import sha256
    from struct import pack

    line = f"t:{sha256(pack('<4q', 1, 1, -1, 1)).hexdigest()}:{sha256(b'aba').hexdigest()}\n"
    assert rows_sha256(plain) == sha256(line.encode()).hexdigest()


def test_shards_reads_every_spelling_of_data_files(tmp_path: Path) -> None:
    for name in ("a.parquet", "b.parquet"):
        (tmp_path / name).touch()
    (tmp_path / "README.md").write_text(
        """---
configs:
- config_name: one
  data_files: a.parquet
- config_name: both
  data_files: [a.parquet, b.parquet]
- config_name: pattern
  data_files:
  - {split: test, path: "*.parquet"}
  - {split: train, path: [b.parquet]}
---
"""
    )
    names = {c: {s: [f.name for f in files] for s, files in splits.items()} for c, splits in shards(tmp_path).items()}
    assert names == {
        "one": {"train": ["a.parquet"]},
        "both": {"train": ["a.parquet", "b.parquet"]},
        "pattern": {"test": ["a.parquet", "b.parquet"], "train": ["b.parquet"]},
    }
    assert shards(tmp_path / "absent") == {}


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ("abc", r"README.md: configs: got str 'abc', wanted a list; mend it"),
        ("[abc]", r"README.md: a config: got 'abc', wanted keys and values with 'config_name'"),
        ("[{data_files: a.parquet}]", "README.md: a config: got .*, wanted keys and values with 'config_name'"),
        ("[{config_name: [a], data_files: a}]", r"README.md: a config: got config_name \['a'\], wanted a text"),
        ("[{config_name: a}]", "README.md: config 'a': got .*, wanted keys and values with 'data_files'"),
        ("[{config_name: a, data_files: [{path: a}]}]", "config 'a': data_files: got .*, wanted .* with 'split'"),
        ("[{config_name: a, data_files: [{split: a}]}]", "config 'a': data_files: got .*, wanted .* with 'path'"),
        ("[{config_name: a, data_files: 3}]", "config 'a': got split 'train' and path 3, wanted a name and paths"),
        (
            "[{config_name: a, data_files: /x.parquet}]",
            "got split 'train' and path '/x.parquet', wanted .* in the folder",
        ),
    ],
)
def test_a_readme_with_broken_configs_is_named(tmp_path: Path, configs: str, message: str) -> None:
    (tmp_path / "README.md").write_text(f"---\nconfigs: {configs}\n---\n")
    with pytest.raises(ValueError, match=message):
        shards(tmp_path)
    with pytest.raises(ValueError, match=message):
        put(tmp_path, table(["a"]))
    assert list(content(tmp_path)) == ["README.md"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs fcntl")
@pytest.mark.parametrize("there", [True, False])
def test_a_second_build_leaves_the_first_one_alone(tmp_path: Path, there: bool) -> None:
    out = tmp_path / "d"
    if there:
        put(out, table(["old"]))

    def batches() -> Iterable[pa.RecordBatch]:
        with pytest.raises(BlockingIOError, match="d: another build writes into this folder; wait until it is done"):
            put(out, table(["second"]))
        yield pa.RecordBatch.from_pydict({"word": ["first"]}, WORDS.arrow_schema)

    (out / ".staging-dead").mkdir(parents=True)
    assert put(out, Table("words", "train", WORDS, 1, batches()))
    assert words_of(out) == ["first"]
    assert len(content(out)) == 3 and not list(out.glob(".staging*"))


def test_a_config_of_no_files_is_dropped_by_a_build(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("---\nconfigs: [{config_name: a, data_files: []}]\n---\n")
    assert shards(tmp_path) == {"a": {}}
    put(tmp_path, table(["a"]))
    assert list(shards(tmp_path)) == ["words"]
