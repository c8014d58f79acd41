"""What ClickHouse took for usage of tenants is kept with what else they cost: an insert is shared by its rows."""

from __future__ import annotations

import threading
from importlib import resources
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from schemas.tenancy import limits
from sinks.clickhouse import tables
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.insert import Inserter
from sinks.clickhouse.plans import Fence
from sinks.clickhouse.sink import Feed
from sinks.clickhouse.tenancy.usage import USAGE, USAGE_SINK
from sinks.clickhouse.tenancy.usage_stream import UsageFeed
from tests.worlds.mover_world import TENANT
from tests.worlds.sink_stage import Recorder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clickhouse_connect.driver.client import Client

    from tests.servers import World

pytestmark = pytest.mark.servers
EVENT = "insert into usage_event values (%s, '/meter', %s, 'tokens', 1, null, now(), 0, %s)"
SLICES = """
select clickhouse_us, tenant_id, source, calls + database_us + commands + owner_us + bytes_stored
from tenant_cost_slice order by seq
"""


def counted(superuser: psycopg.Connection[Any], *tenants: str) -> None:
    """An event of each, at the places behind all others."""
    for tenant_id in tenants:
        row = superuser.execute("update usage_counted set last_seq = last_seq + 1 returning last_seq").fetchone()
        assert row is not None
        superuser.execute(EVENT.encode(), (tenant_id, f"e-{row[0]}", row[0]))


class Killed(Exception):
    """The end of a process."""


class Feeding:
    """The sink of usage over real stores, with a clock of its own."""

    def __init__(self, connection: psycopg.Connection[Any], client: Client) -> None:
        tables.apply_schema(client, USAGE_SINK.definitions())
        self.now_s, self.dies_at = 0.0, ""
        self.inserter = Inserter(client, USAGE_SINK.tables)
        self._connection = connection
        self._fence = Fence(connection, sink=USAGE_SINK.name, topic=USAGE_SINK.topic, owner_id="a test")
        self._fence.ensure()
        assert self._fence.claim()
        self.begin()

    def begin(self) -> None:
        """As a new process does."""
        stream = UsageFeed(self._connection, [USAGE.name] * USAGE_SINK.partitions, lambda: self.now_s)
        self._feed = Feed(self._fence, stream, self.inserter, observer=Recorder(), fail_point=self._reach)
        self._feed.recover()

    def cycle(self) -> None:
        self._feed.cycle(threading.Event())

    def minute(self) -> None:
        self.now_s += limits.CLICKHOUSE_COSTS_KEPT_S

    def _reach(self, point: str) -> None:
        if point == self.dies_at:
            raise Killed


@pytest.fixture(scope="module")
def superuser(stack: World) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(stack.addresses.postgres_superuser_dsn, autocommit=True) as connection:
        for name in ("tn_a", "tn_b"):
            connection.execute(TENANT, (name, "active", "pl_pool_default"))
        connection.execute("insert into usage_counted (partition, last_seq) values (0, 0)")
        yield connection


@pytest.fixture(scope="module")
def feeding(stack: World, superuser: psycopg.Connection[Any]) -> Iterator[Feeding]:
    del superuser
    client = ClickHouseConnection(url=stack.addresses.clickhouse_url).client()
    with psycopg.connect(stack.addresses.postgres_dsns["millrace_sink"], autocommit=True) as connection:
        yield Feeding(connection, client)
    client.close()


def test_an_insert_is_shared_by_its_rows_and_kept_a_minute_at_a_time(
    superuser: psycopg.Connection[Any], feeding: Feeding
) -> None:
    counted(superuser, "tn_a", "tn_b", "tn_a", "tn_a", "tn_nobody")
    feeding.cycle()
    assert feeding.inserter.took_us > 0  # ClickHouse says it
    counted(superuser, "tn_a")
    feeding.cycle()
    assert superuser.execute(SLICES).fetchall() == []  # no minute has gone by
    feeding.minute()
    took_us = feeding.inserter.took_us
    counted(superuser, "tn_b")
    feeding.cycle()
    (a, *a_is), (b, *b_is) = superuser.execute(SLICES).fetchall()
    assert (a_is, b_is) == (["tn_a", "clickhouse", 0], ["tn_b", "clickhouse", 0])
    assert a >= 3 * b - 3
    assert 0 < a + 2 * b <= took_us + 3  # a fifth of the first insert is nobody's


def test_the_block_of_a_feed_that_was_killed_is_of_the_same_tenants(
    superuser: psycopg.Connection[Any], feeding: Feeding
) -> None:
    last = superuser.execute("select max(seq) from tenant_cost_slice").fetchone()
    counted(superuser, "tn_b")
    feeding.dies_at = "sink_after_plan"
    with pytest.raises(Killed):
        feeding.cycle()
    feeding.dies_at = ""
    feeding.begin()
    feeding.minute()
    feeding.cycle()  # there is nothing more to insert
    more = superuser.execute("select tenant_id from tenant_cost_slice where seq > %s", last).fetchall()
    assert more == [("tn_b",)]
    invariant = (resources.files("reconciliation.tenancy") / "invariants" / "tenancy_costs.sql").read_text().encode()
    assert superuser.execute(invariant).fetchall() == []
    with superuser.transaction(force_rollback=True):
        superuser.execute("update tenant_cost_slice set calls = 1 where tenant_id = 'tn_b'")
        assert [row[0] for row in superuser.execute(invariant)] == ["tn_b", "tn_b"]
