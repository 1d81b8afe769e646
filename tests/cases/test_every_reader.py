"""What can be wrong with a file of texts, at every reader there is (cases 2, 5 and their kind)."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases.readers import READERS, Reader

every_reader = pytest.mark.parametrize("reader", READERS.values(), ids=READERS.keys())
SEPARATORS = [
    json.loads(line)["text"]
    for line in (Path(__file__).parent / "case05_separators.jsonl").read_bytes().split(b"\n")
    if line
]
PLAIN = ["It saves lives.", "It costs – as they say – “jobs”.", "Zölle schaden.", "שלום", "No."]


@every_reader
def test_the_new_rows_come_back_after_a_change_in_place(reader: Reader, tmp_path: Path) -> None:
    """Case 2: the same path and the same time of change; only the content says that the file is another."""
    for text in ("the old one", "the new one"):
        reader.write(tmp_path, reader.content([text, "another", "third", "fourth", "fifth"]).encode())
        os.utime(tmp_path / reader.file, (1e9, 1e9))
        assert reader.read(tmp_path)[0] == text


@every_reader
def test_only_lf_ends_a_line(reader: Reader, tmp_path: Path) -> None:
    """Case 5: U+2028, U+2029, U+0085 and the rest come back code point by code point."""
    texts = ["e f" if reader.is_lines and "\n" in text else text for text in SEPARATORS]
    reader.write(tmp_path, reader.content(texts).encode())
    assert reader.read(tmp_path) == texts


@every_reader
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "byte order mark"])
def test_windows_line_ends_and_marks_change_nothing(reader: Reader, tmp_path: Path, mark: str) -> None:
    reader.write(tmp_path, (mark + reader.content(PLAIN)).replace("\n", "\r\n").encode())
    assert reader.read(tmp_path) == PLAIN


@every_reader
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_another_encoding_is_named_with_its_file(reader: Reader, tmp_path: Path, encoding: str) -> None:
    content = reader.content(["Café crème", "b", "c", "d", "e"])
    reader.write(tmp_path, content.encode(encoding))
    with pytest.raises(ValueError, match=rf"{re.escape(Path(reader.file).name)}.*UTF-8.*save it"):
        reader.read(tmp_path)


@pytest.mark.parametrize("name", [name for name, reader in READERS.items() if name != "lines to encode"])
def test_a_text_with_a_nul_is_refused(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    reader.write(tmp_path, reader.content(["a\0b", "b", "c", "d", "e"]).encode())
    with pytest.raises(ValueError, match="NUL"):
        reader.read(tmp_path)


@pytest.mark.parametrize("name", [name for name, reader in READERS.items() if reader.is_json])
def test_half_a_surrogate_pair_is_refused(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    content = reader.content(["HALF", "b", "c", "d", "e"]).replace("HALF", r"a\ud800b")
    reader.write(tmp_path, content.encode())
    with pytest.raises(ValueError, match="surrogate"):
        reader.read(tmp_path)


# -- files that nobody wrote ---------------------------------------------------------------------------------------

_VALUES = (
    "null",
    "true",
    "7",
    "-1.5",
    "[]",
    "{}",
    "[[]]",
    '""',
    '" "',
    '["x", 1]',
    '{"text": "x"}',
    "NaN",
    "9" * 5000,
)
_PIECES = ('"', "[", "{", "}", ",", "\n", "\r", "\t", "\0", "\ufeff", "[" * 100_000, "\\", "9" * 5000, ": ", "null")


def spoilt(content: str, rng: random.Random) -> bytes:
    """A file with a value of another type, a key less, or anything lost or put in."""
    for _ in range(rng.choice([1, 1, 2])):
        tokens = [m.span() for m in re.finditer(r'"[^"]*"|[-\d.]+', content)] or [(0, len(content))]
        start, end = rng.choice(tokens)
        place = rng.randrange(len(content) + 1)
        how = rng.randrange(6)
        if how < 2:
            content = content[:start] + rng.choice(_VALUES) + content[end:]
        elif how == 2:
            content = content[:start] + '"other"' + content[end:]
        elif how == 3:
            content = content[:place] + rng.choice(_PIECES) + content[place:]
        elif how == 4:
            content = content[:place] + content[place + rng.randrange(1, 30) :]
        else:
            content = content[:place]
    found = content.encode()
    place = rng.randrange(len(found) + 1)
    return found[:place] + bytes([rng.randrange(256)]) + found[place:] if rng.random() < 0.1 else found


@every_reader
def test_a_spoilt_file_is_read_or_refused_by_name(reader: Reader, tmp_path: Path) -> None:
    rng = random.Random(5)
    refused = 0
    for _ in range(60):
        content = spoilt(reader.content(PLAIN), rng)
        reader.write(tmp_path, content)
        try:
            reader.read(tmp_path)
        except ValueError as error:
            assert not isinstance(error, UnicodeError), content
            assert len(str(error)) < 50_000, content[:500]
            refused += 1
    assert refused > (1 if reader.is_lines else 10)


# -- 200 MB of one line --------------------------------------------------------------------------------------------

_LARGE = 200_000_000
_MEMORY = 2_000_000_000


def read_large(name: str, folder: str) -> None:
    """In a process of its own: prints what came of it, and the most memory that was held, in bytes."""
    reader = READERS[name]
    first, last = reader.content(["MARK", "b", "c", "d", "e"]).encode().split(b"MARK")
    path = Path(folder) / reader.file
    reader.write(Path(folder), first)
    with path.open("ab") as file:
        for _ in range(_LARGE // 1_000_000):
            file.write(b"word " * 200_000)
        file.write(last)
    try:
        told = f"read {len(reader.read(Path(folder))[0])}"
    except ValueError as error:
        told = f"refused {error}"
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    sys.stdout.write(json.dumps([told, used]))


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_200_mb_of_one_line(name: str, tmp_path: Path) -> None:
    """Lines to encode are read as they come. A row, a text or a CSV field is none of that size."""
    script = "import sys; from tests.cases.test_every_reader import read_large; read_large(*sys.argv[1:])"
    command = [sys.executable, "-c", script, name, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told, used = json.loads(done.stdout)
    if name == "lines to encode":
        assert told == f"read {_LARGE}"
    else:
        assert told.startswith("refused"), told[:300]
        assert Path(READERS[name].file).name in told
    assert len(told) < 1_000
    assert used < _MEMORY
