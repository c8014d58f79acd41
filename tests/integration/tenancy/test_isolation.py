"""The isolation monitor, and the safe mode that it trips, on real servers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pytest

from compose.operator_access import check_settings
from sinks.clickhouse.connection import ClickHouseConnection
from tests.eventually import becomes
from tests.worlds.desk_world import OPEN, Caller, a_tenant, an_event, staff, usage_sink
from tests.worlds.public_system import system_of_its_own
from tests.worlds.rolled_back import finding_of
from tests.worlds.tenancy_planted import COPIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.public_system import PublicSystem

pytestmark = [pytest.mark.servers]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    home, processes = tmp_path_factory.mktemp("isolation"), ("tenancy_owner", "tenancy_metering", "tenancy_monitor")
    with (
        system_of_its_own(home, services=("ingress",), ingress_processes=1, processes=processes) as made,
        usage_sink(made),
    ):
        yield made
        while OPEN:
            OPEN.pop().close()


def status_of(ops: Caller) -> str:
    found: str = ops.http.get("/v1/isolation").json()["status"]
    return found


def usage_of_canaries(system: PublicSystem) -> int:
    client = ClickHouseConnection(url=system.settings.addresses().clickhouse_url).client()
    asked = "select uniqExact(tenant_id, subject) from usage_events where dimension = 'isolation_canary'"
    try:
        return int(client.query(asked).result_rows[0][0]) if client.command("exists table usage_events") else 0
    finally:
        client.close()


def operator(system: PublicSystem, name: str, role: str = "platform") -> Caller:
    return Caller(system, f"s_{name}", "staff", "", (f"operator:{role}",))


def lifted(caller: Caller) -> str:
    answer = caller.http.post("/v1/isolation/lift", json={"note": "they are apart again"}).json()
    found: str = answer["result"]["state"] if "result" in answer else answer["code"]
    return found


def test_a_gap_in_the_catalog_is_told_and_closes_nothing(system: PublicSystem) -> None:
    ops = staff(system, "tenants:admin")
    becomes(lambda: status_of(ops), "ok")
    becomes(lambda: usage_of_canaries(system), 2)  # or looking for it among another's would prove nothing
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
        connection.execute(COPIES)
        becomes(lambda: status_of(ops), "violated")
        assert ops.http.get("/v1/isolation").json()["safe_mode"]["on"] is False
        connection.execute("drop view all_rows cascade")
        becomes(lambda: status_of(ops), "ok")


def test_a_row_of_another_is_seen_and_nobody_is_served_until_two_persons_say_so(system: PublicSystem) -> None:
    ops, tenant, support = staff(system, "tenants:admin"), a_tenant(system), operator(system, "sam", "support")
    ann, bob, other = (operator(system, name) for name in ("ann", "bob", "x"))
    path = f"/v1/resources/{tenant.done('POST', '/v1/resources', {'n': 1})['resource_id']}"
    becomes(lambda: status_of(ops), "ok")
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:

        def resolved() -> str:
            """A round that began before may still keep what it saw."""
            connection.execute("update isolation_violation set resolved_at = now() where resolved_at is null")
            return status_of(ops)

        connection.execute("alter table tenancy_pool.resource disable row level security")
        becomes(lambda: tenant.http.get(path).status_code, 503)
        assert tenant.http.get(path).json()["code"] == "safe_mode"
        for where in ("/v1/resources", "/v1/events", "/v1/quotas"):
            assert tenant.http.get(where).status_code == 503, where
        write = {"idempotency_key": "k", "expected_version": 1, "payload": {}}
        assert tenant.http.put(path, json=write).status_code == 503
        assert tenant.meter([an_event("in safe mode", 1)]) == 202
        assert ops.http.get(f"/v1/tenants/{tenant.name}").status_code == 200
        assert lifted(ann) == "state_conflict"  # the gap is still there
        connection.execute("alter table tenancy_pool.resource enable row level security")
        becomes(resolved, "ok")  # the monitor's own tenants are served
        becomes(lambda: lifted(ann), "proposed")
        assert [lifted(caller) for caller in (ann, support)] == ["four_eyes_required", "forbidden"]
        for wrong in ({}, {"note": ""}, {"note": 1}, {"note": "n", "person": "s_bob"}, []):
            assert bob.http.post("/v1/isolation/lift", json=wrong).status_code in (400, 422), wrong
        assert tenant.http.get(path).status_code == 503
        assert [lifted(caller) for caller in (bob, other)] == ["lifted", "state_conflict"]
        becomes(lambda: tenant.http.get(path).status_code, 200)
        kept = "select actor, action from audit_log where action like 'isolation.%' and outcome = 'done' order by seq"
        assert connection.execute(kept.encode()).fetchall() == [
            ("isolation_monitor", "isolation.safe_mode"),
            ("s_ann", "isolation.propose_lift"),
            ("s_bob", "isolation.lift"),
        ]
        case = "select state, resolved_by from repair_case where kind = 'isolation_safe_mode'"
        assert connection.execute(case.encode()).fetchall() == [("resolved", "s_ann, s_bob")]


def test_a_statement_that_names_no_tenant_is_evidence_and_closes_nothing(system: PublicSystem) -> None:
    """What closes then is a person, and opens again are two."""
    ops, tenant = staff(system, "tenants:admin"), a_tenant(system)
    becomes(lambda: status_of(ops), "ok")
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
        with psycopg.connect(system.settings.addresses().postgres_dsns["millrace_ingress"]) as forgetful:
            forgetful.execute("select count(*) from resource_head")  # it stays the session's newest statement
            becomes(lambda: status_of(ops), "violated")
        resolved = (
            "update isolation_violation set resolved_at = now() where resolved_at is null returning probe, evidence"
        )
        found = connection.execute(resolved.encode()).fetchall()
        assert found == [("statements", "of whichever tenant: select count(*) from resource_head")]
        becomes(lambda: status_of(ops), "ok")
        assert tenant.http.get("/v1/resources").status_code == 200
        connection.execute("select isolation_close('s_ann', 'I was told of one')")
        becomes(lambda: tenant.http.get("/v1/resources").status_code, 503)
        becomes(lambda: lifted(operator(system, "ann")), "proposed")
        becomes(lambda: lifted(operator(system, "bob")), "lifted")
        becomes(lambda: tenant.http.get("/v1/resources").status_code, 200)


@pytest.mark.parametrize(("runs_for_s", "gaps"), [(None, 0), (3.0, 0), (1e6, 1)])
@pytest.mark.parametrize("rounds", ["delete from isolation_round", "update isolation_round set as_of = '2020-01-01'"])
def test_a_monitor_that_does_not_look_is_a_gap_where_it_should(
    system: PublicSystem, rounds: str, runs_for_s: float | None, gaps: int
) -> None:
    """Nowhere else, and not right after the stack began."""
    dsn = system.settings.addresses().postgres_superuser_dsn
    settings = replace(check_settings(system.settings), monitored_s=runs_for_s)
    begun = "insert into isolation_round (as_of, probes) values (now(), 0) on conflict (only_one) do nothing"
    assert finding_of(settings, dsn, "tenancy_watched", begun, rounds).gaps == gaps
