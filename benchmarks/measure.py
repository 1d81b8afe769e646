"""What the benchmarks share: turns taken in one process, medians, memory of a child, the limits of this machine, rows.

A row has ``name``, ``ours``, ``theirs``, ``ratio`` and ``bound``, with ``unit`` and ``against`` beside them. The bound
says how ``ratio`` reads: at least, ``>= 5``, is theirs / ours, how many times ours is better; at most, ``<= 1.1``, is
ours / theirs, what ours costs on top.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dataset_builders.atomic import write_text

REPEATS = 5
ROOT = Path(__file__).resolve().parent.parent

Row = dict[str, Any]


def arguments(description: str | None, **sizes: int) -> argparse.Namespace:
    """``--out FILE`` of a script, and an option for each of its sizes; the defaults are those of the table."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="also write the rows to this JSON file")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    for name, default in sizes.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    return parser.parse_args()


def seconds(call: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of one call, by the wall clock or another, garbage of earlier ones swept away first."""
    gc.collect()
    start = clock()
    call()
    return clock() - start


def in_turns(
    calls: Mapping[str, Callable[[], Any]],
    repeats: int,
    *,
    warm: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Median seconds of each call. They take turns, in an order that is reversed each time; the first warms up."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(repeats + warm):
        for name in list(calls)[:: 1 if turn % 2 else -1]:
            took = seconds(calls[name], clock)
            if turn >= warm:
                found[name].append(took)
    return {name: statistics.median(times) for name, times in found.items()}


def holds(ratio: float, bound: str) -> bool:
    """Whether a ratio keeps its bound, such as ``>= 5``."""
    sign, value = bound_of(bound)
    return ratio >= value if sign == ">=" else ratio <= value


def bound_of(bound: str) -> tuple[str, float]:
    """The two parts of a bound.

    Raises:
        ValueError: If it is none.
    """
    match = re.fullmatch(r"(>=|<=) ([0-9.]+)", bound)
    if match is None:
        raise ValueError(f"got the bound {bound!r}, wanted one like '>= 5' or '<= 1.1'")
    return match[1], float(match[2])


def row(
    name: str,
    ours: float | None,
    theirs: float | None,
    bound: str | None,
    *,
    against: str,
    unit: str = "s",
    **more: Any,
) -> Row:
    """One row. A bound without an opponent (``theirs`` is the limit itself) is a row with ``theirs`` = the limit;
    without a bound, a figure stands alone."""
    ratio = None
    if ours is not None and theirs is not None and bound is not None:
        ratio = theirs / ours if bound_of(bound)[0] == ">=" else ours / theirs
    return {
        "name": name,
        "against": against,
        "ours": _rounded(ours),
        "theirs": _rounded(theirs),
        "unit": unit,
        "ratio": _rounded(ratio),
        "bound": bound,
        **more,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def report(rows: Sequence[Row], out: Path | None) -> None:
    """Print the rows, one JSON object a line, and write them where they are wanted."""
    for found in rows:
        print(json.dumps(found, allow_nan=False))
    if out is not None:
        write_text(out, json.dumps(list(rows), indent=1, allow_nan=False) + "\n")


def child(module: str, *options: object) -> Any:
    """What a run of a module in a process of its own prints as its last line, a JSON value.

    Raises:
        RuntimeError: If it fails, with its last words.
    """
    command = [sys.executable, "-m", module, *map(str, options)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:])} failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def peak_memory() -> int:
    """Bytes that this process had in memory at most, ever."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def memory() -> int:
    """Bytes that this process has in memory now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    import os

    return pages * os.sysconf("SC_PAGE_SIZE")


def multiply_rate(size: int = 1024, repeats: int = REPEATS) -> float:
    """Floating-point operations a second of numpy's float32 matrix product: the limit of every exact dense search."""
    import numpy as np

    a = np.random.default_rng(0).standard_normal((size, size), dtype=np.float32)
    a @ a
    return 2 * size**3 / statistics.median(seconds(lambda: a @ a) for _ in range(repeats))


def read_rate(repeats: int = REPEATS) -> float:
    """Bytes a second that a product of a large matrix and one vector reads: the limit of a flat search."""
    import numpy as np

    matrix = np.ones((2**18, 256), np.float32)  # 256 MiB, more than any cache
    vector = np.ones(256, np.float32)
    matrix @ vector
    return matrix.nbytes / statistics.median(seconds(lambda: matrix @ vector) for _ in range(repeats))
