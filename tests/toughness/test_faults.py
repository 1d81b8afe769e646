"""A full disk, a read-only folder, a second process on the same folder: one line that says so, and nothing is lost."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.dataset_builders.publisher import STOPPED, Done
from tests.endpoint import Endpoint
from tests.hub.accounts import TOKENS
from tests.toughness.commands import ALL, FAST, TRAIN, Command
from tests.toughness.endings import Ending
from tests.toughness.place import Place
from tests.toughness.workshop import Workshop

LITTLE = ("encode", "probe", "check", "purity", "query-quality")
"""Commands that write so little that a disk of 16 KiB may hold it."""


def few_and_many(few: int, many: int) -> list[object]:
    """Every command ``many`` times in `make test-all`, the fast ones ``few`` times by default."""
    default = [pytest.param(command, few, 0, id=f"{command.name}-{few}") for command in FAST]
    slow = [pytest.param(c, many, 1, id=f"{c.name}-{many}", marks=pytest.mark.slow) for c in ALL]
    return [*default, *slow]


def told(done: Done) -> str:
    """The one line that says what went wrong."""
    assert done.code == 1 and "Traceback" not in done.output, done.output
    lines = [line for line in done.output.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, done.output
    return lines[0]


@pytest.mark.parametrize(("command", "times", "seed"), few_and_many(2, 6))
def test_where_the_disk_is_full_or_cannot_be_written_nothing_is_lost(
    command: Command, times: int, seed: int, workshop: Workshop, model: Endpoint, tmp_path: Path
) -> None:
    place = Place(tmp_path, workshop, command, model.base_url)
    draw = random.Random(seed)
    for turn in range(times):
        renewed = command.renews and draw.random() < 0.5
        how = ("full", "full-bytes", "read-only")[turn % 3]
        # What a command says is written to a file, too, and must fit.
        fits = place.said + 2_000
        at = draw.randint(fits, max(fits, place.bytes[renewed])) if how == "full-bytes" else None
        ending = Ending(how, at or draw.randint(1, place.changes[renewed]))  # type: ignore[arg-type]
        place.start_again(renewed=renewed)
        before = command.state(place.folder)
        done = place.go(ending)
        if done.code:
            told(done)
        else:  # what failed was not needed
            assert command.state(place.folder) == place.wanted, f"{ending}: {done.output}"
        command.check(place.folder / "out")
        lost = [name for name in before if name not in command.state(place.folder)]
        assert not lost, f"{ending}: {lost} lost\n{done.output}"
        place.run()
        assert command.state(place.folder) == place.wanted, ending


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """A file system of its own at ``folder``."""
    if os.getuid() != 0:
        pytest.skip("only root may mount a file system")
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize(
    "command",
    [pytest.param(c, id=c.name, marks=[] if c in FAST else pytest.mark.slow) for c in ALL],
)
def test_on_a_real_full_disk_and_a_real_read_only_one(
    command: Command, workshop: Workshop, model: Endpoint, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    with mounted(place / "out", "size=16k"):  # room for names and next to no content
        shutil.rmtree(place / "in", ignore_errors=True)
        with suppress(OSError):  # a run that is changed in place does not fit, and then it is not changed either
            command.prepare(place, 1)
            done = workshop.run(*command.argv(place, model.base_url), read_back=False)
            if done.code or command.name not in LITTLE:
                assert re.search("No space left|failed|disk", told(done))
            command.check(place / "out")
    with mounted(place / "out", "size=64m"):
        command.prepare(place, 1)
        subprocess.run(["mount", "-o", "remount,ro", str(place / "out")], check=True)
        before = command.state(place)
        line = told(workshop.run(*command.argv(place, model.base_url), read_back=False))
        assert "Read-only file system" in line
        assert command.state(place) == before


@pytest.mark.parametrize(("command", "times", "seed"), few_and_many(2, 4))
def test_of_two_in_one_folder_one_says_so_or_both_are_right(
    command: Command, times: int, seed: int, workshop: Workshop, model: Endpoint, tmp_path: Path
) -> None:
    """One stands still at a drawn point while the other one runs."""
    place = Place(tmp_path, workshop, command, model.base_url)
    draw = random.Random(seed)
    for _ in range(times):
        renewed = command.renews and draw.random() < 0.5
        ending = Ending("stop", draw.randint(1, place.inside[renewed]), inside=place.out)
        place.start_again(renewed=renewed)
        first = place.start(ending)
        stands = first.wait()
        if stands.code != STOPPED:
            assert stands.code == 0, stands.output
            continue
        second = place.start(None)
        second.settle()
        first.go_on()
        ends = [first.wait(), second.wait()]
        for done in ends:
            if done.code:
                assert "wait" in told(done), "what to do is not said"
        assert 0 in [done.code for done in ends], f"{ending}: nobody was through\n{ends}"
        assert command.state(place.folder) == place.wanted, f"{ending}, renewed {renewed}"


@pytest.mark.parametrize(
    "command",
    [pytest.param(c, id=c.name, marks=[] if c in FAST else pytest.mark.slow) for c in ALL],
)
def test_no_token_is_said_or_written(command: Command, workshop: Workshop, model: Endpoint, tmp_path: Path) -> None:
    """Case 9: the environment holds one, whatever is called."""
    place = tmp_path / "place"
    command.prepare(place, 1)
    done = workshop.run(*command.argv(place, model.base_url), token=TOKENS.write, read_back=False)
    assert done.code == 0 and TOKENS.write not in done.output, done.output
    told = [p.name for p in place.rglob("*") if p.is_file() and TOKENS.write.encode() in p.read_bytes()]
    assert not told


def test_a_trained_run_is_tidied_up(workshop: Workshop, model: Endpoint, tmp_path: Path) -> None:
    """Killed between the run's appearance and the end, the checkpoints stay; the next call removes them."""
    TRAIN.prepare(tmp_path / "place", 1)
    argv = TRAIN.argv(tmp_path / "place", model.base_url)
    assert workshop.run(*argv, read_back=False).code == 0
    wanted = TRAIN.state(tmp_path / "place")
    for name in (".run.partial", ".run.old"):
        (tmp_path / "place" / "out" / name / "checkpoint-10").mkdir(parents=True)
        (tmp_path / "place" / "out" / name / "checkpoint-10" / "optimizer.pt").write_bytes(b"?")
    done = workshop.run(*argv, read_back=False)
    assert done.code == 0 and "already trained" in done.output
    assert TRAIN.state(tmp_path / "place") == wanted
