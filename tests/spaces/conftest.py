"""One server over a tiny random adapter, and one browser."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SPACE = Path(__file__).parents[2] / "spaces" / "stance_and_oblique_search"
sys.path.insert(0, str(SPACE))


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from slant_space.engine import Engine
    from slant_space.settings import read_settings

    from tests.hub_models.evaluation.helpers import write_run

    run = write_run(tmp_path_factory.mktemp("space") / "run", strength=0.2)
    return Engine(read_settings({"SLANT_MODEL": str(run)}))


@pytest.fixture(scope="session")
def space(engine: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The page, served on 127.0.0.1; uploads pass through a folder of its own."""
    os.environ["GRADIO_TEMP_DIR"] = str(tmp_path_factory.mktemp("gradio"))
    from slant_space.interface import build, serve

    demo = build(engine)
    serve(demo, prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    yield demo
    demo.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium, headless."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("there is no chromium on the PATH; install it (apt-get install chromium) or name it in CHROMIUM")
    from playwright.sync_api import sync_playwright

    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=[*sandbox, "--disable-dev-shm-usage"])
        yield started
        started.close()
