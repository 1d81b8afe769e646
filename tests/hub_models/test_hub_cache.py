from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hub_models import hub_cache


def test_an_installed_snapshot_resolves_by_its_id_and_by_its_revision(tmp_path: Path) -> None:
    from huggingface_hub import hf_hub_download

    (tmp_path / "config.json").write_text('{"hidden_size": 8}')
    sha = "0123456789abcdef" * 2 + "01234567"
    snapshot = hub_cache.install_snapshot("made-up/model", sha, tmp_path)
    assert Path(hf_hub_download("made-up/model", "config.json")) == snapshot / "config.json"
    assert Path(hf_hub_download("made-up/model", "config.json", revision=sha)) == snapshot / "config.json"


def test_installing_again_leaves_the_snapshot_alone(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("first")
    sha = "a" * 40
    hub_cache.install_snapshot("made-up/twice", sha, tmp_path)
    (tmp_path / "config.json").write_text("second")
    assert (hub_cache.install_snapshot("made-up/twice", sha, tmp_path) / "config.json").read_text() == "first"


def test_a_revision_that_is_no_commit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="wanted a commit sha of 40 hexadecimal digits"):
        hub_cache.install_snapshot("made-up/model", "main", tmp_path)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"neither modules\.json nor config\.json"):
        hub_cache.install_snapshot("made-up/model", "b" * 40, tmp_path)


def test_weights_other_than_the_official_ones_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_: None)
    monkeypatch.setattr(hub_cache, "_SAMPLE_SHA256", "0" * 64)
    with pytest.raises(RuntimeError, match=r"model\.safetensors has SHA-256 53aa51172d"):
        hub_cache.ensure_base(hub_cache.SAMPLE_BASE)


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, hub_cache.PROJECT_CACHE / "hub"),
        ({"HF_HOME": "/mine"}, Path("/mine/hub")),
        ({"HF_HUB_CACHE": "/mine/cache"}, Path("/mine/cache")),
    ],
)
def test_the_users_own_cache_wins(variables: dict[str, str], wanted: Path) -> None:
    program = (
        "from hub_models.hub_cache import use_project_cache; use_project_cache();"
        "from huggingface_hub import constants; print(constants.HF_HUB_CACHE)"
    )
    environment = {"PATH": "", "PYTHONPATH": str(Path(hub_cache.__file__).parent.parent), **variables}
    out = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert Path(out.stdout.strip()) == wanted
