"""The `data:` of a recipe as training rows: columns by name, doses, hashes, faults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from datasets import Dataset

from dataset_builders.schema import TRIPLETS
from hub_models import training_data
from tests.tiny import tiny
from tests.training_runs import CLAIMS, recipe, triplets

CASES = Path(__file__).parent.parent / "cases"


def test_columns_are_made_by_name_case_18(tmp_path: Path) -> None:
    path = CASES / "case18_column_order.jsonl"
    rows = training_data.read(tiny("stance-bge-large", f"data={path}"))
    columns = rows.columns("{instruction}: {claim}", 1)
    assert columns.column_names == ["anchor", "positive", "negative_1"]
    assert columns[0] == {
        "anchor": "Find evidence backing: Guns should be banned.",
        "positive": "It saves lives.",
        "negative_1": "Criminals would keep theirs.",
    }
    unknown = tmp_path / "unknown.jsonl"
    unknown.write_text(path.read_text().replace('"claim"', '"anchor"'))
    with pytest.raises(ValueError, match="anchor"):
        training_data.read(tiny("stance-bge-large", f"data={unknown}"))


def test_an_id_of_the_hub_that_stands_for_two_texts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 6, at the one reader of triplets that does not read their files itself."""
    row = {name: "x" for name in TRIPLETS} | {"stance": "attack", "negatives": []}
    rows = Dataset.from_list([row, {**row, "positive": "y"}], features=TRIPLETS)
    monkeypatch.setattr(training_data, "load_dataset", lambda *_, **__: rows)
    entry = f"data=[{{repo: org/x-stance-triplets, revision: {'a' * 40}}}]"
    with pytest.raises(
        ValueError, match="data org/x-stance-triplets: positive_id 'x' stands for two texts, 'x' and 'y'"
    ):
        training_data.read(tiny("stance-bge-large", entry))


def test_too_few_negatives_are_refused(tmp_path: Path) -> None:
    rows = training_data.read(recipe(tmp_path))
    with pytest.raises(ValueError, match=r"48 of 48 rows have fewer than negatives_per_anchor = 2 .* row 0 with 1"):
        rows.columns("{instruction} {claim}", 2)


def test_a_dose_is_a_seeded_draw(tmp_path: Path) -> None:
    def drawn(*overrides: str) -> list[str]:
        rows = training_data.read(recipe(tmp_path, "data.0.dose=10", *overrides))
        assert rows.parts[0].rows == 10
        return list(rows.triplets["positive"][:])

    assert drawn() == drawn() != drawn("seed=1")
    everything = training_data.read(recipe(tmp_path)).triplets["positive"][:]
    assert set(drawn()) < set(everything)
    with pytest.raises(ValueError, match="got 48 rows, the recipe's dose is 49"):
        training_data.read(recipe(tmp_path, "data.0.dose=49"))


def test_rows_are_pinned_by_hash(tmp_path: Path) -> None:
    digest = training_data.read(recipe(tmp_path)).parts[0].sha256
    assert training_data.read(recipe(tmp_path, f"data.0.sha256={digest}")).parts[0].sha256 == digest
    with pytest.raises(ValueError, match=f"SHA-256 {digest}, the recipe pins {'0' * 64}"):
        training_data.read(recipe(tmp_path, f"data.0.sha256='{'0' * 64}'"))


def test_claims_in_short_form_are_made_into_triplets(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    sides = {
        "support": [f"It helps in {n} ways" for n in ["one", "two", "three"]],
        "attack": [f"It costs {n} times more" for n in ["four", "five", "six"]],
    }
    rows = [
        {"claim": c, "split": "train", **{s: [f"{t}: {c}" for t in texts] for s, texts in sides.items()}}
        for c in CLAIMS
    ]
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    read = training_data.read(tiny("stance-bge-large", f"data={path}"))
    assert read.parts[0].config == "mixed"  # there are no inversions
    assert len(read.triplets) == 4 * 20 * 6
    with pytest.raises(ValueError, match=r"wanted .'mixd', 'train'.*Did you mean 'mixed'"):
        training_data.read(tiny("stance-bge-large", f"data={path}", "data.0.config=mixd"))


def test_absent_data_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    triplets(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no such file or folder. Did you mean 'triplets.jsonl'"):
        training_data.read(tiny("stance-bge-large", f"data={tmp_path / 'triplet.jsonl'}"))


def test_a_mode_that_does_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="got mode 'replace'; triplets can only be blended"):
        training_data.read(recipe(tmp_path, "data.0.mode=replace"))
