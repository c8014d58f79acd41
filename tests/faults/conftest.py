"""A stack of its own for faults: servers are killed here, and no other test may feel it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from compose.settings import Settings
from compose.stack.errors import StackError
from compose.supervise import launch
from sinks.kafka.topics import ensure_topics
from sinks.postgres.migrate import migrate
from tests.conftest import servers_missing
from tests.faults.owners import OwnerWorld

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def fault_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Servers with an empty, migrated database and our topics; restarted by their supervisor when a test kills one."""
    settings = Settings(home=tmp_path_factory.mktemp("faults"))
    try:
        launch.up(settings, servers_only=True, tied=True)
    except StackError as error:
        servers_missing(str(error))
    addresses = settings.addresses()
    migrate(addresses.postgres_superuser_dsn, settings.role_passwords())
    ensure_topics(addresses.kafka)
    yield settings
    launch.down(settings)


@pytest.fixture
def owner_world(fault_settings: Settings) -> Iterator[OwnerWorld]:
    """Owners end with the test, however it ends."""
    world = OwnerWorld(fault_settings)
    yield world
    world.stop_owners()
