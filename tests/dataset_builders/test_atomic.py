"""A file is the old one or the new one, whatever happens while it is written."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from dataset_builders import atomic

OLD, NEW = b"old" * 1000, b"new" * 2000
KILLED = """
import sys
from pathlib import Path
from dataset_builders.atomic import write_bytes
from tests.toughness.endings import Ending
Ending(sys.argv[1], int(sys.argv[2])).install()
write_bytes(Path(sys.argv[3]), b"new" * 2000)
"""


@pytest.fixture(params=["locks", "no locks"], autouse=True)
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With file locks, and as on Windows, which has none."""
    if request.param == "no locks":
        monkeypatch.setattr(atomic, "fcntl", None)
    return str(request.param)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "file").write_bytes(OLD)
    return tmp_path / "file"


def test_what_is_swapped_in_is_whole_and_on_the_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[str, bytes]] = []
    fsync, replace = os.fsync, os.replace

    def synced(number: int) -> None:
        steps.append(("fsync", Path(f"/proc/self/fd/{number}").read_bytes()))
        fsync(number)

    def replaced(staged: Path, to: Path) -> None:
        steps.append(("replace", staged.read_bytes()))
        assert staged.parent == to.parent  # another file system would copy
        replace(staged, to)

    monkeypatch.setattr(atomic.os, "fsync", synced)
    monkeypatch.setattr(atomic.os, "replace", replaced)
    atomic.write_bytes(path, NEW)
    assert steps == [("fsync", NEW), ("replace", NEW)]
    assert path.read_bytes() == NEW and list(path.parent.iterdir()) == [path]


def _full(*_: object) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _in_the_middle(file: IO[bytes]) -> None:
    file.write(NEW[:100])
    file.flush()
    _full()


def _whole(file: IO[bytes]) -> None:
    file.write(NEW)


@pytest.mark.parametrize(
    ("write", "fails"),
    [(_in_the_middle, None), (_whole, "fsync"), (_whole, "replace")],
    ids=["in the middle", "when it is forced to the disk", "when it is swapped in"],
)
def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[IO[bytes]], None], fails: str | None
) -> None:
    if fails:
        monkeypatch.setattr(atomic.os, fails, _full)
    with pytest.raises(OSError, match=r"No space left on device: not written, what was there still stands: '.*file'"):
        atomic.write_with(path, write)
    assert path.read_bytes() == OLD and list(path.parent.iterdir()) == [path]


def test_a_short_write_that_numpy_reports_without_a_number_is_said_in_its_words(path: Path) -> None:
    """``numpy.save`` writes past Python: on a full disk it knows how much was written, and no errno."""

    def short(file: IO[bytes]) -> None:
        raise OSError("100000 requested and 16368 written")

    with pytest.raises(OSError, match=r"^100000 requested and 16368 written \(is the disk full\?\): not written, wh"):
        atomic.write_with(path, short)
    assert path.read_bytes() == OLD and list(path.parent.iterdir()) == [path]


def test_an_interrupted_write_leaves_the_old_file(path: Path) -> None:
    def interrupted(file: IO[bytes]) -> None:
        file.write(NEW)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        atomic.write_with(path, interrupted)
    assert path.read_bytes() == OLD and list(path.parent.iterdir()) == [path]


def test_killed_before_each_change_and_in_the_middle_of_a_byte(path: Path, system: str) -> None:
    if system == "no locks":
        pytest.skip("the process has locks of its own")
    ends = []
    for how, at in (("kill", 1), ("kill", 2), ("kill", 3), ("kill", 4), ("kill-bytes", 1), ("kill-bytes", 5_999)):
        path.write_bytes(OLD)
        done = subprocess.run([sys.executable, "-c", KILLED, how, str(at), str(path)], stderr=subprocess.DEVNULL)
        found = path.read_bytes()
        assert found == (NEW if done.returncode == 0 else OLD)
        ends.append(done.returncode)
        atomic.write_bytes(path, NEW)
        assert path.read_bytes() == NEW and list(path.parent.iterdir()) == [path]
    dead, cut = -signal.SIGKILL, -signal.SIGXFSZ
    assert ends == [dead, dead, dead, 0, cut, cut]  # opened, locked, renamed; there is no fourth change


def test_of_many_writers_one_counts_and_no_reader_sees_a_mixture(path: Path) -> None:
    seen: set[bytes] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add(path.read_bytes())

    def write(letter: bytes) -> None:
        for _ in range(30):
            atomic.write_bytes(path, letter * 100_000)

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert seen <= {OLD, *(letter * 100_000 for letter in (b"a", b"b", b"c"))}
    assert path.read_bytes() in seen and list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("time_of_change", [0, 2**32], ids=["1970", "2106"])
def test_what_the_dead_left_goes_whatever_the_clock_said(path: Path, system: str, time_of_change: int) -> None:
    if system == "no locks":
        pytest.skip("who is dead is seen by the locks")
    left = path.with_name(".file.1-1.partial")
    left.write_bytes(b"half")
    os.utime(left, (time_of_change, time_of_change))
    atomic.write_bytes(path, NEW)
    assert list(path.parent.iterdir()) == [path]


def test_vectors_on_a_full_disk(tmp_path: Path) -> None:
    """No made-up fault: the system lets no file of this process grow beyond a size."""
    script = (
        "import sys; from pathlib import Path; import numpy as np\n"
        "from dataset_builders.atomic import write_with\n"
        "from tests.toughness.endings import Ending\n"
        "Ending('full-bytes', 4096).install()\n"
        "try: write_with(Path(sys.argv[1]), lambda file: np.save(file, np.zeros(10_000)))\n"
        "except OSError as error: print(error)\n"
    )
    np.save(tmp_path / "v.npy", np.ones(2))
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "v.npy")], capture_output=True, text=True)
    assert "not written, what was there still stands" in done.stdout and "None" not in done.stdout, done.stderr
    assert np.load(tmp_path / "v.npy").tolist() == [1, 1] and len(list(tmp_path.iterdir())) == 1
