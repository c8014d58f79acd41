"""The console's pages of tenants on the running system: all of a tenant on one page, and nothing of it that is secret."""

from __future__ import annotations

import json
import os
import re
import signal
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from dataflows.tenancy.domain.invoice_intent import BILLING_MERCHANT
from schemas.limits import AMOUNT_MINOR_MAX
from tests.eventually import becomes, eventually
from tests.worlds.payments.console_world import HOSTILE, Visitors, visitors
from tests.worlds.public_system import public
from tests.worlds.tenancy_world import TRY_AGAIN, Caller, Tenancy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.worlds.public_system import PublicSystem

__all__ = ["public", "visitors"]  # the fixtures of this module
pytestmark = pytest.mark.servers
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
DAY = timedelta(days=1)
ROOM = {"kind": "limit", "dimension": "resources", "limit": 1, "soft": True}


@dataclass(frozen=True)
class Scene:
    """What was made."""

    tenant: str
    invoice: str
    grant: str
    resource: str
    person: str


def metered(tenant: Caller, day: int, quantity: int) -> dict[str, Any]:
    at = (TODAY - day * DAY).isoformat()
    data = {"dimension": "tokens", "quantity": quantity}
    event = {"specversion": "1.0", "type": "millrace.usage", "source": "/page", "id": f"{day}", "time": at}
    return event | {"data": data}


def a_scene(public: PublicSystem) -> Iterator[Scene]:
    """A tenant with usage of ten days, a bill with a correction, and a call of support."""
    tenancy = Tenancy(public)
    staff, member = tenancy.staff, tenancy.tenant(name=f"Tenant {HOSTILE}", prices={"tokens": "12.5"})
    root = f"/v1/tenants/{member.name}"
    writer = Caller(public, member.name, "tenant", ("usage:write", "resources:write"))
    resource = writer.done("POST", "/v1/resources", {"secret": "what nobody reads"})["resource_id"]
    events = [metered(member, day, 100 * day * (day % 3 + 1)) for day in range(1, 11)]
    kind = {"Content-Type": "application/cloudevents-batch+json"}
    assert writer.http.post("/v1/usage/events", content=json.dumps(events), headers=kind).status_code == 202
    span = {"dimension": "tokens", "from": (TODAY - 11 * DAY).isoformat(), "to": TODAY.isoformat()}
    becomes(lambda: [row["events"] for row in member.http.get("/v1/usage", params=span).json()["data"]], [10])
    staff.done(
        "PUT", f"{root}/entitlements", {"entitlements": {"exports": {"kind": "bool", "value": True}, "room": ROOM}}
    )
    less = {"dimension": "tokens", "quantity": -50, "at": (TODAY - 3 * DAY).isoformat(), "reason": HOSTILE}
    staff.done("POST", f"{root}/usage_adjustments", less)
    period = {"from": (TODAY - 10 * DAY).isoformat(), "to": TODAY.isoformat(), "grace_s": 0}
    run = staff.done("POST", f"{root}/billing_runs", period)["billing_run_id"]
    invoice = eventually(lambda: staff.get(f"{root}/billing_runs/{run}")["invoice_id"])
    asks = Caller(public, "m_support", "merchant", ("support",))
    allows = Caller(public, "m_support", "merchant", ("support:approve",))
    grant = asks.done("POST", f"{root}/support_grants", {"reason": HOSTILE, "ticket": "T-7"})["grant_id"]
    allows.done("POST", f"{root}/support_grants/{grant}/approve")
    denied = asks.done("POST", f"{root}/support_grants", {"reason": HOSTILE, "ticket": "T-" + 80 * "8"})["grant_id"]
    allows.done("POST", f"{root}/support_grants/{denied}/deny")  # a wide row with a form at its end
    token = asks.http.post(f"{root}/support_grants/{grant}/token").json()["token"]
    assert member.http.get("/v1/resources", headers={"Authorization": f"Bearer {token}"}).status_code == 200
    yield Scene(member.name, invoice, grant, resource, staff.person)
    for caller in (writer, asks, allows):
        caller.http.close()
    tenancy.close()


scene = pytest.fixture(scope="module")(a_scene)


def test_all_of_a_tenant_is_on_one_page(visitors: Visitors, scene: Scene) -> None:
    """For whoever may look; what strangers wrote is text, and no payload is there."""
    reader = visitors(f"m_{uuid.uuid4().hex[:8]}", "console:read")
    page = reader.get(f"/console/tenants/{scene.tenant}")
    assert page.status_code == 200, page.text
    chain = "The newest rows are one chain up to its head, link 2"
    for shown in (
        scene.invoice,
        scene.grant,
        "T-7",
        "pooled",
        "exports",
        "soft limit reached",
        "resource_writes",
        chain,
        f'{scene.person} <span class="hint">as m_ops</span>',
    ):
        assert shown in page.text
    heights = re.findall(r'<rect x="\d+" y="([\d.]+)"', page.text)
    assert len(heights) == 2 * 30  # tokens, and our own writes
    assert "1.0" in heights  # the highest bar is full
    assert HOSTILE not in page.text
    assert "&lt;script&gt;" in page.text
    assert "what nobody reads" not in page.text
    who = f'{scene.person} <span class="hint">as m_ops</span></td>'
    assert who in page.text.partition("<h2>Invoices</h2>")[2].partition("<h2>Moves</h2>")[0]
    for path in ("/console/tenants", f"/console/tenants?name={scene.tenant}", "/console/billing", "/console/grants"):
        assert scene.tenant in reader.get(path).text
    assert scene.tenant not in reader.get("/console/tenants?name=of%20nobody").text


def test_what_stores_may_hold_is_on_a_board(public: PublicSystem, visitors: Visitors) -> None:
    """As the shell says it. No bound is set here: other tests bring tenants meanwhile."""
    page = visitors(f"m_{uuid.uuid4().hex[:8]}", "console:read").get("/console/capacity").text
    for store in ("tenancy_pool", "schemas", "databases"):
        assert f'<td class="id">{store}</td>' in page
    assert 'aria-label="Places of tenancy_pool that are taken"' in page
    assert "No store takes another" not in page
    tenancy = Tenancy(public)
    member = Caller(public, tenancy.tenant().name, "tenant", ("tenants:admin",))
    with member.http:
        found = {one["store"]: one for one in tenancy.staff.get("/v1/placements")["data"]}
        assert {(name, found[name]["mode"], found[name]["state"]) for name in found} >= {
            ("tenancy_pool", "pooled", "active"), ("schemas", "partitioned", "active"),
            ("databases", "dedicated", "active"),
        }  # fmt: skip
        assert 0 < found["tenancy_pool"]["tenants"] < found["tenancy_pool"]["tenants_max"]
        assert member.http.get("/v1/placements").status_code == 403
    tenancy.close()


def test_an_invoice_is_shown_line_by_line(visitors: Visitors, scene: Scene) -> None:
    reader = visitors(f"m_{uuid.uuid4().hex[:8]}", "console:read")
    page = reader.get(f"/console/invoices/{scene.invoice}").text
    for shown in ("usage", "adjustment", "12.5", "meter 1", "&lt;script&gt;", scene.tenant):
        assert shown in page
    assert HOSTILE not in page
    for path in ("/console/tenants/tn_none", "/console/invoices/in_none"):
        assert reader.get(path).status_code == 404


def billed(staff: Caller, root: str, begins: datetime) -> str:
    """The invoice of a day."""
    period = {"from": begins.isoformat(), "to": (begins + DAY).isoformat(), "grace_s": 0}
    run = staff.done("POST", f"{root}/billing_runs", period)["billing_run_id"]
    found: str = eventually(lambda: staff.get(f"{root}/billing_runs/{run}")["invoice_id"])
    return found


def voids(public: PublicSystem, invoice: str) -> list[tuple[str, str]]:
    """Who asked that nobody pay it, and what became of that."""
    asked = "select actor, outcome from audit_log where action = 'invoice.void' and object = %s order by seq"
    with psycopg.connect(public.settings.addresses().postgres_superuser_dsn) as connection:
        return connection.execute(asked, (invoice,)).fetchall()


def test_an_invoice_of_more_than_a_payment_can_be_says_so(public: PublicSystem) -> None:
    """And blames no value that nobody sent."""
    tenancy = Tenancy(public)
    name, day = tenancy.tenant().name, TODAY - 15 * DAY
    payer, root = Caller(public, name, "tenant", ("tenant:admin",)), f"/v1/tenants/{name}"
    more = {
        "dimension": "tokens",
        "quantity": AMOUNT_MINOR_MAX,
        "at": day.isoformat(),
        "unit_price": "1",
        "reason": "x",
    }
    for _ in range(2):
        tenancy.staff.done("POST", f"{root}/usage_adjustments", more)
    path = f"/v1/invoices/{billed(tenancy.staff, root, day)}"
    assert payer.get(path)["total"] > AMOUNT_MINOR_MAX
    for caller, verb, said in ((payer, "pay", {"payment_method": "tok_sim_approve"}), (tenancy.staff, "void", {})):
        answer = caller.send("POST", f"{path}/{verb}", said)
        assert (answer.status_code, answer.json()["code"]) == (409, "state_conflict")
    payer.http.close()
    tenancy.close()


@pytest.mark.faults
def test_an_invoice_is_paid_once_by_whoever_tries_though_its_owner_is_killed(
    public: PublicSystem, scene: Scene
) -> None:
    """A decline leaves it unpaid; of tries at once one succeeds; what is refunded or void is said."""
    payer = Caller(public, scene.tenant, "tenant", ("tenant:admin",))
    tenancy = Tenancy(public)
    staff, stranger = tenancy.staff, tenancy.tenant()
    path, root = f"/v1/invoices/{scene.invoice}", f"/v1/tenants/{scene.tenant}"
    total = payer.get(path)["total"]
    assert payer.get(f"{path}/payment")["state"] == "unpaid"
    assert staff.send("POST", f"{path}/pay", {"payment_method": "tok_sim_approve"}).status_code == 403
    assert payer.send("POST", f"{path}/void", {}).status_code == 403
    for verb in ("pay", "void"):
        assert stranger.send("POST", f"{path}/{verb}", {}).status_code == 404
    payer.done("POST", f"{path}/pay", {"payment_method": "tok_sim_decline"})
    becomes(lambda: bool(payer.get(f"{path}/payment")["last_payment_error"]), True, 60)
    assert payer.get(f"{path}/payment")["state"] == "unpaid"
    os.kill(public.pids("owner")[0], signal.SIGKILL)

    def tried(key: str) -> int:
        def ask() -> int:
            status = payer.send("POST", f"{path}/pay", {"payment_method": "tok_sim_approve"}, key).status_code
            return 0 if status in TRY_AGAIN else status

        return eventually(ask, 60)

    keys = [uuid.uuid4().hex for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(tried, keys)) == [200, 409, 409, 409]
    becomes(lambda: payer.get(f"{path}/payment")["state"], "paid", 60)
    assert [tried(key) for key in keys].count(200) == 1  # retries have their stored answers
    paid = "select amount_received from payment_intent where merchant_id = %s and reference = %s"
    assert public.rows(paid, BILLING_MERCHANT, scene.invoice) == [(total,)]
    assert staff.send("POST", f"{path}/void", {}).status_code == 409
    assert voids(public, scene.invoice) == [(staff.person, "begun"), (staff.person, "refused")]
    biller = Caller(public, BILLING_MERCHANT, "merchant", ("payments:write", "payments:read"))
    refund = {"payment_intent": payer.get(f"{path}/payment")["payment_intent"], "amount": 1}
    biller.done("POST", "/v1/refunds", refund)
    becomes(lambda: payer.get(f"{path}/payment")["state"], "partly_refunded", 60)
    empty = billed(staff, root, TODAY - 13 * DAY)
    assert payer.get(f"/v1/invoices/{empty}/payment")["state"] == "nothing_due"
    for caller, act, said in ((payer, "pay", {"payment_method": "tok_sim_approve"}), (staff, "void", {})):
        nothing = caller.send("POST", f"/v1/invoices/{empty}/{act}", said)
        assert (nothing.status_code, nothing.json().get("current_state")) == (409, "nothing_due")
    more = {"dimension": "tokens", "quantity": 8, "at": (TODAY - 12 * DAY).isoformat(), "reason": "counted by hand"}
    staff.done("POST", f"{root}/usage_adjustments", more)
    void = f"/v1/invoices/{billed(staff, root, TODAY - 12 * DAY)}"
    staff.done("POST", f"{void}/void", {})
    assert payer.get(f"{void}/payment")["state"] == "void"
    assert voids(public, void.rpartition("/")[2]) == [(staff.person, "begun"), (staff.person, "done")]
    assert payer.send("POST", f"{void}/pay", {"payment_method": "tok_sim_approve"}).status_code == 409
    for caller in (payer, biller):
        caller.http.close()
    tenancy.close()


def narrowed_by_its_tenant(public: PublicSystem, scene: Scene, grant: str, page: Callable[[], str]) -> None:
    shown = page()
    assert "without email payload.phone" in shown
    assert 'datetime="2026-01-01T00:00:00+00:00"' in shown
    member = Caller(public, scene.tenant, "tenant", ("tenant:admin",))
    narrowing = f"/v1/tenants/{scene.tenant}/support_grants/{grant}/consent"
    member.done("POST", narrowing, {"duration_s": 60, "masked_fields": ["card"]})
    member.http.close()
    assert "60 of 300 s, without email payload.phone card (asked: email payload.phone)" in page()


def test_operators_decide_grants_and_moves_by_their_roles(
    public: PublicSystem, visitors: Visitors, scene: Scene
) -> None:
    """Nobody approves what it asked for, forms of others are refused, and each decision stands in the audit log."""
    tenancy, root = Tenancy(public), f"/console/tenants/{scene.tenant}"
    ann = visitors("m_ann", "operator:support", subject="s_ann")
    bob = visitors("m_bob", "operator:support", subject="s_bob")
    zoe = visitors("m_zoe", "operator:platform", subject="s_zoe")
    asking = {"page": root, "key": uuid.uuid4().hex, "reason": "a look", "ticket": "T-8"}
    wrong = ann.post(f"{root}/grants", **asking, minutes="241")
    assert (wrong.status_code, "duration_s" in wrong.text) == (422, True)
    assert zoe.post(f"{root}/grants", **asking).status_code == 403
    masks = {"scopes": "resources:read usage:read", "masked_fields": "email payload.phone", "minutes": "5"}
    masks["not_before"] = "2026-01-01T00:00:00Z"
    for _ in range(2):  # sent again, it is the same
        assert ann.post(f"{root}/grants", **asking, **masks).headers["location"] == root
    found = tenancy.staff.get(f"/v1/tenants/{scene.tenant}/support_grants")["data"]
    (asked,) = (one for one in found if one["ticket"] == "T-8")
    assert (asked["masked_fields"], asked["scopes"]) == (masks["masked_fields"].split(), masks["scopes"].split())
    grant = f"{root}/grants/{asked['grant_id']}"
    narrowed_by_its_tenant(public, scene, asked["grant_id"], lambda: ann.get(root).text)
    assert "a second person has to approve" in ann.get("/console/grants").text
    assert ann.post(f"{grant}/approve", page=root, key=uuid.uuid4().hex).status_code == 409
    assert zoe.post(f"{grant}/approve", page=root, key=uuid.uuid4().hex).status_code == 403
    assert bob.http.post(f"{grant}/approve", data={"form_token": "0" * 64, "key": "k"}).status_code == 403
    approved = bob.post(f"{grant}/approve", page=root, key=uuid.uuid4().hex)
    assert approved.status_code == 303, approved.text
    grants = f"/v1/tenants/{scene.tenant}/support_grants/{grant.rpartition('/')[2]}"
    assert tenancy.staff.get(grants)["state"] == "active"
    assert tenancy.staff.get(grants)["approvers"] == ["s_bob"]
    assert bob.post(f"{grant}/revoke", page=root, key=uuid.uuid4().hex).status_code == 303
    assert tenancy.staff.get(grants)["state"] == "revoked"
    said = {"page": root, "key": uuid.uuid4().hex}
    assert ann.post(f"{grant}/review", **said, findings="all is well").status_code == 409  # it was hers
    assert bob.post(f"{grant}/review", **said, findings=" ").status_code == 422
    assert bob.post(f"{grant}/review", page=root, key=uuid.uuid4().hex, findings="one look").status_code == 303
    assert tenancy.staff.get(grants)["findings"] == "one look"
    assert "one look" in bob.get("/console/grants").text
    assert ann.post(f"{root}/moves", page=root, key=uuid.uuid4().hex, mode="partitioned").status_code == 403
    started = zoe.post(f"{root}/moves", page=root, key=uuid.uuid4().hex, mode="partitioned", rows_per_second="100")
    assert started.status_code == 303, started.text
    move = started.headers["location"]
    becomes(lambda: "Roll back to the source" in zoe.get(move).text, True, 60)
    digests = re.findall(r">([0-9a-f]{16})</td>", zoe.get(move).text)
    assert len(digests) == 2
    assert digests[0] == digests[1] != "0" * 16
    assert zoe.post(f"{move}/rollback", page=move, key=uuid.uuid4().hex).status_code == 303
    becomes(lambda: "rolled back" in zoe.get(move).text, True, 60)
    assert zoe.get("/console/noisy").status_code == 200
    done = b"select action, outcome from audit_log where actor = 's_bob' and action like 'grant.%'"
    with psycopg.connect(public.settings.addresses().postgres_superuser_dsn) as superuser:
        assert {("grant.approve", "done"), ("grant.revoke", "done")} <= set(superuser.execute(done).fetchall())
    tenancy.close()


def test_evidence_is_resolved_by_operators_of_the_platform(public: PublicSystem, visitors: Visitors) -> None:
    """Safe mode is theirs, too, and is not lifted where it is not on."""
    ann = visitors("m_ann", "operator:support", subject="s_ann")
    zoe = visitors("m_zoe", "operator:platform", subject="s_zoe")
    query = b"insert into isolation_violation (probe, evidence) values ('planted', %s) returning number"
    with psycopg.connect(public.settings.addresses().postgres_superuser_dsn, autocommit=True) as superuser:
        ((number,),) = superuser.execute(query, (HOSTILE,)).fetchall()
    assert public.rows("select since, probe, evidence from isolation_safe_mode where is_on") == []
    page = zoe.get("/console/isolation").text
    assert "violated" in page
    assert "Close to all tenants" in page
    assert ann.post("/console/isolation/safe_mode/close", page="/console/isolation", note="n").status_code == 403
    assert zoe.post("/console/isolation/safe_mode/lift", page="/console/isolation", note="n").status_code == 409
    assert HOSTILE not in page
    where = f"/console/isolation/{number}"
    assert zoe.post(where, page="/console/isolation", note="").status_code == 422
    assert zoe.post(where, page="/console/isolation", note="planted by hand").status_code == 303
    assert zoe.post(where, page="/console/isolation", note="again").status_code == 409
    resolved = "select resolved_by, note from isolation_violation where number = %s"
    assert public.rows(resolved, number) == [("s_zoe", "planted by hand")]
    staff, member = (
        Caller(public, "m_ops", "merchant", ("tenants:admin",)),
        Caller(public, "tn_x", "tenant", ("tenants:admin",)),
    )
    with staff.http, member.http:
        (told,) = [one for one in staff.get("/v1/isolation/evidence", limit=100)["data"] if one["number"] == number]
        said = {name: told[name] for name in ("number", "probe", "evidence", "resolved_by", "note")}
        assert said == {"number": number, "probe": "planted", "evidence": HOSTILE} | {
            "resolved_by": "s_zoe", "note": "planted by hand"
        }  # fmt: skip
        assert told["seen_at"] < told["resolved_at"]
        assert member.http.get("/v1/isolation/evidence").status_code == 403
