"""Tenants at their desk in a system of a module's own: who calls, what is metered, who of support has a grant."""

from __future__ import annotations

import csv
import json
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import psycopg
import pytest

from ingress.identity.issuer import KeyFolder, issue_token
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.services import SINKS
from tests.eventually import becomes, eventually, patient
from tests.services.counter_world import millrace, process

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from subprocess import Popen

    from tests.worlds.public_system import PublicSystem

MEMBER: Final = ("resources:read", "resources:write", "usage:read", "usage:write", "tenant:admin")
TODAY: Final = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
DAY: Final = timedelta(days=1)
TRACE: Final = Path(__file__).parents[3] / "shared" / "data" / "usage" / "llm_inference_trace_code.csv"
NOT_FED: Final = """select count(*) from usage_counted c
left join stream_position p on p.follower = 'tenancy_usage' and p.partition = c.partition
where c.last_seq > greatest(c.floor_seq, coalesce(p.last_seq, 0))"""
#: connections that the module's end closes
OPEN: Final[list[httpx.Client]] = []


def zulu(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class Caller:
    """Whoever holds one token."""

    def __init__(self, system: PublicSystem, name: str, kind: str, subject: str, scopes: tuple[str, ...]) -> None:
        keys = KeyFolder(system.settings.the_home().path / "keys")
        token = issue_token(keys, name, scopes, kind=kind, subject=subject)  # type: ignore[arg-type]
        self.name, self.person = name, subject
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


def gaps(system: PublicSystem) -> list[dict[str, Any]]:
    """What does not hold of tenants; ClickHouse is fed with usage alone here."""
    return [one for one in millrace(system, "check")["invariants"] if one["gaps"] and one["id"].startswith("tenancy")]


def usage_sink(system: PublicSystem, fail_point: str = "") -> AbstractContextManager[Popen[bytes]]:
    """The process that feeds ClickHouse with usage alone; it is gone at the end."""
    number = str(list(SINKS).index("tenancy_usage"))
    return process(system, "clickhouse_sink", fail_point, number, {"MILLRACE_CLICKHOUSE_SINKS": "apart"})


def in_clickhouse(system: PublicSystem, tenant: Caller) -> tuple[int, ...]:
    """Rows, events and quantities of a tenant; nothing while no sink has made their table."""
    client = ClickHouseConnection(url=system.settings.addresses().clickhouse_url).client()
    query = "select count(), uniqExact(event_id), sum(quantity) from usage_events where tenant_id = {t:String}"
    try:
        if not client.command("exists table usage_events"):
            return ()
        return tuple(map(int, client.query(query, parameters={"t": tenant.name}).result_rows[0]))
    finally:
        client.close()


def usage_not_fed(system: PublicSystem) -> int:
    """Partitions whose sink has not stored that all of them is in ClickHouse, where it is a moment before."""
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn) as connection:
        (row,) = connection.execute(NOT_FED).fetchall()
    return int(row[0])


def a_grant(system: PublicSystem, tenant: Caller, **said: Any) -> tuple[str, httpx.Client]:
    """An active one, and who uses it."""
    asks, allows = staff(system, "support"), staff(system, "support:approve")
    root = f"/v1/tenants/{tenant.name}/support_grants"
    grant: str = asks.done("POST", root, {"reason": "r", "ticket": "T-1", **said})["grant_id"]
    allows.done("POST", f"{root}/{grant}/approve")
    return grant, a_client(system, asks.http.post(f"{root}/{grant}/token").json()["token"])


def a_later_grant_of_less(system: PublicSystem) -> None:
    """It begins later, the tenant consents to less: what both sides see, and what is answered when."""
    tenant, secret = a_tenant(system, tier="enterprise"), f"secret-{uuid.uuid4().hex}"
    made = tenant.done("POST", "/v1/resources", {"email": secret, "phone": secret, "kept": "shown"})
    asks, allows = staff(system, "support"), staff(system, "support:approve")
    root, one = f"/v1/tenants/{tenant.name}/support_grants", f"/v1/resources/{made['resource_id']}"
    begins = zulu(datetime.now(UTC) + timedelta(hours=1))
    said = {"reason": "r", "ticket": "T-1", "duration_s": 600, "masked_fields": ["email"], "not_before": begins}
    grant: str = asks.done("POST", root, said)["grant_id"]
    path = f"{root}/{grant}"
    for wrong in ({"duration_s": 601}, {"duration_s": 4}, {"masked_fields": []}, {"masked_fields": ["a b"]}):
        body = {"idempotency_key": uuid.uuid4().hex, "payload": wrong}
        refused = tenant.http.post(f"{path}/consent", json=body, headers={"Prefer": "wait=30"})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_command"), refused.text
    tenant.done("POST", f"{path}/consent", {"duration_s": 300, "masked_fields": ["phone"]})
    allows.done("POST", f"{path}/approve")
    for told in (asks.http.get(path).json(), tenant.http.get(root).json()["data"][0]):
        assert (told["state"], told["not_before"], told["duration_s"]) == ("approved", begins, 300)
        assert told["masked_fields"] == ["email", "phone"]
        assert told["asked"] == {"duration_s": 600, "masked_fields": ["email"]}
    assert datetime.fromisoformat(told["expires_at"]) - datetime.fromisoformat(begins) == timedelta(seconds=300)
    early = asks.http.post(f"{path}/token")
    assert (early.status_code, early.json()["code"]) == (403, "grant_inactive")
    moved = b"update support_grant set not_before = clock_timestamp() + %s where grant_id = %s"
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
        connection.execute(moved, (timedelta(), grant))
        uses = a_client(system, asks.http.post(f"{path}/token").json()["token"])
        connection.execute(moved, (timedelta(hours=1), grant))  # as for an ingress whose clock is ahead
        refused = uses.get(one)
        assert (refused.status_code, refused.json()["code"]) == (403, "grant_inactive")
        connection.execute(moved, (timedelta(), grant))
        assert uses.get(one).json()["payload"] == {"kept": "shown"}
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute("update support_grant set duration_s = 601 where grant_id = %s", (grant,))
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute("update support_grant set masked_fields = 'phone' where grant_id = %s", (grant,))
    rows = tenant.http.get("/v1/audit", params={"grant_id": grant}).json()["data"]
    assert [row["result"] for row in rows] == ["done", "refused"]


def a_grant_of_a_tenant_that_came_to_be_asked(system: PublicSystem) -> None:
    """It was of another tier when support asked; and a call for a token says no tenant."""
    tenant, ops = a_tenant(system), staff(system, "tenants:admin")
    asks, allows = staff(system, "support"), staff(system, "support:approve")
    root, own = f"/v1/tenants/{tenant.name}/support_grants", f"/v1/tenants/{tenant.name}"
    path = f"{root}/{asks.done('POST', root, {'reason': 'r', 'ticket': 'T-1'})['grant_id']}"
    assert asks.http.get(path).json()["needs_consent"] is False
    begins = {"reason": "r", "ticket": "T-1", "not_before": zulu(datetime.now(UTC) + timedelta(hours=1))}
    later = f"{root}/{asks.done('POST', root, begins)['grant_id']}"
    expires_at = allows.done("POST", f"{later}/approve")["expires_at"]
    ops.done("PATCH", own, {"tier": "enterprise"}, expected_version=ops.http.get(own).json()["version"])
    told = asks.http.get(later).json()
    assert [told[name] for name in ("state", "needs_consent", "expires_at")] == ["approved", True, None]
    assert tenant.done("POST", f"{later}/consent")["expires_at"] == expires_at
    approved = allows.done("POST", f"{path}/approve")
    assert (approved["state"], approved["needs_consent"]) == ("approved", True)
    assert asks.http.get(path).json()["needs_consent"] is True
    assert asks.http.post(f"{path}/token").json()["code"] == "grant_inactive"
    assert tenant.done("POST", f"{path}/consent")["state"] == "active"
    named = (
        {"tenant": tenant.name},
        {"payload": {"tenant_id": tenant.name}},
        {"idempotency_key": "k", "tenantid": "x"},
    )
    for body in (*named, []):
        refused = asks.http.post(f"{path}/token", json=body)
        assert (refused.status_code, refused.json()["code"]) == (400, "malformed_request"), refused.text
    for said in (None, {}, {"idempotency_key": "k", "payload": {}}):
        assert asks.http.post(f"{path}/token", json=said).status_code == 201


def becomes_conflicts(tenant: Caller) -> list[dict[str, Any]]:
    return eventually(lambda: tenant.http.get("/v1/usage_conflicts").json()["data"])


def billed(ops: Caller, tenant: Caller, begins: datetime, ends: datetime) -> dict[str, Any]:
    payload = {"from": zulu(begins), "to": zulu(ends), "grace_s": 0}
    return ops.done("POST", f"/v1/tenants/{tenant.name}/billing_runs", payload)


def invoice(ops: Caller, tenant: Caller, run: dict[str, Any]) -> dict[str, Any]:
    path = f"/v1/tenants/{tenant.name}/billing_runs/{run['billing_run_id']}"
    invoice_id = eventually(lambda: ops.http.get(path).json()["invoice_id"])
    return tenant.http.get(f"/v1/invoices/{invoice_id}").json()


def a_history(system: PublicSystem) -> None:
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
        becomes(lambda: usage_not_fed(system), 0)
