"""What tenants cost, evidence and the audit log are in ClickHouse once each, whenever their sink is killed."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.services import SINKS
from sinks.clickhouse.tenancy.records import RECORD_SINK
from tests.eventually import eventually, patient
from tests.worlds.desk_world import process
from tests.worlds.mover_world import TENANT
from tests.worlds.public_system import system_of_its_own

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from subprocess import Popen

    from tests.worlds.public_system import PublicSystem

pytestmark = [pytest.mark.servers, pytest.mark.faults]
ADDED = """
select tenant_cost_add('ingress-0', array['tn_a', 'tn_nobody', 'tn_b'], array[1, 9, 2]::bigint[], array[1000, 9, 3000]::bigint[], 10);
select tenant_cost_measured('owner', array['tn_nobody', 'tn_a'], array[9, 7]::bigint[], array[9, 2000]::bigint[], array[9, 99]::bigint[]);
select tenant_cost_fed(array['tn_b', 'tn_nobody'], array[500, 9]::bigint[]);
insert into isolation_violation (probe, evidence) values ('sql:forged', 'taken');
select audit_append('s_ann', 'placement.drain', 'tenancy_pool', 'done', '{"note": "what nobody copies"}')
"""
ROLLED_BACK = "insert into isolation_violation (probe, evidence) values ('sql:rolled_back', 'x'); select 1 / 0"
IN_POSTGRES = (
    "select seq, tenant_id, calls, database_us, commands, owner_us, bytes_stored, clickhouse_us from tenant_cost_slice order by seq",
    "select place, number, probe, evidence from isolation_violation order by place",
    "select seq, actor, action, object, outcome from audit_log order by seq",
)
IN_CLICKHOUSE = (
    "select seq, tenant_id, calls, database_us, commands, owner_us, bytes_stored, clickhouse_us from tenant_cost_slices order by seq",
    "select seq, number, probe, evidence from isolation_evidence order by seq",
    "select seq, actor, action, object, outcome from audit_search order by seq",
)


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    home = tmp_path_factory.mktemp("records")
    with system_of_its_own(home, services=("ingress",), ingress_processes=1) as made:
        yield made


def sink(system: PublicSystem, fail_point: str = "") -> AbstractContextManager[Popen[bytes]]:
    """The process that feeds these alone."""
    number = str(list(SINKS).index(RECORD_SINK.name))
    return process(system, "clickhouse_sink", fail_point, number, {"MILLRACE_CLICKHOUSE_SINKS": "apart"})


def copies(system: PublicSystem) -> list[list[tuple[Any, ...]]]:
    client = ClickHouseConnection(url=system.settings.addresses().clickhouse_url).client()
    try:
        return [[tuple(row) for row in client.query(query).result_rows] for query in IN_CLICKHOUSE]
    finally:
        client.close()


def test_each_record_is_in_clickhouse_once_wherever_the_sink_is_killed(system: PublicSystem) -> None:
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
        for name in ("tn_a", "tn_b"):
            connection.execute(TENANT, (name, "active", "pl_pool_default"))
        connection.execute(ADDED)
        costs = "select seq, tenant_id from tenant_cost_slice order by seq"
        assert connection.execute(costs).fetchall() == [
            (1, "tn_a"),
            (2, "tn_b"),
            (3, "tn_a"),
            (4, "tn_b"),
        ]  # and of nobody none
        with pytest.raises(psycopg.errors.DivisionByZero), connection.transaction():
            connection.execute(ROLLED_BACK)
        for point in ("sink_after_plan", "sink_after_insert", "sink_after_mark"):
            connection.execute(ADDED)
            with sink(system, point) as doomed:
                assert doomed.wait(timeout=patient(60)) == -signal.SIGKILL
        connection.execute(ADDED)

        def there() -> list[list[tuple[Any, ...]]]:
            return [connection.execute(query.encode()).fetchall() for query in IN_POSTGRES]

        with sink(system):
            eventually(lambda: copies(system) == there(), 60, what="every record is there once")
        costs, evidence, log = copies(system)
        assert [row[0] for row in costs] == list(range(1, 21))
        assert ([row[0] for row in evidence], [row[1] for row in evidence]) == ([1, 2, 3, 4, 5], [1, 3, 4, 5, 6])
        assert ("s_ann", "placement.drain", "tenancy_pool", "done") in [row[1:] for row in log]
        client = ClickHouseConnection(url=system.settings.addresses().clickhouse_url).client()
        hours = "select tenant_id, sum(calls), sum(database_ms) from tenant_cost group by tenant_id order by tenant_id"
        assert [tuple(row) for row in client.query(hours).result_rows] == [("tn_a", 5, 5.0), ("tn_b", 10, 15.0)]
        more = "select commands, owner_ms, bytes_stored from tenant_cost where tenant_id = 'tn_a'"
        assert [tuple(row) for row in client.query(more).result_rows] == [(35, 10.0, 99)]
        fed = "select clickhouse_ms from tenant_cost where tenant_id = 'tn_b'"
        assert [tuple(row) for row in client.query(fed).result_rows] == [(2.5,)]
        client.close()
        connection.execute("update tenant_cost_slice set ended_at = now() - interval '3 days' where seq < 6")
        connection.execute(ADDED)
        assert connection.execute("select min(seq), max(seq) from tenant_cost_slice").fetchone() == (6, 24)
