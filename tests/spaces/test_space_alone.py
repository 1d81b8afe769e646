"""The Space as the Hub would start it: the pushed files alone, in an environment made of its own requirements."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from gradio_client import Client

from tests.hub.clients import TestHub
from tests.hub_models.evaluation.helpers import write_run

ROOT = Path(__file__).parents[2]
NAME = "stance_and_oblique_search"


def _files(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def _release_tiny(hub: TestHub, folder: Path) -> None:
    """A tiny adapter under the name that the Space opens with, and its base, on the Hub."""
    from huggingface_hub import snapshot_download

    run = write_run(folder, strength=0.2)
    manifest = json.loads((run / "slant.json").read_text())
    base = Path(snapshot_download(manifest["base"], revision=manifest["base_revision"], local_files_only=True))
    manifest["base_revision"] = hub.put("model", manifest["base"], _files(base)).oid
    (run / "slant.json").write_text(json.dumps(manifest))
    head = hub.put("model", "org/stance-minilm-lora", _files(run))
    hub.repo("model", "org/stance-minilm-lora").tags["v1.0.0"] = head.oid
    hub.put("dataset", "org/sample-stance-arguments", {"build.json": b"{}"})


@pytest.mark.slow
def test_it_starts_from_what_was_pushed_and_answers(tmp_path: Path) -> None:
    with TestHub() as hub:
        _release_tiny(hub, tmp_path / "run")
        hub.run(["python", "-m", "hub_models", "release-space", NAME, "--org", "org"], cwd=ROOT)
        app = tmp_path / "app"
        for path, content in hub.files("space", f"org/{NAME}").items():
            (app / path).parent.mkdir(parents=True, exist_ok=True)
            (app / path).write_bytes(content)

        venv = tmp_path / "venv"
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        # What the Hub has at hand when it builds: the requirements, and nothing of the repository.
        pins = (ROOT / "constraints.txt").read_text().splitlines(keepends=True)
        # gradio's extra `mcp`, which the Hub adds, holds pydantic below the pin.
        pins = [pin for pin in pins if not pin.startswith(("pydantic==", "pydantic_core=="))]
        (tmp_path / "constraints.txt").write_text("".join(pins))
        version = yaml.safe_load((app / "README.md").read_text(encoding="utf-8").split("---")[1])["sdk_version"]
        added = [f"gradio[oauth,mcp]=={version}", "spaces"]
        install = [str(venv / "bin" / "pip"), "install", "-q", "-c", str(tmp_path / "constraints.txt")]
        # With the repository on PYTHONPATH the package would count as installed.
        away = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        asked = [*install, "-r", str(app / "requirements.txt"), *added]
        done = subprocess.run(asked, cwd=tmp_path, env=away, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]

        bare = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "PYTHONUNBUFFERED": "1"}
        as_a_space = {"SYSTEM": "spaces", "SPACE_ID": f"org/{NAME}", "GRADIO_SERVER_NAME": "127.0.0.1"}
        told = {name: value for name, value in hub.environment(token=None).items() if name.startswith(("HF_", "NO_"))}
        process = subprocess.Popen(
            [str(venv / "bin" / "python"), "app.py"],
            cwd=app,
            env=bare | told | as_a_space | {"GRADIO_ANALYTICS_ENABLED": "0", "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        said = []
        try:
            assert process.stdout is not None
            for line in process.stdout:
                said.append(line)
                if "Running on local URL" in line:
                    break
            else:
                pytest.fail("".join(said)[-3000:])
            client = Client(line.split()[-1], verbose=False)
            rows = client.predict("Schools should require uniforms.", stance="attack", k=3, api_name="/stance_search")
        finally:
            process.kill()
            process.wait()
    assert [row["rank"] for row in rows] == [1, 2, 3]
    assert all(row["text"] for row in rows)
