"""A stack of its own for faults: servers are killed here, and no other test may feel it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from compose.settings.settings import Settings
from sinks.kafka.topics import ensure_topics
from tests import servers
from tests.faults.owners import OwnerWorld

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def fault_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Servers with an empty, migrated database and our topics; restarted by their supervisor when a test kills one."""
    with servers.own_servers(tmp_path_factory.mktemp("faults")) as settings:
        ensure_topics(settings.addresses().kafka)
        yield settings


@pytest.fixture
def owner_world(fault_settings: Settings) -> Iterator[OwnerWorld]:
    """Owners end with the test, however it ends."""
    world = OwnerWorld(fault_settings)
    # what a test that failed left halted is its own failure, and not those of all tests after it
    world.query("update partition_owner set halted = null where halted is not null returning partition")
    yield world
    world.stop_owners()
