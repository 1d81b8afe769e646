"""One loopback Hub for each file of tests that publish, and one process that forks their commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dataset_builders.publisher import Publisher, claims
from tests.hub.clients import TestHub


@pytest.fixture(scope="module")
def publisher() -> Iterator[Publisher]:
    with TestHub() as hub:
        with Publisher(hub) as made:
            yield made
        assert not hub.errors, hub.errors


@pytest.fixture
def hub(publisher: Publisher) -> Iterator[TestHub]:
    """The Hub of the module, without what the test before has left."""
    hub = publisher.hub
    for repo in list(hub.store.repos):
        hub.store.repos.pop(repo)
    hub.faults.clear()
    hub.log.clear()
    yield hub
    assert not hub.faults.unused, "a fault never happened"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return claims(tmp_path / "my.jsonl")
