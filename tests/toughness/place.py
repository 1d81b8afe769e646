"""A folder in which one command is run again and again from the same start."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.dataset_builders.publisher import Done, Running
from tests.toughness.commands import Command, State
from tests.toughness.endings import Ending
from tests.toughness.workshop import Workshop


class Place:
    """Measures the command first: what it makes, and by how many changes.

    Attributes:
        folder: The same for all runs, since paths are part of what some commands hash.
        wanted: What an unbroken run makes.
        changes: How many changes an unbroken run takes, from an empty folder (False) or a renewal (True).
        inside: How many of them concern ``out``: loading a model makes and removes many files elsewhere.
        said: Bytes of what it writes to the terminal, at most.
        bytes: The length of the longest file, likewise.
    """

    def __init__(self, folder: Path, workshop: Workshop, command: Command, url: str) -> None:
        self.folder, self._workshop, self.command, self._url = folder / "place", workshop, command, url
        self._starts: dict[bool, Path] = {}
        self.said = 0
        self.changes: dict[bool, int] = {}
        self.inside: dict[bool, int] = {}
        self.bytes: dict[bool, int] = {}
        command.prepare(self.folder, 1)
        self.run()  # what it leaves is the start of a renewal; and it has filled all caches, so that runs are alike
        if command.renews:
            command.prepare(self.folder, 2)
            renewed = self._measure(renewed=True)
        shutil.rmtree(self.folder)
        command.prepare(self.folder, 1 + command.renews)
        self.wanted: State = self._measure(renewed=False)
        if command.renews:
            assert renewed == self.wanted, "an earlier version shows through"

    def _measure(self, *, renewed: bool) -> State:
        """Keep this start, and see what an unbroken run does and makes."""
        self._starts[renewed] = self.folder.with_name(f"start-{renewed}")
        shutil.copytree(self.folder, self._starts[renewed])
        count = self.folder.with_name("count")
        self.run(Ending("count", inside=self.out, into=str(count)))
        self.changes[renewed], self.inside[renewed] = map(int, count.read_text().split())
        self.bytes[renewed] = max(p.stat().st_size for p in (self.folder / "out").rglob("*") if p.is_file())
        return self.command.state(self.folder)

    @property
    def out(self) -> str:
        return str(self.folder / "out")

    def start_again(self, *, renewed: bool) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self._starts[renewed], self.folder)

    def start(self, ending: Ending | None) -> Running:
        argv = self.command.argv(self.folder, self._url)
        return self._workshop.start(*argv, read_back=False, ending=ending)

    def go(self, ending: Ending | None) -> Done:
        return self.start(ending).wait()

    def run(self, ending: Ending | None = None) -> None:
        """To its good end."""
        done = self.go(ending)
        assert done.code == 0, done.output
        self.said = max(self.said, len(done.output.encode()))
