"""What callers of tenants may say, and where the answers lead them."""

from __future__ import annotations

import json
import re
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.eventually import becomes
from tests.worlds.public_system import public
from tests.worlds.tenancy_world import Caller, Tenancy

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from tests.worlds.public_system import PublicSystem

__all__ = ["public"]  # the fixtures of this module
pytestmark = [pytest.mark.servers]

_METHODS = ("get", "post", "put", "patch", "delete")
BLANK = " \u200b\u00a0"


@pytest.fixture
def tenancy(public: PublicSystem) -> Iterator[Tenancy]:
    found = Tenancy(public)
    yield found
    found.close()


def wrong_fields(answer: httpx.Response) -> list[str]:
    """The fields that an answer calls wrong."""
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_command"), answer.text
    return [one["field"] for one in answer.json()["errors"]]


def test_a_reason_and_a_name_that_nobody_can_read_are_none(tenancy: Tenancy) -> None:
    caller, staff = tenancy.tenant(), tenancy.staff
    path = f"/v1/tenants/{caller.name}"
    assert wrong_fields(staff.send("POST", "/v1/tenants", {"name": BLANK})) == ["payload.name"]
    assert wrong_fields(staff.send("PATCH", path, {"name": BLANK}, version=1)) == ["payload.name"]
    blocked = {"mode": "blocked", "reason": BLANK}
    assert wrong_fields(staff.send("POST", f"{path}/suspend", blocked)) == ["payload.reason"]
    assert staff.get(path)["state"] == "active"


def test_what_is_metered_under_a_name_is_priced_limited_and_corrected_under_it(
    public: PublicSystem, tenancy: Tenancy
) -> None:
    name = "API.Calls:v2-eu"
    caller, staff = tenancy.tenant(prices={name: "0.5"}, quotas={name: 1_000}), tenancy.staff
    path = f"/v1/tenants/{caller.name}"
    found = staff.get(path)
    assert (found["prices"], found["quotas"]) == ({name: "0.5"}, {name: 1_000})
    assert name in {one["dimension"] for one in caller.get("/v1/quotas")["data"]}
    meters = Caller(public, caller.name, "tenant", ("usage:write", "usage:read"))
    now = datetime.now(UTC)
    event = {"specversion": "1.0", "id": uuid.uuid4().hex, "source": "gate", "type": "millrace.usage",
             "time": now.isoformat(), "data": {"dimension": name, "quantity": 7}}  # fmt: skip
    with meters.http:
        media = {"Content-Type": "application/cloudevents+json"}
        answer = meters.http.post("/v1/usage/events", content=json.dumps(event), headers=media)
        assert answer.status_code == 202, answer.text
        span = {"from": (now - timedelta(hours=1)).isoformat(), "to": (now + timedelta(hours=1)).isoformat()}
        asked = {name_: at.replace("+00:00", "Z") for name_, at in span.items()}
        becomes(lambda: [one["quantity"] for one in meters.get("/v1/usage", dimension=name, **asked)["data"]], [7], 60)
        assert caller.done("POST", "/v1/resources", {"n": 1})  # is metered, too
        becomes(lambda: meters.get("/v1/usage_dimensions", limit=1)["has_more"], True, 60)
        pages = [meters.get("/v1/usage_dimensions", limit=1)]
        pages.append(meters.get("/v1/usage_dimensions", limit=1, cursor=pages[0]["next_cursor"]))
        assert [[one["dimension"] for one in page["data"]] for page in pages] == [[name], ["resource_writes"]]
        assert datetime.fromisoformat(pages[0]["data"][0]["last_used_at"]) == now
        assert (pages[1]["has_more"], pages[1]["next_cursor"]) == (False, None)
        others = Caller(public, tenancy.tenant().name, "tenant", ("usage:read",))
        with others.http:
            assert others.get("/v1/usage_dimensions")["data"] == []
            stolen = others.http.get("/v1/usage_dimensions", params={"cursor": pages[0]["next_cursor"]})
            assert stolen.status_code == 400
    corrected = {"dimension": name, "quantity": 1, "at": now.isoformat(), "reason": "not counted"}
    assert staff.done("POST", f"{path}/usage_adjustments", corrected)["entry_id"]
    assert wrong_fields(staff.send("POST", "/v1/tenants", {"name": "n", "prices": {"a b": "1"}})) == ["payload.prices"]


def test_what_is_made_below_a_tenant_is_read_where_the_answer_leads(public: PublicSystem, tenancy: Tenancy) -> None:
    caller, staff = tenancy.tenant(), tenancy.staff
    support = Caller(public, "m_support", "merchant", ("support",))
    path = f"/v1/tenants/{caller.name}"
    over = {"from": "2026-01-01T00:00:00Z", "to": "2026-02-01T00:00:00Z"}
    made: list[tuple[Caller, str, dict[str, Any], str]] = [
        (staff, "/v1/tenants", {"name": "Another"}, "tenant_id"),
        (caller, "/v1/resources", {"n": 1}, "resource_id"),
        (staff, f"{path}/export", {}, "export_id"),
        (staff, f"{path}/migrations", {"placement": {"mode": "partitioned"}}, "migration_id"),
        (staff, f"{path}/billing_runs", over, "billing_run_id"),
        (support, f"{path}/support_grants", {"reason": "a look", "ticket": "T-1"}, "grant_id"),
    ]
    with support.http:
        for who, where, payload, named in made:
            answer = who.send("POST", where, payload)
            assert answer.status_code == 201, answer.text
            found = who.http.get(answer.headers["location"])
            assert found.status_code == 200, (answer.headers["location"], found.text)
            assert found.json()[named] == answer.json()["result"][named]
        credit = staff.send("POST", f"{path}/credits", {"amount": 5, "reason": "sorry"})
        assert (credit.status_code, "location" in credit.headers) == (201, False), "no entry is read alone"


def test_a_bare_payload_is_stored_as_it_was_given(tenancy: Tenancy) -> None:
    """Whatever its fields are called, where the identity stands in the header."""
    caller = tenancy.tenant()
    given: list[dict[str, Any]] = [
        {"payload": {"n": 1}},
        {"payload": 5},
        {"payload": {"n": 2}, "expected_version": 7, "request_id": "x", "operation": "sell"},
    ]
    for document in given:
        made = caller.done("POST", "/v1/resources", document)
        one = f"/v1/resources/{made['resource_id']}"
        assert caller.get(one)["payload"] == document
        again = {"payload": document}
        assert caller.done("PUT", one, again, version=1)["payload"] == again
    key = uuid.uuid4().hex
    envelope = {"idempotency_key": key, "payload": {"n": 3}}
    for headers in ({}, {"Idempotency-Key": key}):
        answer = caller.http.post("/v1/resources", json=envelope, headers=headers)
        assert (answer.status_code, answer.json()["result"]["payload"]) == (201, {"n": 3}), "an envelope says its key"


@pytest.mark.parametrize("nothing", [{}, {"name": None, "prices": None}])
def test_a_change_of_nothing_is_no_version(tenancy: Tenancy, nothing: dict[str, Any]) -> None:
    caller, staff = tenancy.tenant(), tenancy.staff
    path = f"/v1/tenants/{caller.name}"
    before = staff.get(path)
    assert wrong_fields(staff.send("PATCH", path, nothing, version=before["version"])) == ["payload"]
    assert staff.get(path) == before


@pytest.mark.parametrize("name", ["tenant", "tenant_id", "tenantid"])
def test_a_tenant_that_a_body_names_is_refused_before_what_it_is_about_is_looked_for(
    public: PublicSystem, tenancy: Tenancy, name: str
) -> None:
    """An invoice, a tenant or a grant that never was, or is another's: no other answer than that of one's own."""
    caller, other = tenancy.tenant(), tenancy.tenant()
    support = Caller(public, "m_support", "merchant", ("support", "support:approve"))
    asked = [(caller, "/v1/invoices/in_never/pay"), (tenancy.staff, "/v1/invoices/in_never/void")]
    for of in ("tn_never", other.name):
        grant = f"/v1/tenants/{of}/support_grants/sg_never"
        asked += [(caller, f"{grant}/consent"), (caller, f"{grant}/revoke"), (support, grant.rpartition("/")[0])]
        asked += [(support, f"{grant}/{verb}") for verb in ("approve", "deny", "revoke", "review", "token")]
    with support.http:
        for who, path in asked:
            for said in ({name: caller.name}, {"idempotency_key": "k", "payload": {name: caller.name}}):
                answer = who.http.post(path, json=said, headers={"Idempotency-Key": "k"})
                assert (answer.status_code, answer.json()["code"]) == (400, "malformed_request"), (path, answer.text)
        assert caller.send("POST", "/v1/invoices/in_never/pay", {"payment_method": "tok"}).status_code == 404


def test_no_route_takes_a_tenant_from_a_header_or_a_query(tenancy: Tenancy) -> None:
    """Whatever the route is for, also those without a token, and with the caller's own id."""
    caller = tenancy.tenant()
    document = caller.http.get("/openapi.json").json()["paths"]
    routes = [(method, path) for path, methods in document.items() for method in methods if method in _METHODS]
    assert ("get", "/healthz") in routes
    taken = []
    for method, path in routes:
        at = re.sub(r"{\w+}", "x_1", path)
        for said in ({"headers": {"X-Tenant": caller.name}}, {"headers": {"x-TENANT-id": caller.name}},
                     {"params": {"tenant": caller.name}}, {"params": {"tenantid": ""}}):  # fmt: skip
            answer = caller.http.request(method, at, **said)
            if (answer.status_code, answer.json().get("code")) != (400, "malformed_request"):
                taken.append((method, path, said, answer.status_code))
    assert not taken


def test_what_a_tenant_uses_of_its_quotas_is_read_by_staff_and_by_its_own_administrators(
    public: PublicSystem, tenancy: Tenancy
) -> None:
    caller, other = tenancy.tenant(quotas={"resources": 5, "tokens": None}), tenancy.tenant()
    caller.done("POST", "/v1/resources", {"n": 1})
    path, own = f"/v1/tenants/{caller.name}/quotas", caller.get("/v1/quotas")
    assert {"dimension": "resources", "limit": 5, "used": 1} in own["data"]
    assert {"dimension": "tokens", "limit": None, "used": None} in own["data"], "metered usage is not counted here"
    assert tenancy.staff.get(path) == caller.get(path) == own
    foreign, nobodys = other.http.get(path), other.http.get("/v1/tenants/tn_none/quotas")
    assert (foreign.status_code, foreign.content) == (404, nobodys.content)
    reads = Caller(public, caller.name, "tenant", ("resources:read",))
    with reads.http:
        assert reads.http.get(path).json()["code"] == "forbidden"
