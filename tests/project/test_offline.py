"""With HF_HUB_OFFLINE=1 and no way out, each command works or says at once why not."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from dataset_builders.__main__ import app as builders
from hub_models.__main__ import app as models
from tests.hub_models.releaser import make_run

NEEDS_THE_HUB = {
    "publish": ["sample-stance-triplets", "--org", "org"],
    "release": ["{run}", "--org", "org"],
    "verify": ["org/x-lora"],
    "release-space": ["search", "--org", "org"],
    "release-all": ["--org", "org", "--run", "{run}", "--push"],
}
WORKS = {
    "list": [],
    "build": ["my-stance-arguments", "--source", "{claims}", "--out", "{out}/data"],
    "plan": ["stance-minilm"],
    "card": ["{run}"],
    "encode": ["{run}", "{texts}", "--out", "{out}/vectors.npy"],
    "merge": ["{run}"],
    "onnx": ["{run}-merged", "--out", "{out}/model.onnx"],
}
# Measured by tests of their own, which run offline and with the network blocked as all do.
ELSEWHERE = {"check", "purity", "query-quality", "diagnose", "probe", "tune", "study", "reproduce"}


def commands(app: typer.Typer) -> set[str]:
    return set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("offline")
    row = {"claim": "Cars should go.", "support": ["Air."], "attack": ["Work."], "split": "test", "licence": "cc0-1.0"}
    (folder / "claims.jsonl").write_text(json.dumps(row) + "\n")
    (folder / "texts.txt").write_text("one\ntwo\n")
    run = make_run(folder / "run")
    return {
        "run": str(run),
        "claims": str(folder / "claims.jsonl"),
        "texts": str(folder / "texts.txt"),
        "out": str(folder),
    }


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Whatever was asked to leave this process; nothing gets out."""
    asked: list[Any] = []

    def refuse(*what: Any, **_: Any) -> None:
        asked.append(what[-1:])
        raise OSError("no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return asked


def invoke(places: dict[str, str], name: str, argv: list[str]) -> Any:
    app = builders if name in commands(builders) else models
    return CliRunner().invoke(app, [name, *(a.format(**places) for a in argv)])


def test_every_command_is_told_apart() -> None:
    assert commands(builders) | commands(models) == {*NEEDS_THE_HUB, *WORKS, *ELSEWHERE}


@pytest.mark.parametrize("name", WORKS)
def test_what_needs_no_hub_works(places: dict[str, str], calls: list[Any], name: str) -> None:
    done = invoke(places, name, WORKS[name])
    assert done.exit_code == 0, (done.output, done.exception)
    assert not calls
    checks: dict[str, Callable[[], bool]] = {
        "merge": lambda: _merged(Path(places["run"] + "-merged")),
        "onnx": lambda: (Path(places["out"]) / "model.onnx").stat().st_size > 1000,
    }
    assert checks.get(name, lambda: True)()


def _merged(folder: Path) -> bool:
    found = json.loads((folder / "merged.json").read_text())
    assert found["largest_cosine_gap"] < 1e-5 and found["top_10_overlap"] > 0.99 and found["queries"] == 40
    assert found["onnx"]["largest_difference"] < 1e-5 and not (folder / "adapter_config.json").exists()
    return True


@pytest.mark.parametrize("name", NEEDS_THE_HUB)
def test_what_needs_the_hub_says_so_at_once(places: dict[str, str], calls: list[Any], name: str) -> None:
    done = invoke(places, name, NEEDS_THE_HUB[name])
    assert done.exit_code == 1 and "error: HF_HUB_OFFLINE is set, and to " in done.output, done.output
    assert not calls
