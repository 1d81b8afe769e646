"""The published cells stand in the papers' text."""

from __future__ import annotations

from pathlib import Path

from hub_models.evaluation.oblique_metrics import METRICS
from hub_models.evaluation.published import oblique_tables


def _written(value: float) -> list[str]:
    """Three decimals without the zero; a whole percentage may also stand as such, and 1 as it is in the table."""
    forms = [f"{value:.3f}".removeprefix("0")]
    whole = abs(value * 100 - round(value * 100)) < 1e-9
    return [*forms, f"{value * 100:.0f}%"] + (["1.00"] if value == 1 else []) if whole else forms


def test_every_cell_stands_in_the_words_it_was_read_from_and_those_in_the_paper(external: Path) -> None:
    paper = (external.parent / "papers" / "obliq-ir.md").read_text(encoding="utf-8")
    for task, table in oblique_tables().items():
        for row in table.rows:
            for words in row.text:
                assert words in paper, (task, row.pipeline, words)
            together = " ".join(row.text)
            for metric, value in row.cells.items():
                assert any(form in together for form in _written(value)), (task, row.pipeline, metric)


def test_the_rows_of_a_whole_table_are_its_cells_in_order() -> None:
    """A line of tables 3 and 4 is the name and five numbers: none left out, none swapped."""
    tables = oblique_tables()
    columns = [f"{m}_gold" for m in ("ndcg_at_10", "ndcg_at_50", "recall_at_10", "recall_at_50", "recall_at_100")]
    for task in ("writing", "congress"):
        for row in tables[task].rows:
            numbers = [f"{row.cells[c]:.3f}".removeprefix("0") for c in columns]
            line = "".join(numbers).replace("1.000", " 1.00")
            assert row.text[0].endswith(line), (task, row.pipeline)


def test_the_file_names_metrics_and_tables_that_there_are() -> None:
    tables = oblique_tables()
    assert {task: table.table for task, table in tables.items()} == {
        "twitter": "1", "math": "2", "writing": "3", "congress": "4", "wildchat": "L.1",
    }  # fmt: skip
    cells = [cell for table in tables.values() for row in table.rows for cell in row.cells]
    assert set(cells) <= set(METRICS)
    assert all(bool(row.cells) == bool(row.text) for table in tables.values() for row in table.rows)


def test_without_the_file_there_is_nothing(tmp_path: Path) -> None:
    assert oblique_tables(tmp_path / "absent.yaml") == {}
