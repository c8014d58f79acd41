"""The isolation monitor, and the safe mode that it trips, on real servers."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import redis
from confluent_kafka import Producer
from msgspec import structs

from compose.isolation import counter_probes
from compose.isolation.canaries import Canary
from compose.isolation.counter_probes import POLICY, CounterProbes
from compose.operator_access import check_settings
from schemas.tenancy.usage_topic import USAGE
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.tenancy import databases, secrets_file
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
    home, processes = (
        tmp_path_factory.mktemp("isolation"),
        ("tenancy_owner", "tenancy_mover", "tenancy_metering", "tenancy_monitor"),
    )
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


def evidence_gaps(system: PublicSystem) -> int:
    """What the check finds amiss of evidence, safe mode and what was said of them."""
    dsn = system.settings.addresses().postgres_superuser_dsn
    return finding_of(check_settings(system.settings), dsn, "tenancy_evidence").gaps


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


@pytest.mark.parametrize(
    ("planted", "taken_back", "named"),
    [
        (
            "create policy wide on tenancy_pool.resource for select to millrace_vault using (true)",
            "drop policy wide on tenancy_pool.resource",
            "tenancy_pool.resource: policy wide",
        ),
        (
            "create policy wide on tenancy_pool.resource for update to millrace_tenancy_owner"
            " using (tenant_id = any (tenancy.tenants_of_context(true))) with check (true)",
            "drop policy wide on tenancy_pool.resource",
            "tenancy_pool.resource: policy wide",
        ),
        (
            "create schema pl_planted create table resource (tenant_id text primary key)",
            "drop schema pl_planted cascade",
            "pl_planted.resource",
        ),
    ],
    ids=["everybody's rows", "rows of whomever are written", "a schema of one tenant"],
)
def test_rows_that_no_policy_of_tenants_keeps_apart_are_a_gap(
    system: PublicSystem, planted: str, taken_back: str, named: str
) -> None:
    """In every schema that holds rows, also where nobody came through."""
    dsn = system.settings.addresses().postgres_superuser_dsn
    with psycopg.connect(dsn, autocommit=True) as connection:

        def told() -> list[str]:
            lint = "select named from isolation_lint where lint_id = 'rows_under_policies' and gaps > 0"
            return [str(row[0]) for row in connection.execute(lint).fetchall()]

        connection.execute(planted.encode())
        try:
            becomes(told, [named])
        finally:
            connection.execute(taken_back.encode())
        becomes(told, [])


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

        def lifted_by(caller: Caller) -> str:
            resolved()
            return lifted(caller)

        connection.execute("alter table tenancy_pool.resource disable row level security")
        becomes(lambda: tenant.http.get(path).status_code, 503)
        assert tenant.http.get(path).json()["code"] == "safe_mode"
        assert evidence_gaps(system) == 0
        for where in ("/v1/resources", "/v1/events", "/v1/quotas"):
            assert tenant.http.get(where).status_code == 503, where
        write = {"idempotency_key": "k", "expected_version": 1, "payload": {}}
        assert tenant.http.put(path, json=write).status_code == 503
        assert tenant.meter([an_event("in safe mode", 1)]) == 202
        assert ops.http.get(f"/v1/tenants/{tenant.name}").status_code == 200
        assert lifted(ann) == "state_conflict"  # the gap is still there
        connection.execute("alter table tenancy_pool.resource enable row level security")
        becomes(resolved, "ok")  # the monitor's own tenants are served
        becomes(lambda: lifted_by(ann), "proposed")
        assert [lifted_by(caller) for caller in (ann, support)] == ["four_eyes_required", "forbidden"]
        for wrong in ({}, {"note": ""}, {"note": 1}, {"note": "n", "person": "s_bob"}, []):
            assert bob.http.post("/v1/isolation/lift", json=wrong).status_code in (400, 422), wrong
        assert tenant.http.get(path).status_code == 503
        assert evidence_gaps(system) == 0  # refused decisions are audited too, and change nothing
        assert [lifted_by(caller) for caller in (bob, other)] == ["lifted", "state_conflict"]
        becomes(lambda: tenant.http.get(path).status_code, 200)
        kept = "select actor, action from audit_log where action like 'isolation.%' and outcome = 'done' order by seq"
        assert connection.execute(kept.encode()).fetchall() == [
            ("isolation_monitor", "isolation.safe_mode"),
            ("s_ann", "isolation.propose_lift"),
            ("s_bob", "isolation.lift"),
        ]
        case = "select state, resolved_by from repair_case where kind = 'isolation_safe_mode'"
        assert connection.execute(case.encode()).fetchall() == [("resolved", "s_ann, s_bob")]
        assert evidence_gaps(system) == 0


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
        assert evidence_gaps(system) == 0
        becomes(lambda: lifted(operator(system, "ann")), "proposed")
        becomes(lambda: lifted(operator(system, "bob")), "lifted")
        assert evidence_gaps(system) == 0
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


ONE, TWO = Canary("tn_one", "rs_one", "marker of one", "usage of one"), Canary("tn_two", "rs_two", "marker of two", "u")


def in_valkey(system: PublicSystem, policy: Any = POLICY) -> dict[str, str]:
    """Proof that probes find there, by probe."""
    probes = CounterProbes(system.settings.addresses().redis_url_of("tenancy_monitor"), policy)
    try:
        return {found.probe: found.evidence for found in probes.probes(ONE, TWO) if found.evidence and found.is_leak}
    finally:
        probes.close()


def test_a_counter_or_an_identity_that_two_tenants_share_is_found(
    system: PublicSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it would be if names left the tenant out."""
    assert in_valkey(system) == {}
    shared = "one tenant's counter holds what another was charged"
    assert in_valkey(system, structs.replace(POLICY, per=("user",))) == {"counters in Valkey": shared}
    monkeypatch.setattr(counter_probes.keys, "limit_key", lambda parts: parts["user"])
    assert in_valkey(system) == {"identities in Valkey": "one tenant's identity is taken for another's"}


PLANTED_KEYS: dict[str, tuple[Any, ...]] = {
    "text": ("SET", "cached", "... marker of two ..."),
    "name": ("SET", "of marker of one", "1"),
    "field": ("HSET", "cached", "marker of one", "1"),
    "value of a field": ("HSET", "cached", "n", "marker of two"),
    "list": ("RPUSH", "cached", "n", "marker of one"),
    "set": ("SADD", "cached", "n", "marker of one"),
    "sorted set": ("ZADD", "cached", "1", "marker of one"),
}


@pytest.mark.parametrize("planted", PLANTED_KEYS.values(), ids=PLANTED_KEYS)
def test_a_payload_is_found_in_whatever_key_it_lies(system: PublicSystem, planted: tuple[Any, ...]) -> None:
    with redis.Redis.from_url(system.settings.addresses().redis_url) as client:
        client.execute_command(*planted)
        try:
            assert in_valkey(system) == {"keys in Valkey": "a canary's payload is in a key"}
        finally:
            client.delete(planted[1])


def test_what_only_a_canary_has_is_found_where_it_gets_to_in_kafka_and_in_valkey(system: PublicSystem) -> None:
    """By the running monitor: evidence where another may have sent it, safe mode where nobody can."""
    ops, tenant, addresses = staff(system, "tenants:admin"), a_tenant(system), system.settings.addresses()
    key = secrets_file.read(system.settings.the_home().path / "keys").context_key
    becomes(lambda: status_of(ops), "ok")
    with (
        psycopg.connect(addresses.postgres_superuser_dsn, autocommit=True) as connection,
        redis.Redis.from_url(addresses.redis_url) as client,
    ):
        ((one, _),) = connection.execute("select canaries from isolation_safe_mode").fetchone() or ((),)
        subject, marker = (
            hmac.new(key, f"isolation {what} {one}".encode(), hashlib.sha256).hexdigest()
            for what in ("usage", "canary")
        )

        def evidence() -> list[tuple[str, str]]:
            open_ = "select probe, evidence from isolation_violation where resolved_at is null order by number"
            return connection.execute(open_.encode()).fetchall()

        def resolved() -> str:
            connection.execute("update isolation_violation set resolved_at = now() where resolved_at is null")
            return status_of(ops)

        producer = Producer(addresses.kafka.producer("test-isolation"))
        producer.produce(addresses.kafka.topic(USAGE), f'{{"subject": "{subject}"}}', f"{tenant.name}:00")
        assert producer.flush(30) == 0
        where = f"what is {one}'s is in {USAGE} under the key of {tenant.name}"
        becomes(evidence, [("records in Kafka", where)])
        assert ops.http.get("/v1/isolation").json()["safe_mode"]["on"] is False
        becomes(resolved, "ok")
        client.set("cached", marker)
        becomes(lambda: tenant.http.get("/v1/resources").status_code, 503)
        assert evidence() == [("keys in Valkey", "a canary's payload is in a key")]
        client.delete("cached")
        becomes(resolved, "ok")
        ann, bob = (operator(system, name) for name in ("ann", "bob"))
        becomes(lambda: lifted(ann), "proposed")
        becomes(lambda: lifted(bob), "lifted")
        becomes(lambda: tenant.http.get("/v1/resources").status_code, 200)


@pytest.mark.parametrize(
    ("planted", "taken_back", "named"),
    [
        (
            "alter table tenancy_pool.resource no force row level security",
            "alter table tenancy_pool.resource force row level security",
            "rows_under_policies tenancy_pool.resource",
        ),
        (
            "create policy wide on tenancy_pool.resource for select to millrace_ingress using (true)",
            "drop policy wide on tenancy_pool.resource",
            "rows_under_policies tenancy_pool.resource: policy wide",
        ),
        (
            "grant truncate on tenancy_pool.resource to millrace_ingress",
            "revoke truncate on tenancy_pool.resource from millrace_ingress",
            "rows_held_by_whom_they_should tenancy_pool.resource: truncate to millrace_ingress",
        ),
        (
            "alter table tenancy_pool.resource owner to millrace_ingress",
            "alter table tenancy_pool.resource owner to millrace_tenancy_mover",
            "rows_held_by_whom_they_should tenancy_pool.resource: owner millrace_ingress",
        ),
    ],
    ids=["not forced", "a wide policy", "truncated", "another's table"],
)
def test_what_is_amiss_in_a_database_of_a_tenants_own_is_told_with_the_tenant(
    system: PublicSystem, dedicated: tuple[str, str], planted: str, taken_back: str, named: str
) -> None:
    """Its catalog is another one: nothing of the control database's says what stands there."""
    tenant, dsn = dedicated
    ops = staff(system, "tenants:admin")

    def told() -> list[str]:
        lints = ops.http.get("/v1/isolation").json()["lints"]
        (found,) = [one["gaps"] for one in lints if one["id"] == "dedicated_databases"] or [-1]
        with psycopg.connect(system.settings.addresses().postgres_superuser_dsn) as connection:
            named = "select named from isolation_lint where lint_id = 'dedicated_databases'"
            return [str(row[0]) for row in connection.execute(named)] if found else []

    becomes(told, [])
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(planted.encode())
        try:
            becomes(lambda: [tenant in one and named in one for one in told()], [True])
        finally:
            connection.execute(taken_back.encode())
    becomes(told, [])


@pytest.fixture(scope="module")
def dedicated(system: PublicSystem) -> tuple[str, str]:
    """A tenant in a database of its own, and that database."""
    tenant = a_tenant(system, placement={"mode": "dedicated"})
    place = staff(system, "tenants:admin").http.get(f"/v1/tenants/{tenant.name}").json()["placement_id"]
    return tenant.name, databases.dsn_of(system.settings.addresses().postgres_superuser_dsn, place)
