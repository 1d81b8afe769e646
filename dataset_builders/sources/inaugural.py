"""Inaugural addresses as an oblique task: passages by the same president in another address (public domain).

From ``inaugural.zip`` of nltk_data. File names give surnames, and four of them mean two presidents. A query is a
passage; relevant are the passages of the speaker's other addresses, and those of its own may not be returned.
Addresses may have been written by others: fine for trying, not for claims about authorship.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections import defaultdict
from pathlib import Path

from dataset_builders.sources.obliq_bench import ObliqueTask, ObliqueText
from dataset_builders.text import check_text, sentences, words

NAME = "inaugural"
FILE = "inaugural.zip"
LARGEST = 2**24
"""Bytes of all addresses together, which are under a million: a small archive may hold terabytes."""
PASSAGE = 120
"""Words at which a passage ends with its sentence."""

_NAME = re.compile(r"(?:^|/)(\d{4})-([A-Za-z]+)\.txt$")
_IN_BIG5 = "2005-Bush"  # the others are UTF-8
_FIRST_NAMES = {
    "Adams": {1797: "John", 1825: "John Quincy"},
    "Harrison": {1841: "William Henry", 1889: "Benjamin"},
    "Roosevelt": {1905: "Theodore", 1933: "Franklin", 1937: "Franklin", 1941: "Franklin", 1945: "Franklin"},
    "Bush": {1989: "George H. W.", 2001: "George W.", 2005: "George W."},
}


def read(folder: Path) -> ObliqueTask:
    """The task ``writing`` made of the folder's archive.

    Raises:
        FileNotFoundError: If the archive is not there.
        ValueError: If it is no sound archive, or holds no address, one twice, one in another encoding or with an empty
            or broken text, or far too much text.
    """
    path = folder / FILE
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; wanted the folder that holds {FILE} of nltk_data")
    corpus: dict[str, ObliqueText] = {}
    addresses: set[str] = set()
    for found, content in _addresses(path):
        year, surname = int(found[1]), found[2]
        first = _FIRST_NAMES.get(surname, {}).get(year)
        author = f"{first} {surname}" if first else surname
        address = f"{year}-{surname}"
        if address in addresses:
            raise ValueError(f"{path}: holds {found[0].removeprefix('/')} twice; remove one of them")
        addresses.add(address)
        encoding = "big5" if address == _IN_BIG5 else "utf-8-sig"
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError as error:
            name = encoding.removesuffix("-sig").upper()
            raise ValueError(f"{path}: {found.string} is no {name} ({error}); fetch the archive anew") from None
        for number, passage in enumerate(_passages(text), start=1):
            text = check_text(passage, f"{path}: {found.string}, passage {number}")
            corpus[f"{address}-{number:02d}"] = ObliqueText(text, author, None, {"address": address})
    if not corpus:
        raise ValueError(f"{path}: holds no file named like 1789-Washington.txt")

    of_author: dict[str | None, list[str]] = defaultdict(list)
    of_address: dict[str, list[str]] = defaultdict(list)
    for i, passage_ in corpus.items():
        of_author[passage_.attribute].append(i)
        of_address[passage_.metadata["address"]].append(i)
    excluded = {i: frozenset(of_address[t.metadata["address"]]) for i, t in corpus.items()}
    relevant = {i: {d: 1 for d in of_author[t.attribute] if d not in excluded[i]} for i, t in corpus.items()}
    queries = {i: t for i, t in corpus.items() if relevant[i]}
    return ObliqueTask(
        "writing", corpus, queries, {i: relevant[i] for i in queries}, {i: excluded[i] for i in queries}
    )


def _addresses(path: Path) -> list[tuple[re.Match[str], bytes]]:
    """The files that are named like an address, by name; nothing is written, so that any name will do."""
    try:
        with zipfile.ZipFile(path) as archive:
            named = [(found, info) for info in archive.infolist() if (found := _NAME.search(info.filename))]
            if (size := sum(info.file_size for _, info in named)) > LARGEST:  # no more than that is read of a file
                raise ValueError(f"{path}: got {size:,} bytes of text, wanted at most {LARGEST:,}; fetch it anew")
            return [(found, archive.read(info)) for found, info in sorted(named, key=lambda n: n[0].string)]
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        # The last two: encrypted, or packed in another way.
        raise ValueError(f"{path}: it is no sound zip archive ({error}); fetch it anew") from None


def _passages(text: str) -> list[str]:
    """Whole sentences up to `PASSAGE` words or just above; what is left at the end joins the last passage."""
    passages: list[list[str]] = [[]]
    for sentence in sentences(text):
        if len(words(" ".join(passages[-1]))) >= PASSAGE:
            passages.append([])
        passages[-1].append(" ".join(sentence.split()))
    if len(passages) > 1 and len(words(" ".join(passages[-1]))) < PASSAGE // 2:
        last = passages.pop()
        passages[-1] += last
    return [" ".join(p) for p in passages]
