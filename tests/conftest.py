"""Every test runs offline, in a Hub cache of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.hub.clients import TestHub

# The Hub clients read these once, at import: set before anything imports them, and seen by every subprocess.
_HOME = tempfile.TemporaryDirectory(prefix="slant-tests-")
os.environ.update(
    {
        "HF_HOME": _HOME.name,
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_UPDATE_CHECK": "1",
        "GRADIO_ANALYTICS_ENABLED": "0",
        "TOKENIZERS_PARALLELISM": "false",
        "MPLBACKEND": "Agg",
        "PYTHONPATH": str(Path(__file__).resolve().parent.parent),
    }
)
for name in ("HF_HUB_CACHE", "HF_TOKEN", "HF_ENDPOINT", "HF_DATASETS_CACHE"):
    os.environ.pop(name, None)


@pytest.fixture(scope="session")
def minilm() -> Any:
    """The real all-MiniLM-L6-v2, loaded by its Hub id. Shared: do not change it, deep-copy it."""
    from sentence_transformers import SentenceTransformer

    from hub_models.hub_cache import SAMPLE_BASE, ensure_base

    ensure_base(SAMPLE_BASE)
    return SentenceTransformer(SAMPLE_BASE, device="cpu")


@pytest.fixture(scope="session")
def external() -> Path:
    """The folder of public data sets that lies outside the project, named by ``SLANT_EXTERNAL``."""
    folder = os.environ.get("SLANT_EXTERNAL")
    if not folder:
        pytest.skip("SLANT_EXTERNAL names no folder of public data sets")
    return Path(folder)


@pytest.fixture
def loopback_hub() -> Iterator[TestHub]:
    """An empty Hub on 127.0.0.1 for the unmodified clients (see tests/hub/README.md)."""
    from tests.hub.clients import TestHub

    with TestHub() as hub:
        yield hub
    assert not hub.errors, hub.errors
