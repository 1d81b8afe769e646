"""From the names on the command line to tasks whose data has been read and checked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from dataset_builders.schema import Split
from dataset_builders.sources import SOURCES, at_hand, load, obliq_bench
from dataset_builders.sources import oblique as oblique_sources
from dataset_builders.text import did_you_mean
from hub_models.evaluation import nanobeir, oblique, stance
from hub_models.evaluation.nanobeir import NanoBEIR
from hub_models.evaluation.oblique import ObliqueJudgements
from hub_models.evaluation.stance import Judgements

FAMILY = "stance"
OBLIQUE = "obliq"

_SOURCE = re.compile(r"[a-z0-9][a-z0-9_.-]{,99}")  # it names files

Task = Judgements | ObliqueJudgements | NanoBEIR
Tasks = dict[str, Task]


def load_tasks(
    names: Sequence[str], data: Path | None, split: Split, *, allow_dangling: bool = False, wide: bool = False
) -> Tasks:
    """The tasks by name, with their data checked. The key of a task on another split than ``test`` ends in ``:split``.

    Args:
        names: ``{source}-stance`` or ``{source}-obliq-{task}`` each, or ``stance`` or ``obliq`` for all of a family
            whose data is at hand; ``nanobeir`` for ordinary retrieval.
        data: Takes the place of the data of the one task named, which may then have any source.
        split: ``test`` or ``validation``.
        allow_dangling: Take oblique judgements of documents that are not in the corpus.
        wide: Search the claims of stance tasks in the corpus of ``test``.

    Raises:
        ValueError: If a name is unknown or cannot name a file, ``data`` is given with several names, or the data is
            faulty.
        FileNotFoundError: If there is nothing at ``data``, or the Hub's data cannot be had.
    """
    families = {
        FAMILY: [f"{source}-{FAMILY}" for source in at_hand()] if FAMILY in names else [],
        OBLIQUE: [_oblique_name(*pair) for pair in oblique_sources.at_hand()] if OBLIQUE in names else [],
    }
    known = [f"{source}-{FAMILY}" for source in SOURCES]
    known += [_oblique_name(source, task) for source, tasks in oblique_sources.SOURCES.items() for task in tasks]
    if data is not None and (len(names) != 1 or names[0] in families or names[0] == nanobeir.NAME):
        raise ValueError(f"got --data and the tasks {list(names)}, wanted one task by name, whose data it replaces")
    expanded = dict.fromkeys(name for given in names for name in families.get(given, [given]))
    for name in expanded:
        if name == nanobeir.NAME:
            continue
        source, family, task = _parts(name)
        if not source or (data is None and name not in known) or (family == OBLIQUE and task not in obliq_bench.TASKS):
            raise ValueError(
                f"got the task {name!r}, wanted one of {known}, {FAMILY!r} or {OBLIQUE!r} for all that are at hand, "
                f"{nanobeir.NAME!r}, or any 'NAME-{FAMILY}' or 'NAME-{OBLIQUE}-TASK' with --data."
                f"{did_you_mean(name, known)}"
            )
        if not _SOURCE.fullmatch(source):
            raise ValueError(
                f"got the task {name[:120]!r}, wanted a source of at most 100 of a-z, 0-9, '_', '.' and '-', "
                "beginning with a letter or digit: it names files"
            )
        if allow_dangling and family != OBLIQUE:
            raise ValueError(f"{name}: --allow-dangling is for oblique tasks; stance data has no judgements apart")
    loaded: Tasks = {}
    for name in expanded:
        if name == nanobeir.NAME:
            loaded[name] = nanobeir.load()
            continue
        source, family, task = _parts(name)
        key = name if split == "test" else f"{name}:{split}"
        if family == OBLIQUE:
            oblique_data = oblique_sources.load(source, task, data, allow_dangling=allow_dangling)
            loaded[key] = oblique.judge(oblique_data, source, split)
        else:
            loaded[key] = stance.judge(load(source, data), split, wide=wide)
    return loaded


def _oblique_name(source: str, task: str) -> str:
    return f"{source}-{OBLIQUE}-{task}"


def _parts(name: str) -> tuple[str, str, str]:
    """Source, family and, in an oblique name, task; an empty source where the name is of neither form."""
    source, found, task = name.rpartition(f"-{OBLIQUE}-")
    if found:
        return source, OBLIQUE, task
    source = name.removesuffix(f"-{FAMILY}")
    return ("" if source == name else source), FAMILY, ""
