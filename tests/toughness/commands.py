"""The commands that write: what each is given, what it makes, and when that is whole."""

from __future__ import annotations

import functools
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pyarrow.parquet as pq

from dataset_builders import sources
from dataset_builders.folder import shards
from dataset_builders.instructions import STANCES
from hub_models.evaluation.results import Results
from hub_models.manifest import Manifest, check_adapter
from hub_models.model_files import missing_files
from tests.dataset_builders.publisher import claims
from tests.hub_models.releaser import BASE, make_run
from tests.tiny import tiny

NOTE = b"a line of the note\n" * 500

Argv = Sequence[object]
State = dict[str, Any]


@dataclass(frozen=True)
class Command:
    """One way of calling a command in a folder of its own: inputs in ``in``, everything that it makes in ``out``.

    Attributes:
        name: In reports.
        argv: Of the folder and the address of a language model's endpoint.
        prepare: Writes the inputs of version 1 or 2 into ``in``, and into ``out`` what the command wants there.
        check: Fails if something in ``out`` is half-written.
        renews: Whether what version 1 made may be there when version 2 is called for.
        aside: Patterns of files in ``out`` that may differ from run to run: caches.
    """

    name: str
    argv: Callable[[Path, str], Argv]
    prepare: Callable[[Path, int], None]
    check: Callable[[Path], None] = lambda out: None
    renews: bool = True
    aside: tuple[str, ...] = ()

    def state(self, place: Path) -> State:
        """Every file of ``out``, with what of its content is the same from run to run."""
        files = sorted(p for p in (place / "out").rglob("*") if p.is_file())
        return {
            path.relative_to(place / "out").as_posix(): _lasting(path)
            for path in files
            if not any(path.match(pattern) for pattern in self.aside)
        }


def _lasting(path: Path) -> Any:
    content = path.read_bytes()
    if path.suffix != ".json":
        return content
    try:
        return _without(json.loads(content), {"timing", "environment", "counters", "seconds"})
    except ValueError:  # staged by a killed process
        return content


def _without(content: Any, keys: set[str]) -> Any:
    if isinstance(content, dict):
        return {key: _without(value, keys) for key, value in content.items() if key not in keys}
    if isinstance(content, list):
        return [_without(value, keys) for value in content]
    return content


# --- Inputs ----------------------------------------------------------------------------------------------------------


def words(version: int) -> tuple[str, ...]:
    return ("one", "two", "three", "four", ("five", "six")[version - 1])


def _claims(place: Path, version: int) -> None:
    (place / "in").mkdir(parents=True, exist_ok=True)
    (place / "out").mkdir(exist_ok=True)
    claims(place / "in" / "my.jsonl", words(version))


def _texts(place: Path, version: int) -> None:
    _claims(place, version)
    lines = [f"text {version} number {i} about cities" for i in range(12)]
    (place / "in" / "texts.txt").write_text("\n".join(lines) + "\n")


def _labelled(place: Path, version: int) -> None:
    """Documents with labels, and queries for them."""
    _claims(place, version)
    documents = [
        {"_id": f"{word}-{n}", "text": f"The {word} is what text {n} is about.", "label": f"label {n}"}
        for n in range(4)
        for word in words(version)
    ]
    row = {"task": "math", "lens": "analogue", "instruction": "Find it.", "negatives": []}
    queries = [row | {"query": f"Find {d['_id']}", "positive_id": d["_id"], "positive": d["text"]} for d in documents]
    for name, rows in (("documents", documents), ("queries", queries)):
        (place / "in" / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))


_RUN: list[Path] = []


def _run(place: Path, version: int) -> None:
    """A trained run in ``in/run``, and texts."""
    _texts(place, version)
    if not (place / "in" / "run").exists():
        shutil.copytree(made_run(), place / "in" / "run")


def _run_inside(place: Path, version: int) -> None:
    """A trained run in ``out/run``: what is called for changes the run itself."""
    _texts(place, version)
    if not (place / "out" / "run").exists():
        shutil.copytree(made_run(), place / "out" / "run")


def _to_tune(place: Path, version: int) -> None:
    """A run in ``out/run``, and validation claims enough to tune it on."""
    _run_inside(place, version)
    rows = [
        {"claim": f"Claim {n} holds.", "support": [f"Because {n} is so."], "attack": [f"But {n} is not so."]}
        for n in ("one", "two", "three", "four", "five", "six")
    ]
    lines = [json.dumps(row | {"split": "validation"}) + "\n" for row in rows]
    (place / "in" / "my.jsonl").write_text("".join(lines))


def made_run() -> Path:
    """One trained run for all, made when it is first asked for."""
    if not _RUN:
        raise RuntimeError("no run was made: ask for the fixture `workshop`")
    return _RUN[0]


def make(folder: Path) -> None:
    _RUN[:] = [make_run(folder / "run")]


def _pairs(place: Path, version: int) -> None:
    """Minimal pairs beside a run."""
    _run(place, version)
    rows = [
        {"claim": f"Claim {word} holds.", "original": f"It is true that {word} holds.", "original_stance": "support"}
        | {"inverted": f"It is false that {word} holds."}
        for word in words(version)
    ]
    (place / "in" / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _recipe(place: Path, version: int) -> None:
    from tests.training_runs import triplets

    _claims(place, version)
    data = triplets(place / "in", rows=4)
    fixed = ["global_batch=4", "accumulation=1", "epochs=2", "precision=fp32", "gradient_checkpointing=false"]
    made = tiny("stance-bge-large", f"data={data}", *fixed, "learning_rate=1e-3")
    (place / "in" / "recipe.yaml").write_text(made.to_yaml())


@functools.cache
def _inverted() -> dict[str, dict[str, dict[str, str]]]:
    """The sample's explicit arguments by claim and stance, each with its inversion."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for i in sources.load("sample").restrict({"train"}).inversions:
        if i.style == "explicit":
            found.setdefault(i.claim, {stance: {} for stance in STANCES})[i.original_stance][i.original] = i.inverted
    return found


def _to_invert(place: Path, version: int) -> None:
    _claims(place, version)
    rows = [
        {"claim": claim, **{stance: list(texts) for stance, texts in sides.items()}, "split": "train"}
        for claim, sides in list(_inverted().items())[: 7 + version]
    ]
    (place / "in" / "my.jsonl").write_text("".join(json.dumps(row | {"licence": "cc0-1.0"}) + "\n" for row in rows))


def flipped(body: dict[str, Any]) -> str:
    """What a language model answers that inverts arguments as it should."""
    task = json.loads(body["messages"][-1]["content"])
    known = _inverted()[task["claim"]]
    return json.dumps({f"{stance}_flipped": [known[stance][text] for text in task[stance]] for stance in STANCES})


# --- What is whole ---------------------------------------------------------------------------------------------------


def whole_data(out: Path) -> None:
    """No config names a file that is not there or cannot be read."""
    folder = out / "data"
    if (folder / "README.md").exists():
        found = shards(folder)
        assert found, "a README without configs"
        for files in (files for splits in found.values() for files in splits.values()):
            assert files, "a split without a file"
            for file in files:
                pq.read_table(file)
    if (folder / "build.json").exists():
        json.loads((folder / "build.json").read_bytes())


def whole_generated(out: Path) -> None:
    whole_data(out)
    if (out / "data.report.json").exists():
        json.loads((out / "data.report.json").read_bytes())
    if (out / "data.replies.sqlite").exists():
        with tempfile.TemporaryDirectory() as elsewhere:  # a look into it takes room, and the disk may be full
            for path in out.glob("data.replies.sqlite*"):
                shutil.copy(path, elsewhere)
            with sqlite3.connect(Path(elsewhere) / "data.replies.sqlite") as cache:
                assert cache.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def whole_run(out: Path) -> None:
    run = out / "run"
    if run.exists():
        manifest = Manifest.read(run)
        assert manifest.status == "trained" and not missing_files(run)
        check_adapter(run, manifest.adapter_sha256)


def whole_vectors(out: Path) -> None:
    if (out / "vectors.npy").exists():
        assert np.load(out / "vectors.npy").shape == (12, 32)


def whole_results(out: Path) -> None:
    for path in out.rglob("results.json"):
        Results.read(path)
    for path in out.rglob("*.parquet"):  # whose results may be those of before: they say so by their hash
        pq.read_table(path)
    for path in out.rglob("*.png"):
        assert path.read_bytes().endswith(b"IEND\xaeB`\x82"), f"{path.name} is cut off"


def whole_graph(out: Path) -> None:
    if (out / "model.onnx").exists():
        onnx.checker.check_model(out / "model.onnx")


def whole_json(out: Path) -> None:
    for path in out.rglob("*.json"):
        json.loads(path.read_bytes())


# --- Commands --------------------------------------------------------------------------------------------------------


def _whole_note(out: Path) -> None:
    path = out / "note.txt"
    assert not path.exists() or path.read_bytes() in (NOTE, b""), "half-written"


CARELESS = Command("careless", lambda place, url: ["careless", place / "out" / "note.txt"], _claims, _whole_note)
"""No command of the kit: it writes in place, as none should, so that the tests of kills can fail."""


def _build(kind: str) -> Callable[[Path, str], Argv]:
    return lambda place, url: [
        *("build", f"my-stance-{kind}", "--source", place / "in" / "my.jsonl", "--out", place / "out" / "data")
    ]


BUILD = Command("build", _build("arguments"), _claims, whole_data)
GENERATE = Command(
    "generate",
    lambda place, url: [
        *_build("inversions")(place, url),
        *("--generate", "tiny", "--base-url", url, "--concurrency", "3"),
    ],
    _to_invert,
    whole_generated,
    aside=("data.replies.sqlite*",),  # a forked process ends without closing it
)
TRAIN = Command(
    "train",
    lambda place, url: ["train", "--recipe", place / "in" / "recipe.yaml", "--out", place / "out" / "run"],
    _recipe,
    whole_run,
    renews=False,
)
ENCODE = Command(
    "encode",
    lambda place, url: [
        *("encode", place / "in" / "run", place / "in" / "texts.txt", "--out", place / "out" / "vectors.npy"),
        *("--cache", place / "out" / "cache", "--batch-size", "4"),
    ],
    _run,
    whole_vectors,
    aside=("cache/*.npz", "cache/*/*.npz"),
)
EVALUATE = Command(
    "evaluate",
    lambda place, url: [
        *("evaluate", "--model", place / "in" / "run", "--tasks", "my-stance", "--data", place / "in" / "my.jsonl"),
        *("--out", place / "out" / "evaluation", "--baseline", "random"),
    ],
    _run,
    whole_results,
)
CHECK = Command(
    "check",
    lambda place, url: [
        *("check", "my", "--data", place / "in" / "my.jsonl", "--out", place / "out" / "statistics.json")
    ],
    _claims,
    whole_json,
)
PURITY = Command(
    "purity",
    lambda place, url: [
        *("purity", "--labels", place / "in" / "documents.jsonl", "--specialist", "stylometric", "--k", "2"),
        *("--out", place / "out" / "purity.json"),
    ],
    _labelled,
    whole_json,
)
QUALITY = Command(
    "query-quality",
    lambda place, url: [
        *("query-quality", "--queries", place / "in" / "queries.jsonl", "--out", place / "out" / "quality.json")
    ],
    _labelled,
    whole_json,
)
TUNE = Command(
    "tune",
    lambda place, url: [*("tune", place / "out" / "run", "--tasks", "my-stance", "--data", place / "in" / "my.jsonl")],
    _to_tune,
    whole_json,
    renews=False,
)
PROBE = Command(
    "probe",
    lambda place, url: [
        *("probe", "--model", place / "in" / "run", "--data", place / "in" / "pairs.jsonl"),
        *("--out", place / "out" / "probe"),
    ],
    _pairs,
    whole_json,
)
CARD = Command("card", lambda place, url: ["card", place / "out" / "run"], _run_inside, whole_run, renews=False)
MERGE = Command("merge", lambda place, url: ["merge", place / "out" / "run"], _run_inside, whole_json, renews=False)
ONNX = Command(
    "onnx",
    lambda place, url: ["onnx", BASE, "--out", place / "out" / "model.onnx"],
    _claims,
    whole_graph,
    renews=False,
)
FAST = (BUILD, CARD)
ALL = (BUILD, GENERATE, CHECK, PURITY, QUALITY, TRAIN, ENCODE, EVALUATE, TUNE, PROBE, CARD, MERGE, ONNX)
