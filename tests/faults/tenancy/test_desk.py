"""Usage, billing and support access on real servers, with processes that are killed."""

from __future__ import annotations

import json
import uuid
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from compose.operator_access import check_settings
from reconciliation.check.invariant import invariants
from sinks.clickhouse.connection import ClickHouseConnection
from tests.eventually import becomes, eventually, patient
from tests.gate import examples
from tests.services.counter_world import process
from tests.worlds.desk_world import (
    DAY,
    OPEN,
    TODAY,
    TRACE,
    Caller,
    a_client,
    a_grant,
    a_grant_of_a_tenant_that_came_to_be_asked,
    a_history,
    a_later_grant_of_less,
    a_tenant,
    an_event,
    becomes_conflicts,
    billed,
    gaps,
    in_clickhouse,
    invoice,
    staff,
    the_trace,
    usage_sink,
    zulu,
)
from tests.worlds.public_system import system_of_its_own
from tests.worlds.rolled_back import finding_of
from tests.worlds.support_audit import each_line_is_audited, no_answer_is_unaudited
from tests.worlds.tenancy_planted import WAYS
from tests.worlds.tenancy_world import INVARIANTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.public_system import PublicSystem

pytestmark = [pytest.mark.servers]
KILLED = -9


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    home, processes = tmp_path_factory.mktemp("desk"), ("tenancy_owner", "tenancy_metering", "tenancy_monitor")
    with system_of_its_own(home, services=("ingress",), ingress_processes=1, processes=processes) as made:
        yield made
        while OPEN:
            OPEN.pop().close()


@pytest.mark.faults
def test_usage_is_counted_once_wherever_its_metering_is_killed(system: PublicSystem) -> None:
    """One that stands still is replaced by who stood by, which is killed, then the next; who woke up takes over."""
    tenant, sent = a_tenant(system), 0
    killed_at = ("metering_before_position", "metering_after_commit")
    with system.frozen("tenancy_metering"), ExitStack() as started:
        victims = [
            started.enter_context(process(system, "tenancy_metering", place, f"{n}"))
            for n, place in enumerate(killed_at, 1)
        ]
        while left := [victim for victim in victims if victim.poll() is None]:
            assert tenant.meter([an_event(f"e{n}", 1) for n in range(sent, sent + 20)] * 2) == 202
            sent += 20
            eventually(lambda left=left: any(victim.poll() is not None for victim in left), 60)
        assert [victim.returncode for victim in victims] == [KILLED, KILLED]
    assert tenant.meter([an_event("e0", 7), an_event("e1", 1)]) == 202
    becomes(lambda: tenant.used("tokens"), [(sent, sent)])
    told = becomes_conflicts(tenant)
    assert [(one["event_id"], one["quantity"]) for one in told] == [("e0", 7)]
    values = {name: tenant.used("tokens", aggregation=name) for name in ("count", "min", "max", "latest", "percentile")}
    assert values == {"count": [(sent, sent)], **{name: [(1, sent)] for name in values if name != "count"}}


@pytest.mark.faults
def test_a_real_trace_metered_twice_under_kills_comes_to_its_own_sums(system: PublicSystem) -> None:
    if not TRACE.exists():
        pytest.skip("the trace of calls is in the shared data folder, which is not here")
    tenant, events = a_tenant(system, timezone="Asia/Kolkata"), the_trace()[: examples(3_000, 100_000)]
    batches = [events[n : n + 1_000] for n in range(0, len(events), 1_000)]
    for place in ("metering_before_position", "metering_after_commit"):
        with system.frozen("tenancy_metering"), process(system, "tenancy_metering", place) as victim:
            for batch in batches:
                assert tenant.meter(batch) == 202
            becomes(victim.poll, KILLED, 60)  # it takes over from who stands still
    for name in ("ContextTokens", "GeneratedTokens"):
        own: dict[datetime, list[int]] = {}
        for event in (one for one in events if one["data"]["dimension"] == name):
            hour = datetime.fromisoformat(event["time"]) + timedelta(minutes=30)  # of a zone between the hours
            own.setdefault(hour.replace(minute=0, second=0, microsecond=0), []).append(event["data"]["quantity"])
        wanted = [(sum(quantities), len(quantities)) for _, quantities in sorted(own.items())]
        becomes(lambda name=name: tenant.used(name, window="hour"), wanted)
    assert tenant.http.get("/v1/usage_conflicts").json()["data"] == []


@pytest.mark.faults
@pytest.mark.timeout(300)  # who makes it has the lease of a frozen process to wait for
def test_a_period_has_one_invoice_however_often_its_maker_is_killed_and_late_usage_is_in_the_next(
    system: PublicSystem,
) -> None:
    ops = staff(system, "tenants:admin")
    tenant = a_tenant(system, prices={"tokens": "0.5"}, home_currency="EUR")
    assert tenant.meter([an_event("one", 3, TODAY - 2 * DAY)]) == 202
    becomes(lambda: tenant.used("tokens"), [(3, 1)])
    with system.frozen("tenancy_metering"), process(system, "tenancy_metering", "invoice_before_commit") as victim:
        run = billed(ops, tenant, TODAY - 2 * DAY, TODAY - DAY)
        becomes(victim.poll, KILLED, 60)
    made = invoice(ops, tenant, run)
    late, edges = an_event("late", 2, TODAY - 2 * DAY), [an_event("two", 5, TODAY - DAY), an_event("end", 9, TODAY)]
    assert tenant.meter([late, *edges]) == 202
    becomes(lambda: tenant.used("tokens"), [(19, 4)])
    assert invoice(ops, tenant, run) == made
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
    shown = said | {"tokens": limit | {"soft": False, "period": "month"}}
    assert ops.done("PUT", path, {"entitlements": said})["entitlements"] == shown
    assert tenant.meter([an_event("now", 7, datetime.now(UTC)), an_event("long ago", 9, TODAY - 33 * DAY)]) == 202
    becomes(lambda: tenant.used("tokens", **{"from": zulu(TODAY - 35 * DAY)}), [(16, 2)])
    answer = tenant.http.get("/v1/entitlements")
    told = {one["feature"]: one for one in answer.json()["data"]}
    assert {name: one["allowed"] for name, one in told.items()} == {"exports": False, "plan": True, "tokens": True}
    assert (told["tokens"]["used"], told["tokens"]["remaining"]) == (7, 3)
    assert ops.http.get(path).json() == answer.json()
    assert answer.headers["ETag"] == '"1"'
    assert other.http.get(path).status_code == 404
    assert other.http.get("/v1/entitlements").json() == {"data": []}


def test_an_attribute_that_is_named_wrongly_is_refused_in_every_form_and_nothing_is_taken(
    system: PublicSystem,
) -> None:
    tenant = a_tenant(system)
    one, several = "application/cloudevents+json", "application/cloudevents-batch+json"
    good, bad = an_event("good", 1), an_event("bad", 1) | {"Trace-Id": "1"}
    for kind, body, headers, fields in (
        (one, bad, {}, ["Trace-Id"]),
        (several, [good, bad], {}, ["[1].Trace-Id"]),
        (one, good, {"ce-trace_id": "1"}, ["ce-trace_id"]),
        (several, [good], {"CE-Data": "1"}, ["ce-data"]),
    ):
        refused = tenant.http.post(
            "/v1/usage/events", content=json.dumps(body), headers={"Content-Type": kind, **headers}
        )
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_command"), refused.text
        assert [wrong["field"] for wrong in refused.json()["errors"]] == fields
    for headers, status in (({"ce-tenantid": "tn_1", "Content-Type": one}, 400), ({"ce-id": "good"}, 415)):
        kind = {"Content-Type": "application/json"} | headers
        assert tenant.http.post("/v1/usage/events", content=json.dumps(good), headers=kind).status_code == status
    assert tenant.meter([an_event("last", 1) | {"a" * 21: "1"}]) == 202
    becomes(lambda: tenant.used("tokens"), [(1, 1)])


@pytest.mark.faults
@pytest.mark.proof
def test_usage_is_in_clickhouse_once_though_its_sink_is_killed(system: PublicSystem) -> None:
    tenant = a_tenant(system)
    assert tenant.meter([an_event(f"e{n}", n) for n in range(50)]) == 202
    becomes(lambda: tenant.used("tokens"), [(sum(range(50)), 50)])
    with usage_sink(system, "sink_after_insert") as victim:
        assert victim.wait(patient(60)) == KILLED
    with usage_sink(system):
        becomes(lambda: in_clickhouse(system, tenant), (50, 50, sum(range(50))))
    assert gaps(system) == []


def test_a_clickhouse_that_lost_usage_has_it_again_by_what_operators_are_told(system: PublicSystem) -> None:
    guide = " ".join(Path("docs/operators.md").read_text().split())
    statement = guide[guide.index("`update stream_position p") + 1 :].partition("`")[0]
    tenant = a_tenant(system)
    assert tenant.meter([an_event(f"lost{n}", n) for n in range(5)]) == 202
    with usage_sink(system):
        becomes(lambda: in_clickhouse(system, tenant), (5, 5, 10))
    with closing(ClickHouseConnection(url=system.settings.addresses().clickhouse_url).client()) as client:
        client.command("truncate table tenant_usage")
    assert [gap["id"] for gap in gaps(system)] == ["tenancy_usage_stores"]
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn) as connection:
        connection.execute(statement.encode())
    with usage_sink(system):
        becomes(lambda: in_clickhouse(system, tenant), (5, 5, 10))
        becomes(lambda: gaps(system), [])


def test_an_open_stream_ends_when_its_tenant_is_blocked(system: PublicSystem) -> None:
    ops, tenant = staff(system, "tenants:admin"), a_tenant(system)
    path = f"/v1/tenants/{tenant.name}"
    with tenant.http.stream("GET", "/v1/events/stream") as answer:
        lines = answer.iter_lines()
        tenant.done("POST", "/v1/resources", {"n": 1})
        assert any(line.startswith("data:") for line in lines)
        ops.done("POST", f"{path}/suspend", {"mode": "blocked", "reason": "r"})
        becomes(lambda: tenant.http.get("/v1/resources").status_code, 403)
        ops.done("POST", f"{path}/keys/rotate")
        told = [line for line in lines if line.startswith("data:")]
    assert len(told) <= 1  # of the blocking itself


def test_support_gets_no_answer_that_is_not_audited(system: PublicSystem) -> None:
    no_answer_is_unaudited(system)


def test_each_line_of_a_list_under_a_grant_is_audited_as_a_call_is(system: PublicSystem) -> None:
    each_line_is_audited(system)


def test_what_support_asked_for_is_not_approved_once_its_tenant_is_deleted(system: PublicSystem) -> None:
    tenant, state = a_tenant(system), "update tenant set state = %s where tenant_id = %s"
    asks, allows = staff(system, "support"), staff(system, "support:approve")
    root = f"/v1/tenants/{tenant.name}/support_grants"
    path = f"{root}/{asks.done('POST', root, {'reason': 'r', 'ticket': 'T-1'})['grant_id']}/approve"
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn, autocommit=True) as superuser:
        superuser.execute(state, ["deleting", tenant.name])
        refused = allows.http.post(path, json={"idempotency_key": uuid.uuid4().hex, "payload": {}})
        superuser.execute(state, ["active", tenant.name])
    assert (refused.status_code, refused.json()["code"]) == (409, "state_conflict")
    assert allows.done("POST", path)["state"] == "active"


def test_no_answer_under_a_grant_has_a_field_that_it_masks(system: PublicSystem) -> None:
    """One, lists and events; the tenant sees all of it, and both sides see what is masked."""
    tenant, secret = a_tenant(system), f"secret-{uuid.uuid4().hex}"
    payload = {"email": secret, "kept": "shown", "people": [{"email": secret, "card": {"n": secret}}], "amount": 1.50}
    made = tenant.done("POST", "/v1/resources", payload)
    one = f"/v1/resources/{made['resource_id']}"
    masks = ["email", "people.card"]
    grant, uses = a_grant(system, tenant, masked_fields=masks)
    for path in (one, "/v1/resources", "/v1/resources?limit=1"):
        answer = uses.get(path)
        assert answer.status_code == 200, answer.text
        assert secret not in answer.text
        assert "email" not in answer.text
        assert "shown" in answer.text
        assert secret in tenant.http.get(path).text
    left = uses.get(one).json()["payload"]
    assert left == {"kept": "shown", "people": [{}], "amount": 1.5}
    for path in ("/v1/events", "/v1/usage_conflicts", "/v1/resources/rs_none", "/v1/audit"):
        assert secret not in uses.get(path).text
    root = f"/v1/tenants/{tenant.name}/support_grants"
    assert tenant.http.get(f"{root}/{grant}").json()["masked_fields"] == masks
    assert tenant.http.get(root).json()["data"][0]["masked_fields"] == masks
    told = tenant.http.get("/v1/audit", params={"grant_id": grant})
    assert "done" in {row["result"] for row in told.json()["data"]}
    assert secret not in told.text
    said = {"reason": "r", "ticket": "T-1", "scopes": ["resources:write"], "masked_fields": masks}
    body = {"idempotency_key": uuid.uuid4().hex, "payload": said}
    assert staff(system, "support").http.post(root, json=body).status_code == 422


def test_a_grant_answers_nothing_before_it_begins_and_no_more_than_the_tenant_consented_to(
    system: PublicSystem,
) -> None:
    a_later_grant_of_less(system)


def test_a_tenant_is_asked_by_its_tier_of_now(system: PublicSystem) -> None:
    a_grant_of_a_tenant_that_came_to_be_asked(system)


def test_who_breaks_the_glass_needs_two_others_is_told_of_at_once_and_reviewed(system: PublicSystem) -> None:
    """Nobody does it alone; the tenant reads it in its audit log, operators have a case until another person reviewed it."""
    tenant = a_tenant(system, tier="enterprise")
    made = tenant.done("POST", "/v1/resources", {"n": 1})
    asks, one, two, other = (staff(system, "support", "support:approve") for _ in range(4))
    root = f"/v1/tenants/{tenant.name}/support_grants"
    said = {"reason": "all is down", "ticket": "T-9", "break_glass": True}
    for wrong in ({"break_glass": "yes"}, {"break_glass": 1}, {"duration_s": 1_801}):
        refused = asks.http.post(root, json={"idempotency_key": uuid.uuid4().hex, "payload": said | wrong})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_command"), refused.text
    grant: str = asks.done("POST", root, said | {"duration_s": 600})["grant_id"]
    path = f"{root}/{grant}"

    def told(caller: Caller, verb: str, payload: dict[str, Any] | None = None) -> tuple[int, str]:
        body = {"idempotency_key": uuid.uuid4().hex, "payload": payload or {}}
        answer = caller.http.post(f"{path}/{verb}", json=body, headers={"Prefer": "wait=30"})
        return answer.status_code, answer.json().get("code", "")

    dsn = system.settings.addresses().postgres_superuser_dsn
    case = b"select state, resolved_by, note from repair_case where kind = 'break_glass' and reference = %s"
    with psycopg.connect(dsn, autocommit=True) as connection:
        assert connection.execute(case, (grant,)).fetchall() == [("open", None, None)]
        assert told(asks, "approve") == (403, "four_eyes_required")
        assert told(one, "approve") == (200, "")
        assert told(one, "approve") == (403, "four_eyes_required")
        assert asks.http.post(f"{path}/token").status_code == 403
        assert told(two, "approve") == (200, "")
        assert asks.http.get(path).json()["state"] == "active"
        uses = a_client(system, asks.http.post(f"{path}/token").json()["token"])
        assert uses.get(f"/v1/resources/{made['resource_id']}").status_code == 200
        rows = tenant.http.get("/v1/audit", params={"grant_id": grant}).json()["data"]
        assert [(row["seq"], row["action"].split(" ")[0], row["result"]) for row in rows] == [
            (2, "GET", "done"),
            (1, "break", "done"),
        ]
        findings = {"findings": "one resource was read, as the ticket says"}
        assert told(other, "review", findings) == (409, "state_conflict")
        tenant.done("POST", f"{path}/revoke")
        (why,) = connection.execute(b"select case_cause(c, 9) from repair_case c where reference = %s", (grant,))
        assert why == ("grant_unreviewed",)
        for wrong in ({}, {"findings": ""}, {"findings": 7}, {"findings": "x" * 5_000}, findings | {"person": "s_x"}):
            assert told(other, "review", wrong)[0] in (400, 422), wrong
        for caller in (asks, one, two):
            assert told(caller, "review", findings) == (403, "four_eyes_required")
        assert tenant.http.post(f"{path}/review", json={"payload": findings}).status_code == 403
        assert told(other, "review", findings) == (200, "")
        reviewed = tenant.http.get(path).json()
        assert (reviewed["state"], reviewed["findings"]) == ("reviewed", findings["findings"])
        assert connection.execute(case, (grant,)).fetchall() == [
            ("resolved", reviewed["reviewed_by"], findings["findings"])
        ]
    assert told(two, "review", findings) == (403, "four_eyes_required")
    assert gaps(system) == []


@pytest.fixture(scope="module")
def history(system: PublicSystem) -> None:
    """Some of everything that is tampered with below."""
    a_history(system)


def test_every_invariant_of_tenants_is_planted() -> None:
    elsewhere = {*INVARIANTS, "tenancy_watched"}
    assert {way[0] for way in WAYS} | elsewhere == {one.id for one in invariants() if one.id.startswith("tenancy_")}


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(("identity", "planted", "told"), WAYS)
def test_a_planted_violation_is_found(system: PublicSystem, identity: str, planted: str, told: str) -> None:
    """In a transaction that is rolled back, beside the running system."""
    settings, dsn = check_settings(system.settings), system.settings.addresses().postgres_superuser_dsn
    becomes(lambda: finding_of(settings, dsn, identity).gaps, 0)
    found = finding_of(settings, dsn, identity, planted)
    assert told in str(found.sample) != "[]"
    assert not found.note.startswith("could not")
