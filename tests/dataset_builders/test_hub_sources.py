"""Sources that come from the Hub: at a commit, from the cache, and recorded."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_public_json import page
from test_tfu import triplet, write
from typer.testing import CliRunner

from dataset_builders import sources
from dataset_builders.__main__ import app
from dataset_builders.sources import hub, public_json, tfu
from hub_models.evaluation.named_tasks import load_tasks

SHA = "0123456789abcdef0123456789abcdef01234567"


def cached(repo: str) -> Iterator[Path]:
    """The snapshot folder of a data set that the Hub's cache holds, its ``main`` at `SHA`."""
    from huggingface_hub import constants

    root = Path(constants.HF_HUB_CACHE) / f"datasets--{repo.replace('/', '--')}"
    (root / "refs").mkdir(parents=True)
    (root / "refs" / "main").write_text(SHA)
    folder = root / "snapshots" / SHA
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(root)


@pytest.fixture
def corpora() -> Iterator[Path]:
    for folder in cached(public_json.REPO):
        (folder / "argtumour.json").write_text(json.dumps(page()))
        yield folder


@pytest.fixture
def training() -> Iterator[Path]:
    for folder in cached(tfu.REPO):
        yield write(folder, [triplet()])


def test_without_a_pinned_commit_the_log_says_which_was_taken(corpora: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        data = sources.load("argtumour")
    assert data.revision == f"as9122/stance-evaluation-corpora@{SHA}" and len(data.claims) == 3
    assert data.restrict({"test"}).revision == data.revision
    assert f"no commit is pinned; main is {SHA}, and --data {data.revision} takes the same again" in caplog.text
    caplog.clear()
    assert sources.load("argtumour", Path(data.revision)) == data
    assert caplog.text == ""


def test_a_copy_under_another_id_serves(training: Path) -> None:
    for folder in cached("someone/copy"):
        shutil.copytree(training, folder, dirs_exist_ok=True)
        data = sources.load("tfu", Path("someone/copy@main"))
        assert data.revision == f"someone/copy@{SHA}"
        assert data.claims == sources.load("tfu").claims


def test_what_is_in_the_cache_is_at_hand(corpora: Path) -> None:
    assert sources.at_hand() == ["sample", "argtumour"]
    (corpora / "argtumour.json").rename(corpora / "averitec.json")
    assert sources.at_hand() == ["sample", "averitec"]
    assert list(load_tasks(["stance"], None, "test")) == ["sample-stance", "averitec-stance"]


def test_the_commit_is_in_the_manifest(corpora: Path, tmp_path: Path) -> None:
    out = tmp_path / "argtumour-stance-arguments"
    result = CliRunner().invoke(app, ["build", out.name, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert json.loads((out / "build.json").read_text())["revision"] == f"{public_json.REPO}@{SHA}"


@pytest.mark.parametrize("name", ["tfu", *public_json.FILES])
def test_offline_and_without_a_cache_it_says_what_to_do(name: str) -> None:
    with pytest.raises(FileNotFoundError, match=r"data set as9122/stance-\S+ at main cannot be had .*--data FOLDER"):
        sources.load(name)


def test_a_file_that_the_data_set_lacks_is_missed(corpora: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"averitec.json.* is not in as9122/stance-evaluation-corpora"):
        sources.load("averitec")


def test_a_path_is_no_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hub.parse(Path("org/name@v1.0")) == ("org/name", "v1.0")
    assert hub.parse(Path("org/name@refs/pr/1")) == ("org/name", "refs/pr/1")
    for path in ("org/name", "a/b/c@d", "/org/name@d", "name@d"):
        assert hub.parse(Path(path)) is None
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "mine@2").mkdir(parents=True)
    assert hub.parse(Path("data/mine@2")) is None
