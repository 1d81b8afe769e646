"""Reranked runs of a task as text: what a policy changed (O tables 5, 7), what it cost (table 8), what was chosen."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from hub_models.evaluation.oblique_table import FEW_GROUPS
from hub_models.evaluation.results import RunResult, TaskResult

_WIDTH, _LABEL = 114, 24
_CELLS = (8, 24, 19, 7, 14, 7, 0)
_HEADS = ("NDCG@10", "difference", "help/hurt/tie/zero", "calls", "tokens", "s", "replies")


def run_label(run: RunResult) -> str:
    """How a run is called in a table, behind the model's name; nothing for the plain ones."""
    if run.strategy == "rerank":
        chosen = run.diagnostics.get("policy", run.params["policy"])
        return f" · auto: {chosen}" if run.params["policy"] == "auto" else f" · {chosen}"
    names = {"claim_only": " · query alone", "dense": "", "bm25": "", "random": "", "rewrite": " · rewritten query"}
    if run.strategy == "oracle_tournament":
        return f" · oracle {run.params['policy']}"
    return names.get(run.strategy, f" · {run.strategy}")


def rerank_lines(task: TaskResult) -> Iterator[str]:
    """The reranked runs of an oblique task, if it has some."""
    runs = [run for run in task.runs if "cost" in run.diagnostics]
    if not runs:
        return
    yield from textwrap.wrap(
        f"Reranked, against the run {task.runs[0].strategy}: queries helped, hurt, tied, and zero in both; for each "
        "query calls of a language model, tokens in and out, and its seconds; replies read as they are, mended, and "
        "useless.",
        _WIDTH,
    )
    yield _line("", _HEADS)
    for run in runs:
        yield _line(f"  {run_label(run).removeprefix(' · ')}", _cells(run))
    said: dict[str, list[str]] = defaultdict(list)
    for run in runs:
        said[_setting(run)].append(run_label(run).removeprefix(" · "))
    for setting, labels in said.items():
        yield from textwrap.wrap(f"{', '.join(labels)}: {setting}.", _WIDTH, subsequent_indent="  ")
    for run in runs:
        yield from _choice(run)


def _cells(run: RunResult) -> tuple[str, ...]:
    found, cost = run.diagnostics["against_first_stage"], run.diagnostics["cost"]
    interval = found["interval"]
    span = "" if interval["low"] is None else f" [{interval['low']:+.3f}, {interval['high']:+.3f}]"
    return (
        _number(run.mean("overall", found["metric"])),
        f"{found['delta']:+.3f}{span}".replace("0.", "."),
        "/".join(str(found[key]) for key in ("helped", "hurt", "tied", "zero_in_both")),
        f"{cost['calls_per_query']:.4g}",
        f"{cost['prompt_tokens_per_query']:.0f}/{cost['completion_tokens_per_query']:.0f}",
        f"{cost['seconds_per_query']:.2f}",
        "/".join(f"{cost[key]:.0f}" for key in ("parsed", "repaired", "fallback")),
    )


def _setting(run: RunResult) -> str:
    params = run.params
    parts = [f"language model {params['llm']}"] if params.get("llm") else []
    if "pool_ceiling" in run.diagnostics:
        ceiling = _number(run.diagnostics["pool_ceiling"])
        parts.append(f"{params['depth']} documents a query, whose best order has NDCG@10 {ceiling}")
    return "; ".join(parts)


def _choice(run: RunResult) -> Iterator[str]:
    choice: dict[str, Any] | None = run.diagnostics.get("choice")
    if choice:
        yield (
            f"{choice['policy']} was chosen on {choice['queries']} development queries in "
            f"{choice['groups'] or 'as many'} groups, identity unless another is better beyond its interval:"
        )
        for name, found in choice["candidates"].items():
            against = ""
            if found.get("low") is not None:
                against = f" ({found['delta']:+.3f} [{found['low']:+.3f}, {found['high']:+.3f}])"
            yield f"  {name} {found['ndcg_at_10']:.3f}{against}"
        if choice["groups"] is not None and choice["groups"] < FEW_GROUPS:
            yield "  Of so few groups the interval comes out too narrow: choose on more development queries."


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}".replace("0.", ".")


def _line(label: str, cells: tuple[str, ...]) -> str:
    label = label if len(label) < _LABEL else label[: _LABEL - 2] + "…"
    return (f"{label:<{_LABEL}}" + "".join(f"{c:<{w}}" for c, w in zip(cells, _CELLS, strict=True))).rstrip()
