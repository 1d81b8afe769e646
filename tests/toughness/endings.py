"""How a forked command may end: killed, stopped or short of disk at a drawn point, which no clock decides.

Points are counted in *changes*, calls that make, rename or remove a file, start a connection or a process, as Python's
audit events tell of them; and in *bytes* of one file, which the kernel counts for native code too.
"""

from __future__ import annotations

import errno
import itertools
import os
import resource
import signal
import sys
from dataclasses import dataclass
from typing import Any, Literal

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_TAKING = frozenset(("os.mkdir", "os.rename", "os.link", "os.symlink"))
_OTHERS = frozenset(
    ("os.remove", "os.rmdir", "os.truncate", "fcntl.flock", "socket.connect", "sqlite3.connect", "subprocess.Popen")
)


@dataclass(frozen=True)
class Ending:
    """What happens, and when.

    Attributes:
        how: ``kill``: SIGKILL before change ``at``. ``kill-bytes``: the kernel kills in the middle of a write, when a
            file would grow beyond ``at`` bytes. ``stop``: SIGSTOP before change ``at``. ``full``: from change ``at``
            on, nothing new can be made (ENOSPC), as on a full disk. ``full-bytes``: no file grows beyond ``at`` bytes
            (EFBIG). ``read-only``: from change ``at`` on, nothing can be changed (EROFS). ``count``: the number of all
            changes and of those that count are written to ``into``.
        at: From 1.
        after: For bytes: from this change on; by default from the beginning. So the first files need not be the ones
            that are hit.
        inside: Of changes of files, those in this folder count; by default all do.
        into: A file, for ``count``.
    """

    how: Literal["kill", "kill-bytes", "stop", "full", "full-bytes", "read-only", "count"]
    at: int = 1
    after: int = 0
    inside: str = ""
    into: str = ""

    def install(self) -> None:
        """In the process that is to end so; it cannot be undone."""
        if self.how.endswith("-bytes"):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            # By default Python ignores the signal, and the write fails; else it kills.
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL if self.how == "kill-bytes" else signal.SIG_IGN)
            if not self.after:
                resource.setrlimit(resource.RLIMIT_FSIZE, (self.at, self.at))
                return
        sys.addaudithook(self._hook())

    def _hook(self) -> Any:
        every, numbers = itertools.count(1), itertools.count(1)
        out = os.open(self.into, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) if self.how == "count" else -1

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            taking = event in _TAKING or (event == "open" and _is_written(*arguments))
            if not taking and event not in _OTHERS:
                return
            if self.how == "count":
                os.pwrite(out, f"{next(every):9} ".encode(), 0)
            if self.inside and not _is_inside(event, arguments, self.inside):
                return
            number = next(numbers)
            if self.how == "count":
                os.pwrite(out, f"{number:9}".encode(), 10)
            elif self.how.endswith("-bytes") and number == self.after:
                resource.setrlimit(resource.RLIMIT_FSIZE, (self.at, self.at))
            elif self.how in ("kill", "stop") and number == self.at:
                os.kill(os.getpid(), signal.SIGKILL if self.how == "kill" else signal.SIGSTOP)
            elif self.how == "full" and number >= self.at and taking:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(arguments[0]))
            elif self.how == "read-only" and number >= self.at and (taking or event in ("os.remove", "os.rmdir")):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(arguments[0]))

        return hook


def _is_written(path: object, mode: object, flags: int) -> bool:
    return isinstance(path, (str, bytes)) and bool(flags & _WRITING) and not os.fsdecode(path).startswith("/dev/")


def _is_inside(event: str, arguments: tuple[Any, ...], folder: str) -> bool:
    """Whether a change is one in ``folder``. Connections and processes are nowhere else."""
    if event in ("socket.connect", "subprocess.Popen"):
        return True
    if event == "fcntl.flock":
        return os.readlink(f"/proc/self/fd/{arguments[0]}").startswith(folder)
    path = os.fsdecode(arguments[0])
    if event in ("os.remove", "os.rmdir") and arguments[-1] >= 0:  # a tree that is removed: by its open folder
        path = f"{os.readlink(f'/proc/self/fd/{arguments[-1]}')}/{path}"
    return path.startswith(folder)
