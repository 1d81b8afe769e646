"""The papers' own numbers, as data: ``results/published/`` of a checkout."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parents[2] / "results" / "published"
OBLIQUE = FOLDER / "obliq.yaml"
STANCE = FOLDER / "stance.yaml"


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A row of a published table.

    Attributes:
        pipeline: What was measured.
        cells: Metric to value; a cell that is not in our text of the paper is absent.
        text: The paper's words that the cells were read from.
    """

    pipeline: str
    cells: dict[str, float]
    text: list[str]


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """One task's table, by its number in the paper."""

    table: str
    rows: list[PublishedRow]


def oblique_tables(path: Path = OBLIQUE) -> dict[str, PublishedTable]:
    """Oblique task to its published table (O tables 1-4, 6, L.1); none where the file did not come along, as in an
    installed wheel."""
    if not path.is_file():
        return {}
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {
        task: PublishedTable(
            found["table"],
            [PublishedRow(r["pipeline"], r.get("cells", {}), r.get("text", [])) for r in found["rows"]],
        )
        for task, found in content["tasks"].items()
    }


@dataclass(frozen=True, slots=True)
class TeacherRow:
    """A row of O table H.1: what the distillation rows are, NDCG@10 by task, and the words they were read from."""

    source: str
    cells: dict[str, float]
    text: str


def teacher_graph(path: Path = OBLIQUE) -> list[TeacherRow]:
    """O table H.1; nothing where the file did not come along, as in an installed wheel."""
    if not path.is_file():
        return []
    table = _content(path)["teacher_graph"]
    return [
        TeacherRow(row["source"], dict(zip(table["columns"], row["cells"], strict=True)), row["text"])
        for row in table["rows"]
    ]


@dataclass(frozen=True, slots=True)
class Cell:
    """A printed mean with its printed sample std over queries."""

    mean: float
    std: float


@dataclass(frozen=True, slots=True)
class StanceRow:
    """One line of S tables 2-25.

    Attributes:
        table: Its number.
        corpus: Named as our source is.
        base: Hub id of the base model.
        system: As printed, such as ``Mixed + Aug``, ``Hybrid λ=0.10`` or ``Zero-Shot + Reranker``.
        slice: ``overall``, ``support`` or ``attack``; the ablation tables have ``overall`` alone.
        cells: Metric to value. Retrieval is cut at min(R, 10).
    """

    table: str
    corpus: str
    base: str
    system: str
    slice: str
    cells: dict[str, Cell]

    @property
    def curriculum(self) -> str | None:
        """What the model was trained on; None for a base. The hybrid rows are all of Mixed + Aug (S appendix D)."""
        trained = "Mixed + Aug" if self.weight is not None else self.system.removesuffix(_RERANKED)
        return CURRICULUM_OF[trained]

    @property
    def weight(self) -> float | None:
        """The λ of a hybrid row."""
        return float(self.system.removeprefix(_HYBRID)) if self.system.startswith(_HYBRID) else None

    @property
    def reranked(self) -> bool:
        return self.system.endswith(_RERANKED)


_HYBRID, _RERANKED = "Hybrid λ=", " + Reranker"
CURRICULUM_OF = {"Zero-Shot": None, "Homogeneous": "homogeneous", "Mixed": "mixed", "Mixed + Aug": "mixed_aug"}
"""S's names to ours."""


@functools.cache
def _content(path: Path) -> Any:
    """A file's content, read once: YAML is slow."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def stance_rows(path: Path = STANCE) -> list[StanceRow]:
    """The lines of S tables 2-25, in the paper's order; none where the file did not come along, as in an installed
    wheel."""
    if not path.is_file():
        return []
    content = _content(path)
    rows = []
    for number, table in content["tables"].items():
        for base, system, slice_name, values in _lines(table):
            columns = content["ablation_columns" if "models" in table else "retrieval_columns"]
            cells = {metric: Cell(*pair) for metric, pair in zip(columns, values, strict=True)}
            rows.append(StanceRow(number, table["corpus"], base, system, slice_name, cells))
    return rows


def _lines(table: dict[str, Any]) -> Iterator[tuple[str, str, str, list[list[float]]]]:
    for system, by_slice in table["rows"].items() if "model" in table else ():
        for slice_name, values in by_slice.items():
            yield table["model"], system, slice_name, values
    for base, by_system in table.get("models", {}).items():
        for system, values in by_system.items():
            yield base, system, "overall", values


def stance_sizes(path: Path = STANCE) -> dict[str, dict[str, float]]:
    """S table 1: corpus to the numbers of claims and arguments; nothing where the file did not come along."""
    if not path.is_file():
        return {}
    table = _content(path)["tables"]["1"]
    return {corpus: dict(zip(table["columns"], values, strict=True)) for corpus, values in table["rows"].items()}
