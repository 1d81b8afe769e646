"""Answers of language models in an SQLite file: what was paid for once is never asked again."""

from __future__ import annotations

import glob
import logging
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

from dataset_builders.chat import MAX_TOKENS, Completion
from dataset_builders.lock import locked

log = logging.getLogger(__name__)

FORMAT: Final = 1
"""Version of the file and of its keys."""

_APPLICATION: Final = 0x534C_414E  # "SLAN": marks the file as ours, for SQLite has many users
_BUSY: Final = 60.0
_TABLE: Final = """
CREATE TABLE replies (
    key TEXT PRIMARY KEY,
    request TEXT NOT NULL,
    text TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    finish_reason TEXT NOT NULL,
    seconds REAL NOT NULL
)
"""


class ReplyCache:
    """A file of replies by key, shared by threads and by processes; without a path it lives in memory.

    A row is committed, and on the disk, before `put` returns: a killed process loses nothing that it was given.

    Raises:
        ValueError: If the path is a folder, no database, another program's database, or of another format.
        OSError: If it cannot be made or opened.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._turns: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        if path is None:
            self._connection = _connect(":memory:")
            self._connection.execute(_TABLE)
            return
        if path.is_dir():
            raise ValueError(f"the cache {path} is a folder, wanted a file: add a name to it")
        path.parent.mkdir(parents=True, exist_ok=True)
        # One process at a time: SQLite does not wait for others while a file becomes a write-ahead one.
        opening = path.with_name(f".{path.name}.open.lock")
        with locked(opening, wait=True):
            self._connection = _open(path)
            for left in path.parent.glob(f".{glob.escape(path.name)}.*.lock"):
                if left != opening:
                    with locked(left):  # removes it, unless somebody has it: of a process that was killed
                        pass

    def get(self, key: str) -> tuple[Completion, float] | None:
        """The reply with this key and the seconds that it took, or None.

        A row that holds no reply, because it is empty or damaged, is removed: it would be none for good.
        """
        with self._lock, self._named():
            row = self._connection.execute(
                "SELECT text, prompt_tokens, completion_tokens, finish_reason, seconds FROM replies WHERE key = ?",
                (key,),
            ).fetchone()
            if row is None:
                return None
            if _is_reply(*row):
                return Completion(*row[:4]), row[4]
            self._connection.execute("DELETE FROM replies WHERE key = ?", (key,))
        log.warning("the cache %s: a row holds no reply and is asked for again (%s…)", self._path, key[:16])
        return None

    def put(self, key: str, request: str, completion: Completion, seconds: float) -> None:
        """Store a reply and the request that it answers (canonical JSON); one that is there already stays."""
        c = completion
        with self._lock, self._named():
            self._connection.execute(
                "INSERT OR IGNORE INTO replies VALUES (?, ?, ?, ?, ?, ?, ?)",
                (key, request, c.text, c.prompt_tokens, c.completion_tokens, c.finish_reason, seconds),
            )

    @contextmanager
    def turn(self, key: str) -> Iterator[None]:
        """Hold a key: whoever wants the same one, in any thread or process, waits and then finds the reply."""
        with self._lock:
            turn = self._turns.setdefault(key, threading.Lock())
        path = self._path
        with turn, locked(path.with_name(f".{path.name}.{key[:16]}.lock"), wait=True) if path else nullcontext():
            yield

    def close(self) -> None:
        """Close the file; a reply cannot be read or stored after that."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise OSError(f"the cache {self._path}: {error}; what it holds is still there") from error


def is_empty(completion: Completion) -> bool:
    """Whether there is nothing to keep. What was cut off for its length is known to be so, and may be empty."""
    return not completion.text.strip() and completion.finish_reason != "length"


def _is_reply(text: Any, prompt_tokens: Any, completion_tokens: Any, finish_reason: Any, seconds: Any) -> bool:
    """Whether a row holds what `ReplyCache.put` stores; SQLite itself holds any type in any column."""
    counts = (prompt_tokens, completion_tokens)
    return (
        isinstance(text, str)
        and isinstance(finish_reason, str)
        and all(isinstance(n, int) and 0 <= n < MAX_TOKENS for n in counts)
        and isinstance(seconds, float)
        and not is_empty(Completion(text, *counts, finish_reason))
    )


def _connect(path: Path | str) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=_BUSY, isolation_level=None, check_same_thread=False)


def _open(path: Path) -> sqlite3.Connection:
    try:
        connection = _connect(path)
    except sqlite3.OperationalError as error:
        raise OSError(f"the cache {path}: {error}; choose a file that can be written") from error
    try:
        _set_up(connection, path)
    except sqlite3.OperationalError as error:
        connection.close()
        raise OSError(f"the cache {path}: {error}; choose a file that can be written") from error
    except sqlite3.DatabaseError as error:
        connection.close()
        raise ValueError(f"the cache {path} is no cache of replies ({error}); choose another file") from error
    except ValueError:
        connection.close()
        raise
    return connection


def _set_up(connection: sqlite3.Connection, path: Path) -> None:
    def number(what: str) -> int:
        return int(connection.execute(what).fetchone()[0])

    application, version = number("PRAGMA application_id"), number("PRAGMA user_version")
    new = not application and not version and not number("SELECT count(*) FROM sqlite_master")
    if not new and application != _APPLICATION:
        raise ValueError(f"the cache {path} is another program's database; choose another file")
    if not new and version != FORMAT:
        raise ValueError(
            f"the cache {path} has format {version}, wanted {FORMAT}; keep it for the version that wrote it, and "
            "choose another file"
        )
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    if new:
        connection.execute("BEGIN")
        connection.execute(_TABLE)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("COMMIT")
