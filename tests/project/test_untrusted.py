"""What others wrote is never run: no pickle is loaded, no repository's code, no archive unpacked, no template filled.

First the sources are read for calls that would; then models that bring a program are brought to every door.
"""

from __future__ import annotations

import ast
import json
import pickle
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from dataset_builders.instructions import format_query
from dataset_builders.markdown import cell, template
from dataset_builders.oblique.purity import read_vectors
from dataset_builders.sources import inaugural
from hub_models import base, encoder, model_files
from hub_models.__main__ import app
from hub_models.evaluation.systems import Encoder, LateInteraction
from hub_models.hub_cache import install_snapshot
from hub_models.plan import plan
from hub_models.recipe import load_recipe
from hub_models.retrieval.cross_encoder import CrossEncoderReranker
from hub_models.retrieval.search import ObliqueSearch, StanceSearch
from tests.tiny import build, install_tiny
from tests.tiny_rerankers import bert_reranker

ROOT = Path(__file__).parent.parent.parent
SOURCES = [
    *(ROOT / "train.py", ROOT / "evaluate.py"),
    *(
        path
        for place in ("dataset_builders", "hub_models", "spaces", "benchmarks", "docs")
        for path in sorted((ROOT / place).rglob("*.py"))
    ),
]
PICKLES = {
    "pickle",
    "cPickle",
    "_pickle",
    "dill",
    "cloudpickle",
    "joblib",
    "shelve",
    "marshal",
    "jsonpickle",
    "tarfile",
}


def dangers(source: str) -> Iterator[str]:
    """Calls in a module that run or unpack what a file holds."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            yield from (f"imports {name}" for name in names if name.partition(".")[0] in PICKLES)
        if not isinstance(node, ast.Call):
            continue
        called, named = ast.unparse(node.func), {k.arg: ast.unparse(k.value) for k in node.keywords if k.arg}
        if called in ("eval", "exec", "compile", "__import__", "os.system", "os.popen"):
            yield called
        if named.get("shell", "False") != "False":
            yield f"{called} with a shell"
        if called in ("torch.load", "torch_load") and named.get("weights_only") != "True":
            yield f"{called} without weights_only=True"
        if named.get("allow_pickle", "False") != "False" or called.endswith("read_pickle"):
            yield f"{called} with pickles"
        # Handed on, it is what `remote_code.allowed` makes of the base that the user named.
        if named.get("trust_remote_code", "False") == "True":
            yield f"{called} with trust_remote_code"
        if called.split(".")[-1] in ("extract", "extractall", "unpack_archive"):
            yield f"{called} unpacks an archive"
        unsafe = called in ("yaml.unsafe_load", "yaml.full_load", "yaml.load_all", "yaml.full_load_all")
        if unsafe or (called == "yaml.load" and "SafeLoader" not in named.get("Loader", "")):
            yield f"{called}, wanted safe_load"
        # Auto classes that are told nothing ask at the terminal whether to run a repository's code.
        if called.startswith("Auto") and called.endswith(".from_pretrained") and "trust_remote_code" not in named:
            yield f"{called} may ask whether to run code" if not any(k.arg is None for k in node.keywords) else ""


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from joblib import load",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "np.load(path, allow_pickle=True)",
        "pd.read_pickle(path)",
        "yaml.load(text, Loader=yaml.Loader)",
        "yaml.unsafe_load(text)",
        "eval(text)",
        "subprocess.run(text, shell=True)",
        "SentenceTransformer(name, trust_remote_code=True)",
        "archive.extractall(folder)",
        "AutoConfig.from_pretrained(name)",
    ],
)
def test_a_dangerous_call_is_seen(line: str) -> None:
    assert list(dangers(line))


def test_no_source_runs_what_a_file_holds() -> None:
    assert len(SOURCES) > 100
    found = {
        str(path.relative_to(ROOT)): said for path in SOURCES if (said := [*filter(None, dangers(path.read_text()))])
    }
    assert not found


# --- Models that bring a program -------------------------------------------------------------------------------------


class Program:
    """Pickled, it makes a file when it is read."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[Path]:
    """A file that is there if something ran."""
    yield tmp_path / "ran"
    assert not (tmp_path / "ran").exists(), "what a model brought was run"


def test_the_program_would_run(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Program(tmp_path / "ran")))
    assert (tmp_path / "ran").exists()


@pytest.fixture
def with_code(tmp_path: Path, mark: Path) -> Path:
    """A sound encoder whose configuration names code beside it, as a module and as a model."""
    folder = tmp_path / "coded"
    build("stance-bge-large").save_pretrained(str(folder))
    code = f"import pathlib\npathlib.Path({str(mark)!r}).touch()\nclass Evil: pass\n"
    (folder / "evil.py").write_text(code)
    config = json.loads((folder / "config.json").read_text())
    names = ("AutoConfig", "AutoModel", "AutoModelForSequenceClassification", "AutoModelForCausalLM")
    config |= {"model_type": "evil", "auto_map": {name: "evil.Evil" for name in names}}
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    tokenizer |= {"auto_map": {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}, "tokenizer_class": "Evil"}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    return folder


def _plan(source: str) -> None:
    recipe = load_recipe("stance-bge-large", [f"base={source}", "base_revision=null"])
    plan(recipe.model_copy(update={"architecture": None}), 1)


def _train(source: str) -> None:
    base.load_base(load_recipe("stance-bge-large", [f"base={source}", "base_revision=null"]))


DOORS: dict[str, Callable[[str], object]] = {
    "load": encoder.load,
    "evaluate": Encoder,
    "late interaction": LateInteraction,
    "stance search": lambda source: StanceSearch(source, ["a text"]),
    "oblique search": lambda source: ObliqueSearch(source, ["a text"], task="twitter"),
    "cross-encoder": CrossEncoderReranker,
    "plan": _plan,
    "train": _train,
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("form", ["folder", "hub", "module", "plain", "luar"])
def test_no_code_of_a_repository_is_run(door: str, form: str, with_code: Path, mark: Path) -> None:
    """As a folder, by a Hub id, with a module of its own, as a plain transformer without ``modules.json``, as LUAR."""
    source = str(with_code)
    if form == "module":
        modules = json.loads((with_code / "modules.json").read_text())
        modules[0]["type"] = "evil.Evil"
        (with_code / "modules.json").write_text(json.dumps(modules))
    if form in ("plain", "luar"):
        (with_code / "modules.json").unlink()
    if form == "luar":
        config = json.loads((with_code / "config.json").read_text())
        (with_code / "config.json").write_text(json.dumps(config | {"model_type": "LUAR"}))
    if form == "hub":
        source = "evil/" + with_code.parent.name.replace("_", "-")[-40:]
        install_snapshot(source, "e" * 40, with_code)
    refused = r"it brings code of its own(, which is not run here| \()|has no modules\.json"
    with pytest.raises(ValueError, match=refused):
        DOORS[door](source)


def test_the_commands_say_so_in_a_line(with_code: Path, mark: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("a text\n")
    done = CliRunner().invoke(
        app, ["encode", str(with_code), str(tmp_path / "texts.txt"), "--out", str(tmp_path / "v.npy")]
    )
    (line,) = done.output.splitlines()
    assert done.exit_code == 1 and line.startswith("error: ") and "code of its own" in line


def test_an_adapter_cannot_bring_a_base_with_code(with_code: Path, mark: Path, tmp_path: Path) -> None:
    from tests.hub_models.releaser import make_run

    run = make_run(tmp_path / "run")
    for name in ("slant.json", "adapter_config.json"):
        content = json.loads((run / name).read_text())
        content |= (
            {"base": str(with_code), "base_revision": None, "status": "local"}
            if name == "slant.json"
            else {"base_model_name_or_path": str(with_code)}
        )
        (run / name).write_text(json.dumps(content))
    with pytest.raises(ValueError, match="it brings code of its own"):
        encoder.load(run)


# --- Pickles ---------------------------------------------------------------------------------------------------------


def test_weights_that_are_a_program_are_not_read(tmp_path: Path, mark: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model_files.find(install_tiny("stance-bge-large"), "modules.json").parent, folder)  # type: ignore[union-attr]
    (folder / "model.safetensors").unlink()
    torch.save({"x": Program(mark)}, folder / "pytorch_model.bin")
    with pytest.raises(Exception, match=r"(?i)weights.?only|unpickl|pickle"):
        encoder.load(folder)
    cross = bert_reranker(tmp_path / "cross")
    (cross / "model.safetensors").unlink()
    torch.save({"x": Program(mark)}, cross / "pytorch_model.bin")
    with pytest.raises(Exception, match=r"(?i)weights.?only|unpickl|pickle"):
        CrossEncoderReranker(str(cross))


def test_an_adapter_in_a_pickle_is_refused_by_name(tmp_path: Path, mark: Path) -> None:
    from tests.hub_models.releaser import make_run

    run = make_run(tmp_path / "run")
    (run / "adapter_model.safetensors").unlink()
    torch.save({"x": Program(mark)}, run / "adapter_model.bin")
    with pytest.raises(
        ValueError, match=r"adapter_model\.bin is a pickle, which may hold any program: it is not read"
    ):
        encoder.load(run)


def test_vectors_that_are_objects_are_not_read(tmp_path: Path, mark: Path) -> None:
    np.save(tmp_path / "v.npy", np.array([Program(mark)], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"v\.npy: the file is no \.npy of numbers"):
        read_vectors(tmp_path / "v.npy")
    (tmp_path / "w.npy").write_bytes(pickle.dumps(Program(mark)))
    with pytest.raises(ValueError, match=r"w\.npy: the file is no \.npy of numbers"):
        read_vectors(tmp_path / "w.npy")


# --- Archives and templates ------------------------------------------------------------------------------------------


def archive(folder: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(folder / inaugural.FILE, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in files.items():
            made.writestr(name, content)
    return folder


def test_an_archive_writes_nowhere(tmp_path: Path) -> None:
    text = b"Fellow citizens, this is a sentence. " * 60
    names = ("../../1789-Washington.txt", "/1793-Washington.txt", "..\\1797-Adams.txt", "c/1825-Adams.txt")
    folder = archive(tmp_path, dict.fromkeys(names, text))
    found = inaugural.read(folder)
    assert {t.attribute for t in found.corpus.values()} == {"Washington", "John Quincy Adams"}
    assert [p.name for p in tmp_path.iterdir()] == [inaugural.FILE]


def test_a_bomb_is_refused_before_it_is_read(tmp_path: Path) -> None:
    folder = archive(tmp_path, {"1789-Washington.txt": b"a" * (inaugural.LARGEST + 1)})
    assert (folder / inaugural.FILE).stat().st_size < 20_000
    with pytest.raises(ValueError, match=r"got 16,777,217 bytes of text, wanted at most 16,777,216"):
        inaugural.read(folder)


def test_what_is_no_archive_is_said(tmp_path: Path) -> None:
    (tmp_path / inaugural.FILE).write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(ValueError, match=r"inaugural\.zip: it is no sound zip archive"):
        inaugural.read(tmp_path)


HOSTILE = (
    "{{ 7 * 7 }}{% for x in ().__class__.__mro__ %}{{ x }}{% endfor %}{claim}{instruction.__class__}<script>a</script>"
)


def test_no_text_is_a_template() -> None:
    assert format_query("{instruction}: {claim}", HOSTILE, HOSTILE) == f"{HOSTILE}: {HOSTILE}"
    with pytest.raises(ValueError, match=r"wanted \{instruction\} somewhere"):
        format_query("{instruction.__class__} {claim}", "a", "b")
    made = template("merged.md.j2").environment.from_string("{{ text | cell }}").render(text=HOSTILE)
    assert made == cell(HOSTILE) and "{{ 7 * 7 }}".replace("*", "&#42;") in made and "<script>" not in made
