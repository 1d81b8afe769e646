"""TFU's training arguments, rebuilt from triplets: what went in must come out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders import plain, stance_data

from dataset_builders import quality, sources
from dataset_builders.schema import CURRICULA
from dataset_builders.sources import tfu
from dataset_builders.stance import curricula
from dataset_builders.stance import quality as stance
from dataset_builders.stance.data import StanceData

FIND, AGAINST = "Retrieve arguments in favor of", "Retrieve arguments against"


def triplet(instruction: str = FIND, **texts: str) -> dict[str, str]:
    return {
        "instruction": instruction,
        "claim": "Tea helps.",
        "positive": "It warms.",
        "negative": "It tires.",
        **texts,
    }


def write(folder: Path, *files: list[dict[str, str]]) -> Path:
    """The three files; one that is not given is the one before it."""
    for name, rows in zip(tfu.FILES, [*files, *[files[-1]] * (3 - len(files))], strict=True):
        (folder / name).write_text(json.dumps(rows), encoding="utf-8")
    return folder


def as_published(data: StanceData, seed: int) -> list[list[dict[str, str]]]:
    """The curricula of our own engine in the paper's columns."""
    built = curricula.build(data, seed=seed)
    rows: list[list[dict[str, Any]]] = [
        [row for batch in built[name].batches() for row in batch.to_pylist()] for name in CURRICULA
    ]
    return [
        [
            {
                "instruction": row["instruction"],
                "claim": row["claim"],
                "positive": row["positive"],
                "negative": row["negatives"][0]["text"],
            }
            for row in curriculum
        ]
        for curriculum in rows
    ]


@pytest.mark.parametrize("seed", [0, 1])
def test_what_the_triplets_were_made_of_comes_back(tmp_path: Path, seed: int) -> None:
    data = plain(6)
    files = as_published(data, seed)
    back = sources.load("tfu", write(tmp_path, *files))
    assert [c.claim for c in back.claims] == [c.claim for c in data.claims]
    claim, text = {c.claim_id: c.claim for c in back.claims}, {a.argument_id: a.text for a in back.arguments}
    found = {(claim[r.claim_id], text[r.argument_id], r.stance) for r in back.relations}
    assert found == {(r.claim_id, r.argument_id, r.stance) for r in data.relations}
    assert {(c.split, c.licence, c.source) for c in back.claims} == {("train", "unknown", "tfu")}
    drawn = {row["negative"] for row in files[2]} & {i.inverted for i in data.inversions}
    assert len(drawn) > 20 and {i.inverted for i in back.inversions} == drawn
    of = {i.inverted: i for i in data.inversions}
    for inversion in back.inversions:
        wanted = of[inversion.inverted]
        assert (inversion.original, inversion.original_stance) == (wanted.original, wanted.original_stance)
        assert (inversion.claim, text[inversion.argument_id]) == (wanted.claim, wanted.original)
    assert back.counts == {}


def test_arguments_of_claims_that_are_not_public_are_counted(tmp_path: Path) -> None:
    """One-sided claims are no anchors; their arguments stand among the easy negatives alone."""
    homogeneous = [triplet(), triplet(AGAINST, positive="It tires.", negative="It warms.")]
    mixed = [homogeneous[0], triplet(AGAINST, positive="It tires.", negative="Coal is dear.")]
    data = sources.load("tfu", write(tmp_path, homogeneous, mixed))
    assert [(c.claim, len(data.arguments)) for c in data.claims] == [("Tea helps.", 2)]
    assert data.counts == {"negatives of claims that are not public, left out": 1}


def test_an_inversion_goes_to_the_argument_that_it_resembles(tmp_path: Path) -> None:
    homogeneous = [triplet(), triplet(positive="It has a fine taste."), triplet(positive="It is cheap to make.")]
    augmented = [
        homogeneous[0],
        triplet(positive="It is cheap to make.", negative="It has a bad taste."),
        homogeneous[2],
    ]
    (inversion,) = sources.load("tfu", write(tmp_path, homogeneous, homogeneous, augmented)).inversions
    assert (inversion.original, inversion.inverted) == ("It has a fine taste.", "It has a bad taste.")
    assert inversion.original_stance == "support" and inversion.generator == "gemini-3.5-flash"


def test_a_row_drawn_more_often_is_no_inversion(tmp_path: Path) -> None:
    rows = [triplet(), triplet(AGAINST, positive="It tires.", negative="It warms.")]
    data = sources.load("tfu", write(tmp_path, rows, rows, [rows[0], rows[0]]))
    assert data.inversions == []


def test_lines_are_read_like_an_array(tmp_path: Path) -> None:
    rows = [triplet(), triplet(claim="Tea is dear.")]
    whole = sources.load("tfu", write(tmp_path, rows))
    for name in tfu.FILES:
        (tmp_path / name).write_text("\n".join(json.dumps(row) for row in rows))
    assert sources.load("tfu", tmp_path) == whole


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            triplet("Retrieve argument against"),
            "homogeneous.json, row 2: got the instruction .*'Retrieve arguments agai",
        ),
        (triplet("Find statements rejecting"), "wanted one of the 20 seen ones"),
        (triplet(positive=""), "homogeneous.json, row 2: positive: the text is empty"),
        (
            {k: v for k, v in triplet().items() if k != "claim"},
            r"row 2: got the keys .*, wanted \('instruction'|row 2",
        ),
        ("x", "homogeneous.json, row 2: got a JSON str, wanted an object"),
    ],
)
def test_bad_rows_are_refused(tmp_path: Path, row: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sources.load("tfu", write(tmp_path, [triplet(), row], [triplet()]))


def test_files_of_two_releases_are_refused(tmp_path: Path) -> None:
    other = [triplet(claim="Coal is dear.")]
    with pytest.raises(ValueError, match=r"mixed_aug.json, row 1: homogeneous.json has no argument .*one release"):
        sources.load("tfu", write(tmp_path, [triplet()], [triplet()], other))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    write(tmp_path, [triplet()])
    (tmp_path / "mixed.json").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"\['mixed.json'\] not found; wanted the files of .*as9122/stance-tfu"
    ):
        sources.load("tfu", tmp_path)


PUBLISHED = """
tables:
  "1":
    columns:
      [claims, support, support_per_claim, support_min, support_max, attack, attack_per_claim, attack_min, attack_max]
    rows:
      tfu-training: [8, 20, 2.5, 0, 7, 24, 3.0, 1, 6]
"""


def test_the_gap_to_table_1_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stance.yaml").write_text(PUBLISHED)
    monkeypatch.setattr(stance, "_PUBLISHED", tmp_path / "stance.yaml")
    lines = quality.check("tfu", write(tmp_path, *as_published(plain(6), 0))).lines()
    table = [line.split() for line in lines[1:5]]
    assert table[1] == ["train", "6", "18", "3.00", "(3-3)", "18", "3.00", "(3-3)"]
    assert table[2] == ["S:", "tfu-training", "8", "20", "2.50", "(0-7)", "24", "3.00", "(1-6)"]
    assert table[3] == ["ours", "-", "S", "-2", "-2", "-6"]
    mine = stance.measure(stance_data({"c": {"support": ["a"], "attack": ["b"]}})).tables["Stance data (S table 1)"]
    assert len(mine) == 2, "data that the paper does not have stands alone"
    monkeypatch.setattr(stance, "_PUBLISHED", tmp_path / "absent.yaml")
    assert not any(line.startswith("S:") for line in quality.check("tfu", tmp_path).lines())
