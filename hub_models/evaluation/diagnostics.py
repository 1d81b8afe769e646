"""What a mean hides, read off per-query tables: of any run, of any task, of both families.

A table maps column names to arrays of one length, as `results.read_per_query` gives them. `describe` looks at one run,
`contrast` at two on the same queries. What a table has no column for is left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataset_builders.text import did_you_mean
from hub_models.evaluation.measured import matching_rows
from hub_models.evaluation.significance import paired_difference

Table = Mapping[str, NDArray[Any]]

TOLERANCE = 0.001
"""Differences up to this one are ties (O 6.2)."""

_RECALL = re.compile(r"recall_at_(\d+)_(gold|pooled)")
_NDCG = re.compile(r"ndcg_at_(\d+)_gold")
_UNITS = ("group", "claim_id", "query_id")


def comparable(table: Table) -> Table:
    """The rows that a mean is over: of a stance table the unseen instructions over all documents, else all rows.

    Raises:
        ValueError: If a stance table does not say which instructions were seen.
    """
    if "candidates" not in table:
        return table
    if "seen" not in table:
        raise ValueError(f"got the columns {list(table)}, wanted 'seen' beside 'candidates': which rows are compared")
    rows = (np.asarray(table["candidates"]) == "all") & ~np.asarray(table["seen"], bool)
    return {name: column[rows] for name, column in table.items()}


def describe(table: Table, metric: str) -> dict[str, Any]:
    """What one run looks like behind the mean of ``metric``.

    Args:
        table: Its per-query values.
        metric: A column, such as ``ndcg_at_10_gold``.

    Returns:
        ``mean`` with its ``interval`` (by group of queries, or by claim); ``zero``: share of queries with the value 0;
        ``ties``: share of queries whose order was decided by id; ``top1_distinct``: how many documents come first for
        some query, and ``top1_max_share``: the share of queries for which the same one does (O H.1: an encoder that
        collapsed has few and one near 1); ``recall_ceiling``: recall by depth, which no reranker of that depth can
        pass (O table 6); ``shuffle``: the value beside that of the first 100 in random order (O M.1); ``overlap``:
        what queries share with what they should find (O J).

    Raises:
        ValueError: If there is no row or no such column.
    """
    values = _column(table, metric)
    found: dict[str, Any] = {
        "metric": metric,
        "mean": float(values.mean()),
        "interval": {key: value for key, value in _interval(values, table).items() if key != "p"},
        "zero": float((values == 0).mean()),
    }
    if "tied" in table:
        found["ties"] = float(table["tied"].mean())
    if "top" in table:
        first = Counter(row[0] for row in table["top"] if len(row))
        found["top1_distinct"] = len(first)
        found["top1_max_share"] = max(first.values(), default=0) / len(values)
    ceilings: dict[str, dict[str, float]] = {}
    for name in table:
        if match := _RECALL.fullmatch(name):
            ceilings.setdefault(match[2], {})[match[1]] = float(table[name].mean())
    if ceilings:
        found["recall_ceiling"] = ceilings
    if f"shuffled_{metric}" in table:
        shuffled = float(table[f"shuffled_{metric}"].mean())
        found["shuffle"] = {"shuffled": shuffled, "ratio": found["mean"] / shuffled if shuffled else None}
    if "overlap_jaccard" in table:
        names = {"jaccard": "overlap_jaccard", "coverage": "overlap_coverage", "entity_leakage": "entity_leakage"}
        found["overlap"] = {name: float(table[column].mean()) for name, column in names.items()}
    return found


def contrast(table: Table, other: Table, metric: str, tolerance: float = TOLERANCE) -> dict[str, Any]:
    """How one run differs from another on the same queries. With an oracle's run as ``other``, minus ``delta`` is the
    distance to it (O appendix O).

    Args:
        table: The run's per-query values.
        other: What it is held against.
        metric: A column of both.
        tolerance: Differences up to this one are ties.

    Returns:
        ``delta`` with its ``interval`` and ``p``; how many queries were ``helped``, ``hurt``, ``tied``, and the
        ``zero_in_both`` among the tied ones (O table 7); ``gain_by_rank``: the difference of NDCG by depth (O figure
        3), where both tables keep it.

    Raises:
        ValueError: If there is no such column, or the queries are not the same.
    """
    for found in (table, other):
        if "query_id" not in found:
            raise ValueError(
                f"got the columns {list(found)}, wanted 'query_id' among them: what is compared with what"
            )
    match = matching_rows(table, other, "the other run")
    ours, theirs = _column(table, metric), _column(other, metric)[match]
    differences = ours - theirs
    tied = np.abs(differences) <= tolerance
    ranks = sorted(int(m[1]) for name in table if name in other and (m := _NDCG.fullmatch(name)))
    gains = {str(k): float((table[n := f"ndcg_at_{k}_gold"] - other[n][match]).mean()) for k in ranks}
    return {
        "metric": metric,
        "delta": float(differences.mean()),
        "interval": _interval(differences, table),
        "helped": int((~tied & (differences > 0)).sum()),
        "hurt": int((~tied & (differences < 0)).sum()),
        "tied": int(tied.sum()),
        "zero_in_both": int(((ours == 0) & (theirs == 0)).sum()),
        "tolerance": tolerance,
        **({"gain_by_rank": gains} if gains else {}),
    }


def _interval(values: NDArray[np.float64], table: Table) -> dict[str, Any]:
    unit = next((name for name in _UNITS if name in table), None)
    if unit is None:
        raise ValueError(f"got the columns {list(table)}, wanted one of {list(_UNITS)}: what an interval resamples")
    units = table[unit].tolist()
    if unknown := sum(name is None or name != name for name in units):
        raise ValueError(f"{unit}: got {unknown} of {len(units)} rows without a value, wanted one in each")
    found = asdict(paired_difference(values, [str(name) for name in units]))
    return {"unit": unit, **{key: value for key, value in found.items() if key != "delta"}}


def _column(table: Table, metric: str) -> NDArray[np.float64]:
    if metric not in table:
        numbers = [name for name, column in table.items() if np.asarray(column).dtype.kind == "f"]
        raise ValueError(f"got the metric {metric!r}, wanted one of {numbers}.{did_you_mean(metric, numbers)}")
    try:
        column = np.asarray(table[metric], np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{metric}: got values that are no numbers, such as {table[metric][0]!r}") from None
    if not np.isfinite(column).all():
        raise ValueError(f"{metric}: got {(~np.isfinite(column)).sum()} of {len(column)} rows without a finite number")
    if not len(column):
        raise ValueError(f"{metric}: the table has no query")
    return column
