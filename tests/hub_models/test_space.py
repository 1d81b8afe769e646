"""Pushing a Space: it stands alone, with the package in it and the released model as its default."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from hub_models.cards import BEGIN, END
from hub_models.space import _OF_THE_HUB
from tests.hub.clients import TestHub
from tests.hub_models.releaser import Releaser

README = """---
title: Search
sdk: gradio
models: [x-lora]
datasets: [x-stance-arguments]
---
# Search
"""


@pytest.fixture(scope="module")
def spaces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout") / "spaces"
    (folder / "search" / "__pycache__").mkdir(parents=True)
    (folder / "search" / "__pycache__" / "app.pyc").write_bytes(b"\0")
    (folder / "search" / "app.py").write_text("import gradio\n")
    (folder / "search" / "old.py").write_text("\n")
    (folder / "search" / "README.md").write_text(README)
    (folder / "search" / "requirements.txt").write_text("gradio>=6.31,<7\n")
    (folder / "half").mkdir()
    (folder / "half" / "app.py").write_text("\n")
    return folder


@pytest.fixture(scope="module")
def releaser(spaces: Path) -> Iterator[Releaser]:
    with TestHub() as hub:
        with Releaser(hub, {"TEST_SPACES": str(spaces)}) as made:
            yield made
        assert not hub.errors, hub.errors


def test_a_space_stands_alone_and_is_pushed_once(releaser: Releaser, spaces: Path) -> None:
    hub = releaser.hub
    none_yet = releaser.run("release-space", "search", "--org", "org")
    assert none_yet.code == 1 and "names the model org/x-lora, which is not on the Hub; release it" in none_yet.output
    head = hub.put("model", "org/x-lora", {"slant.json": b"{}"})
    hub.repo("model", "org/x-lora").tags["v1.0.0"] = head.oid
    hub.put("dataset", "org/x-stance-arguments", {"build.json": b"{}"})

    dry = releaser.run("release-space", "search", "--org", "org", "--dry-run")
    assert dry.code == 0 and "in a new repository" in dry.output and ("space", "org/search") not in hub.store.repos
    done = releaser.run("release-space", "search", "--org", "org")
    assert done.code == 0, done.output
    repo, files = hub.repo("space", "org/search"), hub.files("space", "org/search")
    assert repo.sdk == "gradio" and len(repo.commits) == 2
    (wheel,) = [name for name in files if name.endswith(".whl")]
    assert files.keys() == {"app.py", "old.py", "README.md", "requirements.txt", "release.json", wheel}
    digest = hashlib.sha256(files[wheel]).hexdigest()
    address = f"{hub.endpoint}/spaces/org/search/resolve/main/{wheel}#sha256={digest}"
    assert files["requirements.txt"].decode() == f"gradio>=6.31,<7\nslant @ {address}\n"
    assert "hub_models/recipes/stance-minilm.yaml" in zipfile.ZipFile(io.BytesIO(files[wheel])).namelist()
    default = json.loads(files["release.json"])
    assert (default["model"], default["revision"]) == ("org/x-lora", "v1.0.0")
    head_of_card = yaml.safe_load(files["README.md"].decode().split("---\n")[1])
    assert head_of_card["models"] == ["org/x-lora"] and head_of_card["datasets"] == ["org/x-stance-arguments"]

    # A file that is gone goes, one by hand stays.
    hub.put("space", "org/search", {"notes.txt": b"mine"})
    (spaces / "search" / "old.py").unlink()
    done = releaser.run("release-space", "search", "--org", "org")
    assert done.code == 0 and len(repo.commits) == 4, done.output
    assert "old.py" not in (found := hub.files("space", "org/search")) and "notes.txt" in found
    again = releaser.run("release-space", "search", "--org", "org")
    assert again.code == 0 and "up to date" in again.output and len(repo.commits) == 4, again.output


def test_what_people_wrote_into_the_readme_on_the_hub_stays(releaser: Releaser, spaces: Path) -> None:
    """Case 3: text around the generated part and metadata stay; what the Space runs by, and the rest, is renewed."""
    hub, at = releaser.hub, "org/cased"
    hub.put("model", "org/x-lora", {"slant.json": b"{}"})
    hub.put("dataset", "org/x-stance-arguments", {"build.json": b"{}"})
    shutil.copytree(spaces / "search", spaces / "cased")

    def release(code: int = 0) -> tuple[str, dict[str, object], str]:
        done = releaser.run("release-space", "cased", "--org", "org")
        assert done.code == code, done.output
        _, head, body = hub.files("space", at)["README.md"].decode().split("---\n", 2)
        return done.output, yaml.safe_load(head), body

    of_the_hub = f"---\ntitle: Cased\nsdk: gradio\n---\n\n{_OF_THE_HUB}\n"
    hub.put("space", at, {"README.md": of_the_hub.encode()})
    _, head, body = release()
    assert (head["title"], body) == ("Search", f"\n{BEGIN}\n\n# Search\n\n{END}\n"), "nobody wrote what the Hub wrote"

    by_hand = {**head, "title": "By hand", "pinned": True, "sdk": "static", "models": ["other/one"]}
    written = f"---\n{yaml.safe_dump(by_hand)}---\nAbove.\n{body.replace('# Search', '# Changed')}\nBelow.\n"
    hub.put("space", at, {"README.md": written.encode()})
    _, head, merged = release()
    assert (head["title"], head["pinned"]) == ("By hand", True)
    assert (head["sdk"], head["models"]) == ("gradio", ["org/x-lora"])
    assert merged == f"Above.\n{body}\nBelow.\n"
    assert "up to date" in release()[0]

    hub.put("space", at, {"README.md": written.replace(END, "").encode()})
    said, _, _ = release(code=1)
    assert "org/cased/README.md: wanted one line" in said and "restore or remove both" in said
    shutil.rmtree(spaces / "cased")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("seach", "got the Space 'seach', but spaces/ holds ['half', 'search']; wanted a folder there"),
        ("half", "spaces/half lacks README.md, requirements.txt; add what is missing"),
    ],
)
def test_a_space_that_is_not_there_is_told(releaser: Releaser, name: str, said: str) -> None:
    done = releaser.run("release-space", name, "--org", "org")
    assert done.code == 1 and said in done.output and "Traceback" not in done.output


def test_a_readme_without_a_model_is_refused(releaser: Releaser, spaces: Path) -> None:
    shutil.copytree(spaces / "search", spaces / "bare")
    (spaces / "bare" / "README.md").write_text("---\nsdk: gradio\n---\n")
    done = releaser.run("release-space", "bare", "--org", "org")
    shutil.rmtree(spaces / "bare")
    assert done.code == 1 and "names no `models` or no `sdk` in its metadata" in done.output
