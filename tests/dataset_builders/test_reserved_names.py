"""Whose text a published name may stand for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dataset_builders import builds, sources
from dataset_builders.publish import RESERVED, publish
from dataset_builders.sources import perspectrum, public_json, tfu
from tests.dataset_builders.publisher import claims

OWN = {
    "perspectrum": [perspectrum.CLAIMS],
    "kpa": ["kpm_data/arguments_train.csv"],
    "tfu": list(tfu.FILES),
    **{name: [file] for name, file in public_json.FILES.items()},
}
"""What of its upstream's files makes a folder that source's own."""


class Passed(Exception):
    """The names were not refused, and the next step was taken."""


@pytest.fixture(autouse=True)
def nothing_after_the_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def passed(*_: object) -> None:
        raise Passed

    monkeypatch.setattr("dataset_builders.publish.check_name", lambda _: None)
    monkeypatch.setattr("dataset_builders.publish.look", passed)


def attempt(name: str, source: Path | None) -> None:
    publish(f"{name}-stance-arguments", "org", source=source, dry_run=True)


def test_every_source_says_what_its_own_files_are() -> None:
    assert set(RESERVED) == set(sources.SOURCES) == {"sample", *OWN}


@pytest.mark.parametrize("name", sorted(OWN))
def test_a_sources_name_takes_its_own_text_alone(tmp_path: Path, name: str) -> None:
    own_folder = tmp_path / "own"
    for file in OWN[name]:
        (own_folder / file).parent.mkdir(parents=True, exist_ok=True)
        (own_folder / file).write_text("{}")
    one_file = [own_folder / file for file in OWN[name] if name in public_json.FILES]
    for own in (own_folder, None, *one_file):
        with pytest.raises(Passed):
            attempt(name, own)
    mine = claims(tmp_path / "mine.jsonl")
    folder = tmp_path / "folder"
    folder.mkdir()
    shutil.copy(mine, folder)
    shutil.copy(mine, tmp_path / "mine.json")
    others = [mine, folder, tmp_path / "mine.json", tmp_path / "absent", Path("someone/else@v1")]
    for source in others:
        with pytest.raises(ValueError, match=rf"{name}-\* is for {name}'s own files, which .* is not"):
            attempt(name, source)
    for other in OWN.keys() - {name}:
        if not set(OWN[other]) <= set(OWN[name]):
            with pytest.raises(ValueError, match="own files, which own is not"):
                attempt(other, own_folder)


@pytest.mark.parametrize("name", ["tfu", *public_json.FILES])
def test_its_own_repository_on_the_hub_is_its_own_text(name: str) -> None:
    repo = tfu.REPO if name == "tfu" else public_json.REPO
    with pytest.raises(Passed):
        attempt(name, Path(f"{repo}@main"))
    other = public_json.REPO if name == "tfu" else tfu.REPO
    with pytest.raises(ValueError, match="own files, which"):
        attempt(name, Path(f"{other}@main"))


@pytest.mark.parametrize("name", [f"{name}{mark}two" for name in sources.SOURCES for mark in "-._"])
def test_names_that_look_like_a_sources_own_are_nobodys(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=rf"got the source name '{name}', but .*-\* is for .*'s own text"):
        attempt(name, claims(tmp_path / "mine.jsonl"))


@pytest.mark.parametrize("name", ["mine", "kpax", "sampled", "my-kpa"])
def test_other_names_are_free(tmp_path: Path, name: str) -> None:
    assert builds.parse(f"{name}-stance-arguments")[0] == name
    with pytest.raises(Passed):
        attempt(name, claims(tmp_path / "mine.jsonl"))
