"""Fixtures for models."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hub_models import release, reload, training


@pytest.fixture
def gate_in_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run the gate's script inside the test's process, which spares the imports; test_release.py has the real one."""

    def ask(run_dir: Path, device: str) -> tuple[Any, Any, Any]:
        request = json.dumps(
            {"texts": release.PROBE_TEXTS, "device": device, "trust_remote_code": release.runs_code(run_dir)}
        )
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.StringIO(request))
            reload.main(str(run_dir), str(tmp_path / "probe.npz"))
        with np.load(tmp_path / "probe.npz") as answer:
            return answer["with_adapter"], answer["without"], json.loads(str(answer["description"]))

    monkeypatch.setattr(release, "_reload", ask)


@pytest.fixture
def ungated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the gate's process where a test is about something else."""
    monkeypatch.setattr(training, "gate", lambda *_, **__: None)
