"""Positions of the release before are gone on from: the migration moves those that lie in Postgres."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.migrated import database_before, upgrade
from tests.worlds.stream_positions import stored

if TYPE_CHECKING:
    from tests.servers import World

pytestmark = pytest.mark.servers

FIRST_OF_THIS_RELEASE = "0051_1_stream_position.sql"


def test_positions_of_the_release_before_move(stack: World) -> None:
    """Nothing is told or inserted twice after an upgrade, and nothing is left out."""
    with database_before(stack.addresses.postgres_superuser_dsn, FIRST_OF_THIS_RELEASE) as connection:
        connection.execute("insert into merchant_webhook_position values (0, 12, 9), (3, 0, 0)")
        connection.execute(
            "insert into sink_position (sink, topic, partition, next_offset, last_seq, epoch)"
            " values ('clickhouse', 'events.payments.v1', 0, 15, 11, 4), ('limiter_decisions', 'decisions', 2, 7, 7, 2)"
        )
        connection.execute("update limit_lease_position set next_offset = 7 where partition = 2")
        connection.execute("update limit_identity_position set next_offset = 8 where partition = 1")
        connection.execute("update limit_usage_position set next_offset = 9 where partition = 3")
        upgrade(connection, FIRST_OF_THIS_RELEASE)
        assert stored(connection, "limiter_leases") == {0: (0, -1), 1: (0, -1), 2: (7, -1), 3: (0, -1)}
        assert stored(connection, "limiter_identities")[1] == (8, -1)
        assert stored(connection, "limiter_usage")[3] == (9, -1)
        assert stored(connection, "merchant_webhooks") == {0: (12, 9), 3: (0, 0)}
        assert stored(connection, "clickhouse") == {0: (15, 11)}
        assert stored(connection, "limiter_decisions") == {2: (7, 7)}
