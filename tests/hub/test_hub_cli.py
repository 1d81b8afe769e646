"""The ``hf`` command against the loopback Hub."""

from __future__ import annotations

from pathlib import Path

from tests.hub.accounts import TOKENS
from tests.hub.clients import TestHub


def test_upload_tag_download_and_delete(loopback_hub: TestHub, tmp_path: Path) -> None:
    hub, home = loopback_hub, tmp_path / "home"
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "README.md").write_text("---\nlicense: mit\n---\n# By hand\n")
    (tmp_path / "folder" / "part.parquet").write_bytes(b"PAR1\0")
    assert "ada" in hub.run(["hf", "auth", "whoami"], home=home).stdout
    hub.run(["hf", "repos", "create", "org/cli", "--type", "dataset"], home=home)
    hub.run(["hf", "upload", "org/cli", str(tmp_path / "folder"), "--type", "dataset"], home=home)
    assert hub.files("dataset", "org/cli")["part.parquet"] == b"PAR1\0"
    hub.run(["hf", "repos", "tag", "create", "org/cli", "v1", "--type", "dataset"], home=home)
    assert list(hub.repo("dataset", "org/cli").tags) == ["v1"]
    done = hub.run(
        ["hf", "download", "org/cli", "part.parquet", "--type", "dataset", "--revision", "v1", "--quiet"], token=None
    )
    assert Path(done.stdout.strip()).read_bytes() == b"PAR1\0"
    hub.run(["hf", "repos", "delete", "org/cli", "--type", "dataset", "--yes"], home=home)
    assert not hub.store.repos


def test_a_wrong_token_is_refused_by_name(loopback_hub: TestHub) -> None:
    done = loopback_hub.run(["hf", "auth", "whoami"], token=TOKENS.bad, check=False)
    assert done.returncode != 0
    assert "HF_TOKEN" in done.stdout + done.stderr and TOKENS.bad not in done.stdout + done.stderr
