"""What two sources share, by hand and by an obvious oracle."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import Sides, stance_data, tangled, write_jsonl
from hypothesis import given, settings
from typer.testing import CliRunner

from dataset_builders.__main__ import app
from dataset_builders.stance.data import StanceData
from dataset_builders.stance.overlap import shared_arguments, shared_claims
from dataset_builders.stance.splits import near_duplicates
from dataset_builders.text import claim_key


def data(*claims: str) -> StanceData:
    sides: Sides = {c: {"support": [f"{c} So."], "attack": []} for c in claims}
    return stance_data(sides)


def test_equal_and_near_claims() -> None:
    ours = data("Cities should ban private cars.", "Tea helps.", "We should close all the harbors at night.")
    theirs = data("cities should ban  private cars", "Coal is dear.", "We should close all the harbors at night!!")
    found = shared_claims(ours, theirs)
    assert (found.total, found.equal) == (3, ("Cities should ban private cars.",))
    assert found.near == (("We should close all the harbors at night.", "We should close all the harbors at night!!"),)


def test_the_explicit_opening_does_not_part_two_arguments() -> None:
    ours = stance_data({"c": {"support": ["The claim is true because ships need the light."], "attack": ["No."]}})
    theirs = stance_data({"d": {"support": [], "attack": ["Ships need the light.", "Else."]}})
    found = shared_arguments(ours, theirs)
    assert (found.total, found.equal, found.near) == (2, ("ships need the light.",), ())


def test_near_duplicates_at_home_do_not_count() -> None:
    """One of two near twins is at the other source: the other twin is near to it, and a twin at home is nothing."""
    ours = data("We should close all the harbors at night.", "We should close all the harbors at night now.")
    assert shared_claims(ours, data("Tea helps.")).near == ()
    found = shared_claims(ours, data("We should close all the harbors at night"))
    assert found.equal == ("We should close all the harbors at night.",)
    assert found.near == (
        ("We should close all the harbors at night now.", "We should close all the harbors at night"),
    )


@settings(max_examples=25)
@given(tangled(), tangled())
def test_it_is_what_comparing_every_pair_finds(one: StanceData, other: StanceData) -> None:
    found = shared_claims(one, other)
    keys = {claim_key(c.claim) for c in other.claims}
    mine = {claim_key(c.claim) for c in one.claims}
    assert {claim_key(t) for t in found.equal} == mine & keys
    assert {claim_key(t) for t, _ in found.near} == {
        m for m in mine - keys if any(near_duplicates([m, k]) for k in keys)
    }


def test_the_command_prints_it(tmp_path: Path) -> None:
    row = {"claim": "Tea helps.", "support": ["It warms."], "attack": ["It tires."], "split": "test"}
    mine = write_jsonl(tmp_path / "mine.jsonl", [row])
    theirs = write_jsonl(tmp_path / "theirs.jsonl", [row, {**row, "claim": "Coal is dear.", "attack": ["No."]}])
    result = CliRunner().invoke(app, ["check", "mine", "--data", str(mine), "--against", f"other={theirs}"])
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.output.splitlines()]
    assert ["Shared", "with", "other"] in lines
    assert ["claims", "1", "1", "0"] in lines and ["arguments", "2", "2", "0"] in lines
    result = CliRunner().invoke(app, ["check", "mine", "--data", str(mine), "--against", "sampel"])
    assert result.exit_code == 1 and "Did you mean 'sample'?" in result.output


@pytest.mark.parametrize("given", ["", "="])
def test_an_empty_name_is_refused(given: str) -> None:
    result = CliRunner().invoke(app, ["check", "sample", "--against", given])
    assert result.exit_code == 1 and "got the source ''" in result.output
