"""The papers' own numbers, as data: ``results/published/`` of a checkout."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

OBLIQUE = Path(__file__).resolve().parents[2] / "results" / "published" / "obliq.yaml"


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
