"""What the benchmarks share: turns taken in one process, medians, memory of a child, the limits of this machine, rows.

A row has ``name``, ``ours``, ``theirs``, ``ratio`` and ``bound``, with ``unit`` and ``against`` beside them. The bound
says how ``ratio`` reads: at least, ``>= 5``, is theirs / ours, how many times ours is better; at most, ``<= 1.1``, is
ours / theirs, what ours costs on top. Without a bound it reads as with at least. ``spread`` is the lowest and the
highest ratio of a single turn, where there were several.
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
Turns = list[float]
"""Seconds of one call, turn by turn."""


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
) -> dict[str, Turns]:
    """Seconds of each call. They take turns, in an order that is reversed each time; the first warms up."""
    found: dict[str, Turns] = {name: [] for name in calls}
    for turn in range(repeats + warm):
        for name in list(calls)[:: 1 if turn % 2 else -1]:
            took = seconds(calls[name], clock)
            if turn >= warm:
                found[name].append(took)
    return found


def scaled(turns: Turns, factor: float) -> Turns:
    """What the turns would have taken of so many times as much."""
    return [factor * took for took in turns]


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
    ours: float | Turns | None,
    theirs: float | Turns | None,
    bound: str | None,
    *,
    against: str,
    unit: str = "s",
    **more: Any,
) -> Row:
    """One row, of figures or of turns, whose medians are taken. A bound without an opponent (``theirs`` is the limit
    itself) is a row with ``theirs`` = the limit; without either, a figure stands alone."""
    mine, other = _middle(ours), _middle(theirs)
    found = {
        "name": name,
        "against": against,
        "ours": _rounded(mine),
        "theirs": _rounded(other),
        "unit": unit,
        "ratio": _rounded(_ratio(mine, other, bound)),
        "bound": bound,
    }
    if isinstance(ours, list) and len(ours) > 1 and theirs is not None:
        others = theirs if isinstance(theirs, list) else [theirs] * len(ours)
        ratios = [_ratio(a, b, bound) or 0.0 for a, b in zip(ours, others, strict=True)]
        found["spread"] = [_rounded(min(ratios)), _rounded(max(ratios))]
    return found | more


def _middle(value: float | Turns | None) -> float | None:
    return statistics.median(value) if isinstance(value, list) else value


def _ratio(ours: float | None, theirs: float | None, bound: str | None) -> float | None:
    if ours is None or theirs is None:
        return None
    return ours / theirs if bound is not None and bound_of(bound)[0] == "<=" else theirs / ours


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


def product_rate(dtype: str = "float32", repeats: int = 20) -> float:
    """Floating-point operations per processor second of torch's matrix product, of MiniLM's sizes: the limit of
    encoding and training."""
    import torch

    tokens, a, b = 1024, *(torch.randn(rows, 384).to(getattr(torch, dtype)) for rows in (1024, 1536))
    some = 5  # a single product is shorter than the clock is fine
    took = [
        seconds(lambda: [torch.nn.functional.linear(a, b) for _ in range(some)], time.process_time)
        for _ in range(repeats)
    ]
    return some * 2 * tokens * 384 * 1536 / statistics.median(took)


def operations(call: Callable[[], Any]) -> int:
    """Floating-point operations of the matrix products of torch in a call; those of padding count."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        call()
    return int(counter.get_total_flops())
