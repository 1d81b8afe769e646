"""One holder at a time, across processes: dead ones hold nothing, and no clock is asked."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dataset_builders import lock
from dataset_builders.lock import locked

HOLD = """
import sys
from pathlib import Path
from dataset_builders.lock import locked
with locked(Path(sys.argv[1]), wait=True) as mine:
    print(mine, flush=True)
    sys.stdin.readline()
"""
COUNT = """
import sys
from pathlib import Path
from dataset_builders.lock import locked
path, number = Path(sys.argv[1]), Path(sys.argv[2])
for _ in range(int(sys.argv[3])):
    with locked(path, wait=True):
        number.write_text(str(int(number.read_text()) + 1))
"""
BARRED = """
import os, sys
from pathlib import Path
from dataset_builders.lock import locked
os.seteuid(65534)
try:
    with locked(Path(sys.argv[1])):
        print("locked")
except OSError as error:
    print(type(error).__name__, error)
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the lock, until a line is written to it."""
    with start(HOLD, path) as process:
        assert process.stdout is not None and process.stdout.readline() == "True\n"
        yield process
        process.kill()


def let_go(process: subprocess.Popen[str]) -> None:
    process.communicate("\n")


def test_of_two_processes_one_has_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder(path) as other:
        with locked(path) as mine:
            assert not mine
        assert path.exists()  # whoever did not get it leaves it alone
        let_go(other)
    assert not path.exists()
    with locked(path) as mine:
        assert mine and path.exists()
    assert not path.exists()


def test_who_waits_has_it_next(tmp_path: Path) -> None:
    path, locks = tmp_path / "lock", Path("/proc/locks")
    with locked(path):
        waiting = start(HOLD, path)
        while not any("->" in line and f" {waiting.pid} " in line for line in locks.read_text().splitlines()):
            time.sleep(0.01)
    assert waiting.stdout is not None and waiting.stdout.readline() == "True\n"
    with locked(path) as mine:
        assert not mine
    let_go(waiting)
    assert not path.exists()


@pytest.mark.parametrize("time_of_change", [0, 2**32], ids=["1970", "2106"])
def test_the_lock_of_a_dead_process_is_free_whatever_the_clock_said(tmp_path: Path, time_of_change: int) -> None:
    path = tmp_path / "lock"
    with holder(path) as other:
        other.kill()
        other.wait()
    assert path.exists()
    os.utime(path, (time_of_change, time_of_change))
    with locked(path) as mine:
        assert mine
    assert not path.exists()


def test_no_two_are_in_it_however_often_it_changes_hands(tmp_path: Path) -> None:
    number = tmp_path / "number"
    number.write_text("0")
    processes = [start(COUNT, tmp_path / "lock", number, 50) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert number.read_text() == "150"
    assert [p.name for p in tmp_path.iterdir()] == ["number"]


@pytest.mark.parametrize("made_anew", [False, True])
def test_a_file_that_was_removed_between_opening_and_locking_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made_anew: bool
) -> None:
    """Its holder was done in between; perhaps a third one has locked a new file of the name by now."""
    path, opened, real = tmp_path / "lock", [], lock._open

    def open_late(path: Path) -> object:
        file = real(path)
        opened.append(file)
        if len(opened) == 1:
            path.unlink()
            if made_anew:
                path.touch()
        return file

    monkeypatch.setattr(lock, "_open", open_late)
    with locked(path) as mine:
        assert mine and len(opened) == 2 and opened[0].closed
        assert os.path.samestat(os.fstat(opened[1].fileno()), path.stat())


def test_it_is_let_go_where_the_work_fails(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with pytest.raises(KeyError), locked(path):
        raise KeyError
    assert not path.exists()


def test_a_folder_without_permission_is_named(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root may become somebody else")
    os.chmod(tmp_path, 0o755)
    done = start(BARRED, tmp_path / "lock")
    said, _ = done.communicate()
    denied = "PermissionError [Errno 13] Permission denied: nothing can be written there; choose another folder"
    assert said == f"{denied}: {str(tmp_path)!r}\n"
    assert not list(tmp_path.iterdir())
