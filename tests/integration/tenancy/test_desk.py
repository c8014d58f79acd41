"""Usage, billing, support access and the isolation monitor on real servers, with processes that are killed."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest
from confluent_kafka import Producer

from ingress.identity.issuer import KeyFolder, issue_token
from schemas.tenancy.usage_event import record_key
from schemas.tenancy.usage_topic import USAGE
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.services import SINKS
from tests.eventually import becomes, eventually, patient
from tests.services.counter_world import millrace, process
from tests.worlds.public_system import system_of_its_own

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.public_system import PublicSystem

pytestmark = [pytest.mark.servers]
MEMBER = ("resources:read", "resources:write", "usage:read", "usage:write", "tenant:admin")
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
DAY = timedelta(days=1)
KILLED = -9
OPEN: list[httpx.Client] = []


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    home, processes = tmp_path_factory.mktemp("desk"), ("tenancy_owner", "tenancy_metering", "tenancy_monitor")
    with system_of_its_own(home, services=("ingress",), ingress_processes=1, processes=processes) as made:
        yield made
        while OPEN:
            OPEN.pop().close()


def zulu(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class Caller:
    """Whoever holds one token."""

    def __init__(self, system: PublicSystem, name: str, kind: str, subject: str, scopes: tuple[str, ...]) -> None:
        keys = KeyFolder(system.settings.the_home().path / "keys")
        token = issue_token(keys, name, scopes, kind=kind, subject=subject)  # type: ignore[arg-type]
        self.name = name
        self.http = a_client(system, token)

    def done(self, method: str, path: str, payload: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        body = {"idempotency_key": uuid.uuid4().hex, "payload": payload or {}} | more
        answer = self.http.request(method, path, json=body, headers={"Prefer": "wait=30"})
        assert answer.status_code in (200, 201), answer.text
        return answer.json()["result"]

    def meter(self, events: list[dict[str, Any]]) -> int:
        kind = {"Content-Type": "application/cloudevents-batch+json"}
        return self.http.post("/v1/usage/events", content=json.dumps(events), headers=kind).status_code

    def used(self, dimension: str, **more: str) -> list[tuple[int, int]]:
        asked = {"dimension": dimension, "from": zulu(TODAY - 30 * DAY), "to": zulu(TODAY + 2 * DAY), **more}
        data = self.http.get("/v1/usage", params=asked).json()["data"]
        return [(row.get("quantity", row.get("value")), row["events"]) for row in data]


def a_client(system: PublicSystem, token: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {token}"}
    OPEN.append(httpx.Client(base_url=system.base_url, headers=headers, timeout=patient(30), trust_env=False))
    return OPEN[-1]


def staff(system: PublicSystem, *scopes: str) -> Caller:
    return Caller(system, "m_ops", "merchant", f"s_{uuid.uuid4().hex[:8]}", scopes)


def a_tenant(system: PublicSystem, **payload: Any) -> Caller:
    ops = staff(system, "tenants:admin")
    made = ops.done("POST", "/v1/tenants", {"name": "desk", **payload})
    path = f"/v1/tenants/{made['tenant_id']}"
    becomes(lambda: ops.http.get(path).json()["state"], "active")
    return Caller(system, made["tenant_id"], "tenant", "u_1", MEMBER)


def an_event(id_: str, quantity: int, at: datetime = TODAY - DAY, **more: Any) -> dict[str, Any]:
    event = {"specversion": "1.0", "type": "millrace.usage", "id": id_, "source": "/meter", "time": zulu(at)}
    return event | {"data": {"dimension": "tokens", "quantity": quantity}} | more


@pytest.mark.faults
def test_usage_is_counted_once_wherever_its_metering_is_killed(system: PublicSystem) -> None:
    tenant = a_tenant(system)
    sent = 0
    for place in ("metering_before_position", "metering_after_commit"):
        with process(system, "tenancy_metering", place) as victim:
            while victim.poll() is None:  # what nobody else takes, it takes
                assert tenant.meter([an_event(f"e{n}", 1) for n in range(sent, sent + 20)] * 2) == 202
                sent += 20
            assert victim.returncode == KILLED
    assert tenant.meter([an_event("e0", 7), an_event("e1", 1)]) == 202
    becomes(lambda: tenant.used("tokens"), [(sent, sent)])
    told = becomes_conflicts(tenant)
    assert [(one["event_id"], one["quantity"]) for one in told] == [("e0", 7)]
    values = {name: tenant.used("tokens", aggregation=name) for name in ("count", "min", "max", "latest", "percentile")}
    assert values == {"count": [(sent, sent)], **{name: [(1, sent)] for name in values if name != "count"}}


def becomes_conflicts(tenant: Caller) -> list[dict[str, Any]]:
    return eventually(lambda: tenant.http.get("/v1/usage_conflicts").json()["data"])


@pytest.mark.faults
def test_a_period_has_one_invoice_however_often_its_maker_is_killed_and_late_usage_is_in_the_next(
    system: PublicSystem,
) -> None:
    ops = staff(system, "tenants:admin")
    tenant = a_tenant(system, prices={"tokens": "0.5"}, home_currency="EUR")
    assert tenant.meter([an_event("one", 3, TODAY - 2 * DAY)]) == 202
    becomes(lambda: tenant.used("tokens"), [(3, 1)])
    with process(system, "tenancy_metering", "invoice_before_commit") as victim:
        runs = [billed(ops, tenant, TODAY - 2 * DAY, TODAY - DAY)]
        while victim.poll() is None:  # another process may have made that one
            begins = TODAY - (len(runs) + 2) * DAY
            runs.append(billed(ops, tenant, begins, begins + DAY))
        assert victim.returncode == KILLED
    made, *_ = [invoice(ops, tenant, run) for run in runs]
    assert tenant.meter([an_event("late", 2, TODAY - 2 * DAY), an_event("two", 5, TODAY - DAY)]) == 202
    becomes(lambda: tenant.used("tokens"), [(10, 3)])
    assert invoice(ops, tenant, runs[0]) == made
    assert [(line["kind"], line["quantity"], line["amount"]) for line in made["lines"]] == [("usage", 3, 2)]
    again = tenant.http.get(f"/v1/invoices/{made['invoice_id']}/document", params={"recompute": "true"})
    assert again.content == tenant.http.get(f"/v1/invoices/{made['invoice_id']}/document").content
    second = invoice(ops, tenant, billed(ops, tenant, TODAY - DAY, TODAY))
    assert [(line["kind"], line["quantity"]) for line in second["lines"]] == [("usage", 5), ("late_usage", 2)]
    assert (second["total"], second["lines"][1]["from"]) == (2 + 1, zulu(TODAY - 2 * DAY))
    assert gaps(system) == []


def gaps(system: PublicSystem) -> list[dict[str, Any]]:
    """What does not hold of tenants; ClickHouse is fed with usage alone here."""
    return [one for one in millrace(system, "check")["invariants"] if one["gaps"] and one["id"].startswith("tenancy")]


def billed(ops: Caller, tenant: Caller, begins: datetime, ends: datetime) -> dict[str, Any]:
    payload = {"from": zulu(begins), "to": zulu(ends), "grace_s": 0}
    return ops.done("POST", f"/v1/tenants/{tenant.name}/billing_runs", payload)


def invoice(ops: Caller, tenant: Caller, run: dict[str, Any]) -> dict[str, Any]:
    path = f"/v1/tenants/{tenant.name}/billing_runs/{run['billing_run_id']}"
    invoice_id = eventually(lambda: ops.http.get(path).json()["invoice_id"])
    return tenant.http.get(f"/v1/invoices/{invoice_id}").json()


def test_who_writes_to_kafka_counts_for_the_tenants_of_its_key_and_no_others(system: PublicSystem) -> None:
    tenant, other = a_tenant(system), a_tenant(system)
    keys = system.settings.sender_keys()
    keys.add("meter", (f"tenant:{tenant.name}",))
    (sender,) = keys.senders(["producer.meter"])
    kafka = system.settings.addresses().kafka
    producer = Producer(kafka.producer("meter"))
    for owner, id_, is_signed in ((tenant, "a", True), (other, "b", True), (tenant, "c", False)):
        key, value = record_key(owner.name, "/meter", id_), json.dumps(an_event(id_, 4)).encode()
        headers = sender.headers(USAGE, key, value) if is_signed else []
        producer.produce(kafka.topic(USAGE), value=value, key=key, headers=headers)
    producer.flush(patient(30))
    becomes(lambda: tenant.used("tokens"), [(4, 1)])
    assert other.meter([an_event("z", 1)]) == 202
    becomes(lambda: other.used("tokens"), [(1, 1)])  # what was sent before it did not count
    assert tenant.used("tokens") == [(4, 1)]


@pytest.mark.faults
def test_usage_is_in_clickhouse_once_though_its_sink_is_killed(system: PublicSystem) -> None:
    tenant = a_tenant(system)
    assert tenant.meter([an_event(f"e{n}", n) for n in range(50)]) == 202
    becomes(lambda: tenant.used("tokens"), [(sum(range(50)), 50)])
    number = str(list(SINKS).index("tenancy_usage"))
    changed = {"MILLRACE_CLICKHOUSE_SINKS": "apart"}
    with process(system, "clickhouse_sink", "sink_after_insert", number, changed) as victim:
        assert victim.wait(patient(60)) == KILLED
    with process(system, "clickhouse_sink", "", number, changed):
        becomes(lambda: in_clickhouse(system, tenant), (50, 50, sum(range(50))))
    assert gaps(system) == []


def in_clickhouse(system: PublicSystem, tenant: Caller) -> tuple[int, ...]:
    client = ClickHouseConnection(url=system.settings.addresses().clickhouse_url).client()
    query = "select count(), uniqExact(event_id), sum(quantity) from usage_events where tenant_id = {t:String}"
    try:
        return tuple(map(int, client.query(query, parameters={"t": tenant.name}).result_rows[0]))
    finally:
        client.close()


def test_support_gets_no_answer_that_is_not_audited(system: PublicSystem) -> None:
    tenant = a_tenant(system)
    made = tenant.done("POST", "/v1/resources", {"n": 1})
    asks, allows = staff(system, "support"), staff(system, "support:approve")
    root = f"/v1/tenants/{tenant.name}/support_grants"
    grant = asks.done("POST", root, {"reason": "r", "ticket": "T-1"})["grant_id"]
    allows.done("POST", f"{root}/{grant}/approve")
    uses = a_client(system, asks.http.post(f"{root}/{grant}/token").json()["token"])
    one = f"/v1/resources/{made['resource_id']}"
    dsn = system.settings.addresses().postgres_superuser_dsn
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("revoke execute on function tenant_audit_end(text, bigint, text) from millrace_ingress")
        answer = uses.get(one)
        assert answer.status_code >= 500
        assert "payload" not in answer.text
        connection.execute("grant execute on function tenant_audit_end(text, bigint, text) to millrace_ingress")
    assert uses.get(one).status_code == 200
    assert uses.get("/v1/events/stream").status_code == 403
    tenant.done("POST", f"{root}/{grant}/revoke")
    assert uses.get(one).status_code == 403
    told = tenant.http.get("/v1/audit", params={"grant_id": grant}).json()["data"]
    assert [row["result"] for row in told] == ["refused", "refused", "done", "begun"]
    assert [row["seq"] for row in told] == [4, 3, 2, 1]


def test_what_lets_tenants_meet_is_found(system: PublicSystem) -> None:
    ops = staff(system, "tenants:admin")

    def status() -> str:
        found: str = ops.http.get("/v1/isolation").json()["status"]
        return found

    with process(
        system, "clickhouse_sink", "", str(list(SINKS).index("tenancy_usage")), {"MILLRACE_CLICKHOUSE_SINKS": "apart"}
    ):
        becomes(status, "ok")
        with psycopg.connect(system.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
            connection.execute("create materialized view everything as select * from tenancy_pool.resource")
            becomes(status, "violated")
            connection.execute("drop materialized view everything")
            becomes(status, "ok")
