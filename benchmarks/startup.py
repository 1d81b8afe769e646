"""What starting costs: imports against those of the libraries underneath, and ``--help`` of every command.

Every measure is the wall-clock time of a Python process of its own; medians of five, in turns. The packages import
their names when they are first used, so the import with those names is a row of its own.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator

import typer

from benchmarks.measure import ROOT, arguments, in_turns, report, row, seconds
from dataset_builders.__main__ import app as builders
from hub_models.__main__ import app as models

IMPORTS = {
    "import hub_models": ("import hub_models", "import sentence_transformers"),
    "import dataset_builders": ("import dataset_builders", "import datasets"),
    "hub_models, names used": (
        "from hub_models import StanceSearch, encode_corpus, load",
        "import sentence_transformers, peft, bm25s",
    ),
    "dataset_builders, names used": ("from dataset_builders import builds, sources", "import datasets, bm25s"),
}


def python(*options: str) -> None:
    """Run Python to its end.

    Raises:
        CalledProcessError: If it fails.
    """
    subprocess.run([sys.executable, *options], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def commands() -> list[list[str]]:
    """What a user can type, all subcommands included, those of groups too."""
    found = [["train.py"], ["evaluate.py"]]
    for package, app in (("dataset_builders", builders), ("hub_models", models)):
        found += [["-m", package, *words] for words in below(typer.main.get_command(app))]
    return found


def below(command: object) -> Iterator[list[str]]:
    """The words that lead to a command and to each of those that it groups; none to itself."""
    yield []
    for name, inner in getattr(command, "commands", {}).items():
        yield from ([name, *words] for words in below(inner))


def main() -> None:
    asked = arguments(__doc__, commands=100)
    rows = []
    for name, (ours, theirs) in IMPORTS.items():
        took = in_turns(
            {"ours": lambda s=ours: python("-c", s), "theirs": lambda s=theirs: python("-c", s)}, asked.repeats
        )  # type: ignore[misc]
        rows.append(row(name, took["ours"], took["theirs"], "<= 1.1", against=theirs.removeprefix("import ")))
    helps = {
        " ".join(command): statistics.median(
            seconds(lambda c=command: python(*c, "--help"))
            for _ in range(asked.repeats)  # type: ignore[misc]
        )
        for command in commands()[: asked.commands]
    }
    slowest = max(helps, key=lambda command: helps[command])
    rows.append(
        row(f"--help, the slowest of {len(helps)} commands", helps[slowest], 1.0, "<= 1", against="1 s", note=slowest)
    )
    report(rows, asked.out)


if __name__ == "__main__":
    main()
