"""Every reader of files that hold texts: what it reads, written in its own form, and the texts that it gives back.

The archive of inaugural addresses alone is none of these files: its faults are in
``dataset_builders/test_oblique_sources.py``, its size is in ``project/test_untrusted.py``.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from typer.testing import CliRunner

from dataset_builders import sources
from dataset_builders.instructions import SEEN
from dataset_builders.oblique import documents
from dataset_builders.oblique.purity import read_probe
from dataset_builders.oblique.query_quality import read_pairs
from dataset_builders.oblique.read import read_oblique_rows
from dataset_builders.read import read_triplets
from dataset_builders.sources import obliq_bench, perspectrum, tfu, theoremqa
from hub_models.__main__ import app
from hub_models.evaluation.probe import pairs_of

sys.path.insert(0, str(Path(__file__).parents[2] / "spaces" / "stance_and_oblique_search"))
from slant_space.corpora import open_corpus, read_documents


@dataclass(frozen=True)
class Reader:
    """One reader.

    Attributes:
        file: What holds the texts, relative to a folder.
        content: Texts to what stands in that file, lines ended by LF.
        read: The folder to the texts, in their order.
        beside: Other files that it needs.
    """

    file: str
    content: Callable[[Sequence[str]], str]
    read: Callable[[Path], list[str]]
    beside: dict[str, str] = field(default_factory=dict)

    @property
    def is_json(self) -> bool:
        """Whether a text is a JSON string, which may hold any character."""
        return self.file.endswith((".json", ".jsonl"))

    @property
    def is_lines(self) -> bool:
        """Whether a text stands in a line, unquoted."""
        return self.file.endswith((".txt", ".tsv"))

    def write(self, folder: Path, content: bytes) -> None:
        """Put the file and what it needs into a folder."""
        for name, text in self.beside.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        (folder / self.file).parent.mkdir(parents=True, exist_ok=True)
        (folder / self.file).write_bytes(content)


def _lines(row: Callable[[int, str], object]) -> Callable[[Sequence[str]], str]:
    """JSONL with raw Unicode, a row for each text."""

    def content(texts: Sequence[str]) -> str:
        return "".join(json.dumps(row(i, text), ensure_ascii=False) + "\n" for i, text in enumerate(texts))

    return content


def _json(value: Callable[[Sequence[str]], object]) -> Callable[[Sequence[str]], str]:
    return lambda texts: json.dumps(value(texts), ensure_ascii=False, indent=0) + "\n"


def _csv(header: Sequence[str], row: Callable[[int, str], Sequence[object]]) -> Callable[[Sequence[str]], str]:
    def content(texts: Sequence[str]) -> str:
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
        file.write(",".join(header) + "\n")
        writer.writerows(row(i, text) for i, text in enumerate(texts))
        return file.getvalue()

    return content


def _oblique(i: int, text: str) -> dict[str, Any]:
    row = {"task": "math", "lens": "analogue", "instruction": "Find it.", "query": f"query {i}"}
    return {**row, "positive_id": f"d{i}", "positive": text, "negatives": []}


def _claim_with(texts: Sequence[str]) -> str:
    clusters = [{"pids": [i], "stance_label_3": "SUPPORT"} for i in range(len(texts))]
    return json.dumps([{"cId": 1, "text": "The claim.", "perspectives": clusters}])


def _encoded(name: str) -> Callable[[Path], list[str]]:
    return lambda folder: _encoded_of(folder, name)


def _encoded_of(folder: Path, name: str) -> list[str]:
    """The texts that reach the encoder from the command that encodes a file."""
    seen: list[str] = []

    def stop(texts: list[str], *_: object, **__: object) -> None:
        seen.extend(texts)
        raise ValueError("seen")

    with patch("hub_models.corpus.encode_corpus", stop), patch("hub_models.encoder.load"):
        done = CliRunner().invoke(app, ["encode", "any", str(folder / name), "--out", str(folder / "v.npy")])
    if "seen" not in done.output:
        raise ValueError(" ".join(done.output.replace("│", " ").split()))
    return seen


def _upload(name: str) -> Callable[[Path], list[str]]:
    return lambda folder: [d.text for d in read_documents(name, (folder / name).read_bytes())]


_CORPUS = "analogues/math/corpus/corpus.jsonl"
_ASKED = "analogues/math/queries+qrels/"
_QUERIES = "".join(f'{{"_id": "q{i}", "text": "query"}}\n' for i in range(5))


def _dangling(folder: Path) -> obliq_bench.ObliqueTask:
    """The task, whose judgements and exclusions may name any document: here their ids are the texts."""
    return obliq_bench.read("math", folder, allow_dangling=True)


READERS = {
    "claims in short form": Reader(
        "mine.jsonl",
        _lines(lambda i, text: {"claim": f"Claim {i}.", "support": [text], "attack": []}),
        lambda folder: [a.text for a in sources.load("mine", folder / "mine.jsonl").arguments],
    ),
    "triplets": Reader(
        "mine.jsonl",
        _lines(
            lambda i, text: {
                "instruction": "Find it.",
                "claim": f"Claim {i}.",
                "stance": "attack",
                "positive": text,
                "negatives": [],
            }
        ),
        lambda folder: read_triplets(folder / "mine.jsonl")["positive"][:],
    ),
    "oblique rows": Reader(
        "mine.jsonl", _lines(_oblique), lambda folder: [r.positive for r in read_oblique_rows(folder / "mine.jsonl")]
    ),
    "ReasonIR's rows": Reader(
        "mine.jsonl",
        _lines(lambda i, text: {"query": ["Find it.", f"query {i}"], "pos": [["", text]], "neg": [], "task": "math"}),
        lambda folder: [r.positive for r in read_oblique_rows(folder / "mine.jsonl")],
    ),
    "labelled documents": Reader(
        "mine.jsonl",
        _lines(lambda i, text: {"_id": f"d{i}", "text": text, "label": "a"}),
        lambda folder: list(read_probe(folder / "mine.jsonl").texts.values()),
    ),
    "queries to measure": Reader(
        "mine.jsonl",
        _lines(_oblique),
        lambda folder: [text for pairs in read_pairs(folder / "mine.jsonl").values() for _, text in pairs],
    ),
    "documents to ask about": Reader(
        "mine.jsonl",
        _lines(lambda i, text: {"_id": f"d{i}", "text": text, "task": "math"}),
        lambda folder: [d.text for d in documents.load("mine", folder / "mine.jsonl")],
    ),
    "minimal pairs": Reader(
        "mine.jsonl",
        _lines(
            lambda i, text: {"claim": f"C {i}", "original": text, "original_stance": "support", "inverted": f"not {i}"}
        ),
        lambda folder: [p.support for p in pairs_of("mine", folder / "mine.jsonl")],
    ),
    "an oblique benchmark": Reader(
        _CORPUS,
        _lines(lambda i, text: {"_id": f"d{i}", "text": text}),
        lambda folder: [d.text for d in obliq_bench.read("math", folder).corpus.values()],
        {
            f"{_ASKED}queries.jsonl": '{"_id": "q", "text": "query"}\n',
            f"{_ASKED}qrels.tsv": "query-id\tcorpus-id\tscore\n",
        },
    ),
    "an oblique benchmark's queries": Reader(
        f"{_ASKED}queries.jsonl",
        _lines(lambda i, text: {"_id": f"q{i}", "text": text}),
        lambda folder: [q.text for q in obliq_bench.read("math", folder).queries.values()],
        {_CORPUS: '{"_id": "d", "text": "document"}\n', f"{_ASKED}qrels.tsv": "query-id\tcorpus-id\tscore\n"},
    ),
    "an oblique benchmark's judgements": Reader(
        f"{_ASKED}qrels.tsv",
        lambda texts: "query-id\tcorpus-id\tscore\n" + "".join(f"q{i}\t{t}\t1\n" for i, t in enumerate(texts)),
        lambda folder: [d for grades in _dangling(folder).qrels.values() for d in grades],
        {_CORPUS: '{"_id": "d", "text": "document"}\n', f"{_ASKED}queries.jsonl": _QUERIES},
    ),
    "an oblique benchmark's exclusions": Reader(
        f"{_ASKED}per_query_excluded_ids.json",
        _json(lambda texts: {f"q{i}": [text] for i, text in enumerate(texts)}),
        lambda folder: [d for documents in _dangling(folder).excluded.values() for d in documents],
        {
            _CORPUS: '{"_id": "d", "text": "document"}\n',
            f"{_ASKED}queries.jsonl": _QUERIES,
            f"{_ASKED}qrels.tsv": "query-id\tcorpus-id\tscore\n",
        },
    ),
    "documents in the layout of OBLIQ-Bench": Reader(
        "analogues/math/train/documents.jsonl",
        _lines(
            lambda i, text: (
                {"_id": f"d{i}", "text": text, "description": "It counts.", "query": "What counts?"}
                | {"generator": "a hand", "metadata": {"attribute": "a"}}
            )
        ),
        lambda folder: [d.text for d in documents.load("mine", folder)],
    ),
    "what attributes mean": Reader(
        "analogues/math/attributes.jsonl",
        _lines(lambda i, text: {"_id": f"a{i}", "split": "train", "description": text}),
        lambda folder: [meaning for _, meaning in obliq_bench.read_attributes("math", folder).values()],
    ),
    "the stance paper's corpora": Reader(
        "mine.json",
        _json(
            lambda texts: {
                "topics": [{"topic_id": 1, "topic": "The claim."}],
                "documents": [{"text": t, "relations": [{"topic_id": 1, "label": "support"}]} for t in texts],
            }
        ),
        lambda folder: [a.text for a in sources.load("mine", folder / "mine.json").arguments],
    ),
    "the stance paper's triplets": Reader(
        tfu.HOMOGENEOUS,
        _json(
            lambda texts: [
                {"instruction": SEEN[0].text, "claim": "The claim.", "positive": t, "negative": f"against {i}"}
                for i, t in enumerate(texts)
            ]
        ),
        lambda folder: [a.text for a in sources.load("tfu", folder).arguments if not a.text.startswith("against")],
        {tfu.MIXED: "[]", tfu.MIXED_AUG: "[]"},
    ),
    "Perspectrum": Reader(
        perspectrum.POOL,
        _json(lambda texts: [{"pId": i, "text": text} for i, text in enumerate(texts)]),
        lambda folder: [a.text for a in sources.load("perspectrum", folder).arguments],
        {perspectrum.CLAIMS: _claim_with(range(5)), perspectrum.SPLIT: '{"1": "test"}'},  # type: ignore[arg-type]
    ),
    "Perspectrum's claims": Reader(
        perspectrum.CLAIMS,
        _json(
            lambda texts: [
                {"cId": i, "text": t, "perspectives": [{"pids": [0], "stance_label_3": "SUPPORT"}]}
                for i, t in enumerate(texts)
            ]
        ),
        lambda folder: [c.claim for c in sources.load("perspectrum", folder).claims],
        {
            perspectrum.POOL: '[{"pId": 0, "text": "It saves lives."}]',
            perspectrum.SPLIT: json.dumps(dict.fromkeys(map(str, range(5)), "test")),
        },
    ),
    "TheoremQA": Reader(
        theoremqa.FILE,
        _json(lambda texts: [{"id": f"t{i}", "Question": text, "theorem": "one"} for i, text in enumerate(texts)]),
        lambda folder: [t.text for t in theoremqa.read(folder).corpus.values()],
    ),
    "KPA": Reader(
        "arguments_test.csv",
        _csv(["arg_id", "argument", "topic", "stance"], lambda i, text: [f"a{i}", text, "The claim.", 1]),
        lambda folder: [a.text for a in sources.load("kpa", folder).arguments],
    ),
    "a JSONL brought to the Space": Reader(
        "mine.jsonl", _lines(lambda i, text: {"id": f"d{i}", "text": text}), _upload("mine.jsonl")
    ),
    "a CSV brought to the Space": Reader(
        "mine.csv", _csv(["id", "text"], lambda i, text: [f"d{i}", text]), _upload("mine.csv")
    ),
    "lines brought to the Space": Reader(
        "mine.txt", lambda texts: "".join(f"{t}\n" for t in texts), _upload("mine.txt")
    ),
    "the corpus of the Space": Reader(
        "mine.jsonl",
        _lines(lambda i, text: {"id": f"d{i}", "text": text}),
        lambda folder: [d.text for d in open_corpus(folder / "mine.jsonl").documents.values()],
    ),
    "lines to encode": Reader("mine.txt", lambda texts: "".join(f"{t}\n" for t in texts), _encoded("mine.txt")),
    "rows to encode": Reader(
        "mine.jsonl", _lines(lambda i, text: {"_id": f"d{i}", "text": text}), _encoded("mine.jsonl")
    ),
}
