"""Every command that a page or a message names is one that the kit takes."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import evaluate
import train
from dataset_builders.__main__ import app as builders
from hub_models.__main__ import app as models
from hub_models.recipe import load_recipe

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("benchmarks", "dataset_builders/sample", "docs", "results", "spaces")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])
APPS = {"-m dataset_builders": builders, "-m hub_models": models, "evaluate.py": evaluate.app}
OF_AN_EARLIER_COMMIT = "loss.name=both_stances"


def typed(page: str) -> Iterator[tuple[list[str], bool]]:
    """The commands of a page as words, and whether they are whole: those of bash blocks and reports, variables filled
    in, are; those between backticks are named in passing."""
    for block in re.findall(r"^```bash\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        variables: dict[str, str] = {}
        for line in block.replace("\\\n", " ").splitlines():
            for name, value in variables.items():
                line = re.sub(rf"\${name}\b", lambda _, v=value: v, line)
            words = shlex.split(line, comments=True)
            if words and (assigned := re.fullmatch(r"(\w+)=(.*)", words[0])):
                variables[assigned[1]] = assigned[2]
            elif words:
                yield words, True
    yield from ((shlex.split(line), True) for line in re.findall(r"^    (python .+)", page, re.MULTILINE))
    yield from ((shlex.split(line), False) for line in re.findall(r"`(python [^`|]+)", page))


def program(words: list[str]) -> tuple[str, list[str]] | None:
    """The program of ours that a command starts, and what it is given."""
    line = shlex.join(words)
    found = re.search(r" (-m (?:dataset_builders|hub_models|benchmarks[.\w]*)|[\w./]*\w+\.py)(?= |$)", line)
    if found is None or words[0] not in ("python", "accelerate", "torchrun"):
        return None
    return found[1], shlex.split(line[found.end() :])


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch):
    """Parses as the command line does and runs nothing: what it says against the words."""

    def silence(app: typer.Typer) -> None:
        for info in (*app.registered_commands, *filter(None, [app.registered_callback])):
            monkeypatch.setattr(info, "callback", functools.wraps(info.callback)(lambda **_: None))
        for group in app.registered_groups:
            silence(group.typer_instance)

    for app in APPS.values():
        silence(app)

    def ask(name: str, words: list[str], whole: bool) -> str:
        if name == "train.py":
            arguments = train.parser.parse_args(words)
            load_recipe(arguments.recipe, arguments.overrides)
            return ""
        said = done.output if (done := CliRunner().invoke(APPS[name], words)).exit_code else ""
        if whole:
            return "" if "does not exist" in said else said  # a reader's own files
        return said if "No such" in said else ""

    return ask


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_is_taken(page: Path, refused) -> None:
    for words, whole in typed(page.read_text(encoding="utf-8")):
        if (found := program(words)) is None or OF_AN_EARLIER_COMMIT in words:
            continue
        name, given = found
        if name in APPS or name == "train.py":
            assert refused(name, given, whole) == "", shlex.join(words)
        elif name != "-m benchmarks":
            path = ROOT / (name.removeprefix("-m ").replace(".", "/") + ".py" if name.startswith("-m") else name)
            source = path.read_text(encoding="utf-8") + (ROOT / "benchmarks" / "measure.py").read_text()
            assert [w for w in given if w.startswith("--") and f'"{w}"' not in source] == [], words


def test_every_command_that_the_code_names_is_there(refused) -> None:
    files = [p for f in ("dataset_builders", "hub_models", "model_cards", "spaces") for p in (ROOT / f).rglob("*.*")]
    text = "\n".join(p.read_text(encoding="utf-8") for p in files if p.suffix in (".py", ".yaml", ".j2"))
    named = set(re.findall(r"python (-m (?:dataset_builders|hub_models)) ([a-z-]+(?: (?:stance|obliq)\b)?)", text))
    assert len(named) > 10
    for name, words in named:
        assert refused(name, words.split(), False) == "", words


@pytest.mark.parametrize("name", ["-m dataset_builders", "-m hub_models"])
def test_the_readme_lists_every_command(name: str) -> None:
    page = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    listed = re.search(rf"`python {name} (\w[\w-]*(?: \| \w[\w-]*)+)`", page)
    assert listed is not None
    assert sorted(listed[1].split(" | ")) == sorted(typer.main.get_command(APPS[name]).commands)
