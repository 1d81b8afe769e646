"""Each task's own lens against the one generic prompt, on equal terms: rows about the same documents, of one writer
where there are such (O 3.1; what the lens itself brings is left open in the limitations of O)."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from dataset_builders.atomic import write_text
from dataset_builders.oblique.attributes import LENS_OF
from dataset_builders.oblique.documents import load as load_documents
from dataset_builders.oblique.read import ObliqueRow, parse, read_oblique_rows
from dataset_builders.oblique.training import Options, query_rows
from dataset_builders.sources import sample
from hub_models.evaluation.study_obliq_grid import GENERIC, MATCHED
from hub_models.evaluation.study_obliq_results import LensRows

_BUILD: Final = f"python -m dataset_builders build {sample.NAME}-obliq-queries --generate MODEL"

Key = tuple[str | None, str]
"""Task and id of the document that a row is about."""


@dataclass(frozen=True, slots=True)
class Lenses:
    """Rows of both sides: as many, about the same documents, in the same order.

    Attributes:
        matched: Through the lens of each task.
        generic: Through the generic one.
        facts: For the results.
    """

    matched: list[ObliqueRow]
    generic: list[ObliqueRow]
    facts: LensRows

    def write(self, folder: Path) -> dict[str, Path]:
        """Write the rows of each side into a file that is named after its content.

        Returns:
            The files, by the system that is trained on them.

        Raises:
            OSError: If one cannot be written.
        """
        return {MATCHED: _write(folder, MATCHED, self.matched), GENERIC: _write(folder, GENERIC, self.generic)}


def read_lenses(generic: Path, matched: Path | None) -> Lenses:
    """Read both sides and cut them to the documents that both have.

    Args:
        generic: Rows of ``{source}-obliq-queries`` through the generic lens.
        matched: Rows of the same documents through the lens of each task; None for the sample's authored ones.

    Raises:
        FileNotFoundError: If there is nothing at a path.
        ValueError: If rows cannot be read or are of another lens, a document has two of them, or a text differs
            between the sides; or if no document is in both.
    """
    sides = _generic(generic), _authored() if matched is None else _matched(matched)
    name = "the sample's authored rows" if matched is None else f"--matched {matched}"
    theirs, ours = _by_document(sides[0], f"--generic {generic}"), _by_document(sides[1], name)
    common = [key for key in ours if key in theirs]
    if not common:
        raise ValueError(
            f"got no document, by task and id, that is both in --generic {generic} (such as {next(iter(theirs))}) and "
            f"in {name} (such as {next(iter(ours))}), wanted rows of the same documents: build both from one source"
        )
    changed = [key for key in common if ours[key].positive != theirs[key].positive]
    if changed:
        raise ValueError(
            f"got {len(changed)} of {len(common)} documents, such as {changed[0]}, whose text differs between "
            f"--generic {generic} and {name}, wanted rows of the same documents: build both from one source"
        )
    rows = [ours[key] for key in common], [theirs[key] for key in common]
    facts = LensRows(
        rows=dict(Counter(str(row.task) for row in rows[0])),
        matched_left_out=len(ours) - len(common),
        generic_left_out=len(theirs) - len(common),
        matched_by=_writers(rows[0]),
        generic_by=_writers(rows[1]),
        authored=matched is None,
    )
    return Lenses(*rows, facts)


def _generic(path: Path) -> list[ObliqueRow]:
    rows = read_oblique_rows(path)
    other = [row.lens for row in rows if row.lens != "generic"]
    if other:
        raise ValueError(
            f"--generic {path}: got {len(other)} of {len(rows)} rows through other lenses, such as {other[0]!r}, "
            f"wanted 'generic' alone; build them with `{_BUILD} --lens generic`"
        )
    return rows


def _matched(path: Path) -> list[ObliqueRow]:
    rows = read_oblique_rows(path)
    other = [row for row in rows if row.task is None or row.lens != LENS_OF[row.task]]
    if other:
        raise ValueError(
            f"--matched {path}: got {len(other)} of {len(rows)} rows through another lens than their task's own, such "
            f"as {other[0].lens!r} for {other[0].task!r}; build them with `{_BUILD}`, without --lens"
        )
    return rows


def _authored() -> list[ObliqueRow]:
    """The rows that the other systems of the study have, see `study_obliq_grid.Grid.queries`."""
    made = query_rows(load_documents(sample.NAME), None, Options(), seed=0)
    return [row for number, found in enumerate(made.rows, 1) for row in parse(found, f"{sample.NAME}, row {number}")]


def _by_document(rows: Sequence[ObliqueRow], name: str) -> dict[Key, ObliqueRow]:
    """A second row of a document would count it twice on one side alone."""
    found: dict[Key, ObliqueRow] = {(row.task, row.positive_id): row for row in rows}
    if len(found) < len(rows):
        counts = Counter((row.task, row.positive_id) for row in rows)
        twice, number = counts.most_common(1)[0]
        raise ValueError(f"{name}: got {number} rows of {twice}, wanted one a document, as `build` writes them")
    return found


def _writers(rows: Sequence[ObliqueRow]) -> list[str]:
    return sorted({row.generator for row in rows if row.generator is not None})


def _write(folder: Path, name: str, rows: Sequence[ObliqueRow]) -> Path:
    content = "".join(json.dumps(asdict(row), allow_nan=False) + "\n" for row in rows)
    path = folder / f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:8]}.jsonl"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_text(path, content)
    return path
