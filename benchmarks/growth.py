"""How a measure grows with the size: the slopes of the points that ``scale.py`` measures."""

from __future__ import annotations

from typing import Any

import numpy as np

FITTED_FROM = 10_000  # below, fixed costs hide how a thing grows
ENCODED = 10_000  # documents up to which vectors are those of the encoder
BOUND = "<= 1.15"


def slope(sizes: list[int], values: list[float]) -> float | None:
    """Least-squares slope of log(value) over log(n), if there are two points: those from `FITTED_FROM` on, or all of
    what is not measured beyond it."""
    start = FITTED_FROM if max(sizes) > FITTED_FROM else 0
    kept = [(n, v) for n, v in zip(sizes, values, strict=True) if n >= start and v > 0]
    if len(kept) < 2:
        return None
    n, v = np.log(np.array(kept, np.float64)).T
    return float(np.polyfit(n, v, 1)[0])


def series(points: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[list[int], list[float]]]:
    """Sizes and values by (what, unit)."""
    found: dict[tuple[str, str], tuple[list[int], list[float]]] = {}
    for p in sorted(points, key=lambda p: p["n"]):
        for (what, unit), value in {
            **{(name, "s"): s for name, s in p["seconds"].items()},
            (p["stage"], "MiB"): p["mib"],
        }.items():
            sizes, values = found.setdefault((what, unit), ([], []))
            sizes.append(p["n"])
            values.append(value)
    return found


def fitted(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row a line of the figure: ours is the slope, theirs the 1 of linear growth."""
    rows = []
    for (what, unit), (sizes, values) in series(points).items():
        found = slope(sizes, values)
        name = f"{what}, {'time' if unit == 's' else 'memory'}"
        row = {"name": name, "against": "linear growth", "ours": found and round(found, 3), "theirs": 1.0}
        row |= {"unit": "log-log slope", "ratio": row["ours"], "bound": BOUND}
        rows.append(row | {"most": sizes[-1], "there": values[-1], "there_unit": unit})
    return rows
