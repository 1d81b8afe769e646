"""One Hub, one endpoint and one process that forks every command, for all tests of toughness."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.endpoint import Endpoint, endpoint
from tests.hub.clients import TestHub
from tests.hub_models.releaser import put_base
from tests.toughness import commands
from tests.toughness.workshop import Workshop


@pytest.fixture(scope="package")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    commands.make(tmp_path_factory.mktemp("made"))
    with TestHub() as hub:
        put_base(hub, tmp_path_factory.mktemp("base"))
        with Workshop(hub, {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}) as made:
            yield made
        assert not hub.errors, hub.errors


@pytest.fixture(scope="package")
def model() -> Iterator[Endpoint]:
    """A language model that inverts arguments."""
    with endpoint(commands.flipped) as running:
        yield running
