"""Which rows the two lenses are held against each other with, and what is refused before anything is trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dataset_builders import builds
from dataset_builders.oblique.attributes import LENS_OF
from dataset_builders.oblique.read import read_oblique_rows
from hub_models.__main__ import app
from hub_models.evaluation import study_obliq
from hub_models.evaluation.study_obliq_grid import GENERIC, MATCHED, Grid, Plan
from hub_models.evaluation.study_obliq_lenses import Lenses, read_lenses
from hub_models.evaluation.study_obliq_results import LensRows


def row(task: Any, document: str, lens: str | None = None, **changes: Any) -> dict[str, Any]:
    found = {
        "task": task, "lens": lens or LENS_OF[task], "instruction": "Find it.", "query": f"{lens} asks for {document}",
        "positive_id": document, "positive": f"{task} {document}",
        "negatives": [{"id": "n", "text": "another", "kind": "bm25"}], "generator": "tiny",
    }  # fmt: skip
    return found | changes


def written(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    return path


def test_both_sides_have_the_documents_that_both_wrote_about(tmp_path: Path) -> None:
    generic = [row(task, i, "generic") for task, i in (("math", "1"), ("math", "2"), ("writing", "3"), ("math", "3"))]
    matched = [row("math", "3"), row("twitter", "1"), row("writing", "4"), row("math", "1"), row("congress", "5")]
    held = read_lenses(written(tmp_path / "g.jsonl", *generic), written(tmp_path / "m.jsonl", *matched))
    for rows, lens in ((held.matched, "analogue"), (held.generic, "generic")):
        assert [(r.task, r.positive_id, r.lens) for r in rows] == [("math", "3", lens), ("math", "1", lens)]
    assert [r.query for r in held.generic] == ["generic asks for 3", "generic asks for 1"]
    assert held.facts == LensRows(
        rows={"math": 2}, matched_left_out=3, generic_left_out=2, matched_by=["tiny"], generic_by=["tiny"],
        authored=False,
    )  # fmt: skip
    files = held.write(tmp_path / "data")
    assert read_oblique_rows(files[MATCHED]) == held.matched and read_oblique_rows(files[GENERIC]) == held.generic
    assert held.write(tmp_path / "data") == files
    fewer = Lenses(held.matched[:1], held.generic[:1], held.facts).write(tmp_path / "data")
    assert not set(fewer.values()) & set(files.values())  # other rows do not pass for these when a study goes on


def test_without_matched_rows_the_authored_ones_of_the_sample_stand_there(tmp_path: Path) -> None:
    builds.prepare("sample-obliq-queries").write(tmp_path / "sample")
    built = read_oblique_rows(tmp_path / "sample")
    two = [built[0], built[-1]]
    texts = [row(r.task, r.positive_id, "generic", positive=r.positive) for r in reversed(two)]
    held = read_lenses(written(tmp_path / "g.jsonl", *texts, row("math", "x", "generic")), None)
    assert held.matched == two and [r.positive_id for r in held.generic] == [r.positive_id for r in two]
    facts = held.facts
    assert (facts.authored, facts.matched_by, facts.generic_by) == (True, ["authored"], ["tiny"])
    assert (facts.matched_left_out, facts.generic_left_out) == (len(built) - 2, 1) and sum(facts.rows.values()) == 2


@pytest.mark.parametrize(
    ("generic", "matched", "words"),
    [
        (
            [row("math", "1"), row("math", "2", "generic")],
            [row("math", "1")],
            "g.jsonl: got 1 of 2 rows through other lenses, such as 'analogue', wanted 'generic' alone; build them",
        ),
        (
            [row("math", "1", "generic")],
            [row("math", "1", "generic"), row("math", "2")],
            "m.jsonl: got 1 of 2 rows through another lens than their task's own, such as 'generic' for 'math'; build",
        ),
        (
            [row("math", "1", "generic")],
            [row("math", "1", "tip_of_tongue")],
            "such as 'tip_of_tongue' for 'math'",
        ),
        (
            [row("math", "1", "generic")],
            [row("writing", "1")],
            "got no document, by task and id, that is both in --generic",
        ),
        (
            [row("math", "1", "generic")],
            [row("math", "1", positive="an edited text")],
            "got 1 of 1 documents, such as ('math', '1'), whose text differs between --generic",
        ),
        (
            [row("math", "1", "generic"), row("math", "1", "generic", query="again")],
            [row("math", "1")],
            "g.jsonl: got 2 rows of ('math', '1'), wanted one a document",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(
    tmp_path: Path, generic: list[dict[str, Any]], matched: list[dict[str, Any]], words: str
) -> None:
    files = written(tmp_path / "g.jsonl", *generic), written(tmp_path / "m.jsonl", *matched)
    with pytest.raises(ValueError) as told:
        read_lenses(*files)
    assert words in str(told.value)


def test_rows_of_no_document_of_the_sample_need_matched_ones(tmp_path: Path) -> None:
    generic = written(tmp_path / "g.jsonl", row("math", "mine", "generic"))
    with pytest.raises(ValueError, match=r"and in the sample's authored rows .* build both from one source"):
        read_lenses(generic, None)
    with pytest.raises(FileNotFoundError, match=r"absent\.jsonl"):
        read_lenses(generic, tmp_path / "absent.jsonl")


def test_the_command_refuses_before_it_makes_anything(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.jsonl", row("math", "1"))
    for option, words in (
        ("--matched", "got --matched without --generic, wanted both"),
        ("--generic", "other lenses"),
    ):
        done = CliRunner().invoke(app, ["study", "obliq", "--out", str(tmp_path / "out"), option, str(path)])
        assert done.exit_code == 1 and words in " ".join(done.output.split())
        assert not (tmp_path / "out").exists()


def test_the_command_trains_on_what_was_cut_and_reports_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the trainings and the second specialist, which are other tests'."""
    seen: dict[str, Any] = {}

    def cells(grid: Grid, wanted: list[Plan], *_: Any) -> list[Any]:
        seen.update(grid=grid, wanted=[plan.name for plan in wanted])
        return []

    def run_study(*_: Any, **known: Any) -> list[Path]:
        seen.update(known)
        return []

    for name, stub in (("cells", cells), ("run_study", run_study)):
        monkeypatch.setattr(study_obliq, name, stub)
    monkeypatch.setattr(study_obliq, "vectors_of", lambda *_: tmp_path / "vectors.npy")
    monkeypatch.setattr(study_obliq, "_specialists", lambda *_: ([], []))
    files = [
        written(tmp_path / "g.jsonl", row("math", "1", "generic"), row("math", "2", "generic")),
        written(tmp_path / "m.jsonl", row("math", "2")),
    ]
    asked = ["study", "obliq", "--out", str(tmp_path / "out"), "--generic", str(files[0]), "--matched", str(files[1])]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert seen["wanted"][-2:] == [MATCHED, GENERIC] and seen["left_to_say"] == []
    for name in (MATCHED, GENERIC):
        assert [r.positive_id for r in read_oblique_rows(seen["grid"].lenses[name])] == ["2"]
    assert (seen["lenses"].matched_left_out, seen["lenses"].generic_left_out) == (0, 1)
    assert CliRunner().invoke(app, asked[:4]).exit_code == 0
    assert MATCHED not in seen["wanted"] and seen["lenses"] is None and "--matched" in seen["left_to_say"][0]
