"""Usage, billing, support access and the isolation monitor on real servers, with processes that are killed."""

from __future__ import annotations

import csv
import json
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest
from confluent_kafka import Producer

from compose.operator_access import check_settings
from ingress.identity.issuer import KeyFolder, issue_token
from reconciliation.check.invariant import invariants
from schemas.tenancy.usage_event import record_key
from schemas.tenancy.usage_topic import USAGE
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.services import SINKS
from tests.eventually import becomes, eventually, patient
from tests.services.counter_world import millrace, process
from tests.worlds.public_system import system_of_its_own
from tests.worlds.rolled_back import finding_of
from tests.worlds.tenancy_planted import PLANTED
from tests.worlds.tenancy_world import INVARIANTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from subprocess import Popen

    from tests.worlds.public_system import PublicSystem

pytestmark = [pytest.mark.servers]
MEMBER = ("resources:read", "resources:write", "usage:read", "usage:write", "tenant:admin")
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
DAY = timedelta(days=1)
KILLED = -9
TRACE = Path(__file__).parents[4] / "shared" / "data" / "usage" / "llm_inference_trace_code.csv"
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


def an_event(
    id_: str, quantity: int, at: datetime = TODAY - DAY, dimension: str = "tokens", **more: Any
) -> dict[str, Any]:
    event = {"specversion": "1.0", "type": "millrace.usage", "id": id_, "source": "/meter", "time": zulu(at)}
    return event | {"data": {"dimension": dimension, "quantity": quantity}} | more


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


def the_trace() -> list[dict[str, Any]]:
    """Real calls as they were logged: two events each, moved to yesterday."""
    with TRACE.open() as lines:
        calls = list(csv.DictReader(lines))
    first = datetime.fromisoformat(calls[0]["TIMESTAMP"][:26])
    return [
        an_event(f"{n}/{name}", int(call[name]), dimension=name)
        | {
            "source": "/calls",
            "time": (TODAY - DAY + (datetime.fromisoformat(call["TIMESTAMP"][:26]) - first)).isoformat(),
        }
        for n, call in enumerate(calls)
        for name in ("ContextTokens", "GeneratedTokens")
    ]


@pytest.mark.faults
def test_a_real_trace_metered_twice_under_kills_comes_to_its_own_sums(system: PublicSystem) -> None:
    if not TRACE.exists():
        pytest.skip("the trace of calls is in the shared data folder, which is not here")
    tenant, events = a_tenant(system, timezone="Asia/Kolkata"), the_trace()
    batches = [events[n : n + 1_000] for n in range(0, len(events), 1_000)]
    for place in ("metering_before_position", "metering_after_commit"):
        with process(system, "tenancy_metering", place) as victim:
            for batch in batches:
                assert tenant.meter(batch) == 202
            while victim.poll() is None:  # what nobody else takes, it takes
                assert tenant.meter(batches[-1]) == 202
            assert victim.returncode == KILLED
    for name in ("ContextTokens", "GeneratedTokens"):
        own: dict[datetime, list[int]] = {}
        for event in (one for one in events if one["data"]["dimension"] == name):
            hour = datetime.fromisoformat(event["time"]) + timedelta(minutes=30)  # of a zone between the hours
            own.setdefault(hour.replace(minute=0, second=0, microsecond=0), []).append(event["data"]["quantity"])
        wanted = [(sum(quantities), len(quantities)) for _, quantities in sorted(own.items())]
        becomes(lambda name=name: tenant.used(name, window="hour"), wanted)
    assert tenant.http.get("/v1/usage_conflicts").json()["data"] == []


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
            begins = TODAY - 2 * DAY - len(runs) * timedelta(minutes=1)
            runs.append(billed(ops, tenant, begins, begins + timedelta(minutes=1)))
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


TIERS = {"mode": "graduated", "tiers": [{"up_to": 10, "unit_price": "2"}, {"up_to": None, "unit_price": "1"}]}


def test_corrections_and_credit_are_in_the_next_invoice_and_no_old_one_changes(system: PublicSystem) -> None:
    ops, tenant = staff(system, "tenants:admin"), a_tenant(system, prices={"tokens": TIERS})
    root, before = f"/v1/tenants/{tenant.name}", TODAY - 2 * DAY
    assert ops.http.get(root).json()["prices"] == {"tokens": TIERS}
    assert tenant.meter([an_event("one", 8, before)]) == 202
    becomes(lambda: tenant.used("tokens"), [(8, 1)])
    first = invoice(ops, tenant, billed(ops, tenant, before, before + DAY))
    assert [(line["kind"], line["amount"]) for line in first["lines"]] == [("usage", 16)]
    assert tenant.meter([an_event("late", 4, before), an_event("two", 12)]) == 202
    becomes(lambda: tenant.used("tokens"), [(24, 3)])
    less = {"dimension": "tokens", "quantity": -3, "at": zulu(before), "reason": "metered twice"}
    refused = ops.http.post(f"{root}/usage_adjustments", json={"idempotency_key": "k", "payload": less})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "payload.unit_price")
    ops.done("POST", f"{root}/usage_adjustments", less | {"unit_price": "2"})
    ops.done("POST", f"{root}/credits", {"amount": 15, "reason": "an outage"})
    second = invoice(ops, tenant, billed(ops, tenant, before + DAY, TODAY))
    lines = [(line["kind"], line["amount"], line.get("from")) for line in second["lines"]]
    assert lines == [
        ("usage", 22, zulu(before + DAY)),
        ("late_usage", 2 * 2 + 2 * 1, zulu(before)),  # its tiers go on where the period stood
        ("adjustment", -6, zulu(before)),
        ("credit", -15, None),
    ]
    assert second["total"] == 22 + 6 - 6 - 15
    for stands in (first, second):
        path = f"/v1/invoices/{stands['invoice_id']}"
        assert tenant.http.get(path).json() == stands
        again = tenant.http.get(f"{path}/document", params={"recompute": "true"})
        assert again.content == tenant.http.get(f"{path}/document").content
    told = tenant.http.get(f"{root}/billing_entries", params={"limit": 1}).json()
    assert ([one["kind"] for one in told["data"]], told["has_more"]) == (["credit"], True)
    assert tenant.http.post(f"{root}/credits", json={"payload": {"amount": 1, "reason": "r"}}).status_code in (400, 403)
    assert gaps(system) == []


def test_what_a_tenant_may_is_told_with_what_is_left_of_it_this_month(system: PublicSystem) -> None:
    ops, tenant, other = staff(system, "tenants:admin"), a_tenant(system), a_tenant(system)
    path = f"/v1/tenants/{tenant.name}/entitlements"
    limit = {"kind": "metered", "dimension": "tokens", "limit": 10}
    said = {"exports": {"kind": "bool", "value": False}, "plan": {"kind": "static", "value": "gold"}, "tokens": limit}
    assert ops.done("PUT", path, {"entitlements": said})["entitlements"] == said
    assert tenant.meter([an_event("now", 7, datetime.now(UTC)), an_event("long ago", 9, TODAY - 34 * DAY)]) == 202
    becomes(lambda: tenant.used("tokens", **{"from": zulu(TODAY - 35 * DAY)}), [(16, 2)])
    answer = tenant.http.get("/v1/entitlements")
    told = {one["feature"]: one for one in answer.json()["data"]}
    assert {name: one["allowed"] for name, one in told.items()} == {"exports": False, "plan": True, "tokens": True}
    assert (told["tokens"]["used"], told["tokens"]["remaining"]) == (7, 3)
    assert ops.http.get(path).json() == answer.json()
    assert answer.headers["ETag"] == '"1"'
    assert other.http.get(path).status_code == 404
    assert other.http.get("/v1/entitlements").json() == {"data": []}


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
    with usage_sink(system, "sink_after_insert") as victim:
        assert victim.wait(patient(60)) == KILLED
    with usage_sink(system):
        becomes(lambda: in_clickhouse(system, tenant), (50, 50, sum(range(50))))
    assert gaps(system) == []


def usage_sink(system: PublicSystem, fail_point: str = "") -> AbstractContextManager[Popen[bytes]]:
    """The process that feeds ClickHouse with usage alone; it is gone at the end."""
    number = str(list(SINKS).index("tenancy_usage"))
    return process(system, "clickhouse_sink", fail_point, number, {"MILLRACE_CLICKHOUSE_SINKS": "apart"})


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
    grant, uses = a_grant(system, tenant)
    root = f"/v1/tenants/{tenant.name}/support_grants"
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


def a_grant(system: PublicSystem, tenant: Caller) -> tuple[str, httpx.Client]:
    """An active one, and who uses it."""
    asks, allows = staff(system, "support"), staff(system, "support:approve")
    root = f"/v1/tenants/{tenant.name}/support_grants"
    grant: str = asks.done("POST", root, {"reason": "r", "ticket": "T-1"})["grant_id"]
    allows.done("POST", f"{root}/{grant}/approve")
    return grant, a_client(system, asks.http.post(f"{root}/{grant}/token").json()["token"])


def test_what_lets_tenants_meet_is_found(system: PublicSystem) -> None:
    ops = staff(system, "tenants:admin")

    def status() -> str:
        found: str = ops.http.get("/v1/isolation").json()["status"]
        return found

    with usage_sink(system):
        becomes(status, "ok")
        with psycopg.connect(system.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
            connection.execute("create materialized view everything as select * from tenancy_pool.resource")
            becomes(status, "violated")
            connection.execute("drop materialized view everything")
            becomes(status, "ok")
            with psycopg.connect(system.settings.addresses().postgres_dsns["millrace_ingress"]) as forgetful:
                forgetful.execute("select count(*) from resource_head")  # it stays the session's newest statement
                becomes(status, "violated")
            found = connection.execute("update isolation_violation set resolved_at = now() returning probe, evidence")
            assert found.fetchall() == [("statements", "of whichever tenant: select count(*) from resource_head")]
            becomes(status, "ok")


@pytest.fixture(scope="module")
def history(system: PublicSystem) -> None:
    """Some of everything that is tampered with below: usage, in ClickHouse too, invoices, a call of support."""
    ops, tenant = staff(system, "tenants:admin"), a_tenant(system, prices={"tokens": "1"})
    made = tenant.done("POST", "/v1/resources", {"n": 1})
    assert tenant.meter([an_event("e0", 1), an_event("e1", 2, TODAY - 2 * DAY)]) == 202
    becomes(lambda: tenant.used("tokens"), [(3, 2)])
    assert tenant.meter([an_event("e0", 7)]) == 202
    becomes_conflicts(tenant)
    for days in (2, 1):
        begins = TODAY - days * DAY
        invoice(ops, tenant, billed(ops, tenant, begins, begins + DAY))
    _, uses = a_grant(system, tenant)
    assert uses.get(f"/v1/resources/{made['resource_id']}").status_code == 200
    becomes(lambda: tenant.used("resource_writes"), [(1, 1)])
    with usage_sink(system):
        becomes(lambda: in_clickhouse(system, tenant), (3, 3, 4))


def test_every_invariant_of_tenants_is_planted() -> None:
    assert PLANTED.keys() | set(INVARIANTS) == {one.id for one in invariants() if one.id.startswith("tenancy_")}


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize("identity", PLANTED)
def test_a_planted_violation_is_found(system: PublicSystem, identity: str) -> None:
    """In a transaction that is rolled back, beside the running system."""
    settings, dsn = check_settings(system.settings), system.settings.addresses().postgres_superuser_dsn
    becomes(lambda: finding_of(settings, dsn, identity).gaps, 0)
    found = finding_of(settings, dsn, identity, PLANTED[identity])
    assert found.sample
    assert not found.note.startswith("could not")
