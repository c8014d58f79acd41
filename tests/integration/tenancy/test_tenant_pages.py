"""The console's pages of tenants on the running system: all of a tenant on one page, and nothing of it that is secret."""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.eventually import becomes, eventually
from tests.worlds.payments.console_world import HOSTILE, Visitors, visitors
from tests.worlds.public_system import public
from tests.worlds.tenancy_world import Caller, Tenancy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.public_system import PublicSystem

__all__ = ["public", "visitors"]  # the fixtures of this module
pytestmark = pytest.mark.servers
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Scene:
    """What was made."""

    tenant: str
    invoice: str
    grant: str
    resource: str


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
    staff.done("PUT", f"{root}/entitlements", {"entitlements": {"exports": {"kind": "bool", "value": True}}})
    less = {"dimension": "tokens", "quantity": -50, "at": (TODAY - 3 * DAY).isoformat(), "reason": HOSTILE}
    staff.done("POST", f"{root}/usage_adjustments", less)
    period = {"from": (TODAY - 10 * DAY).isoformat(), "to": TODAY.isoformat(), "grace_s": 0}
    run = staff.done("POST", f"{root}/billing_runs", period)["billing_run_id"]
    invoice = eventually(lambda: staff.get(f"{root}/billing_runs/{run}")["invoice_id"])
    asks = Caller(public, "m_support", "merchant", ("support",))
    allows = Caller(public, "m_support", "merchant", ("support:approve",))
    grant = asks.done("POST", f"{root}/support_grants", {"reason": HOSTILE, "ticket": "T-7"})["grant_id"]
    allows.done("POST", f"{root}/support_grants/{grant}/approve")
    yield Scene(member.name, invoice, grant, resource)
    for caller in (writer, asks, allows):
        caller.http.close()
    tenancy.close()


scene = pytest.fixture(scope="module")(a_scene)


def test_all_of_a_tenant_is_on_one_page(visitors: Visitors, scene: Scene) -> None:
    """For whoever may look; what strangers wrote is text, and no payload is there."""
    reader = visitors(f"m_{uuid.uuid4().hex[:8]}", "console:read")
    page = reader.get(f"/console/tenants/{scene.tenant}")
    assert page.status_code == 200, page.text
    for shown in (scene.invoice, scene.grant, "T-7", "pooled", "exports", "resource writes"):
        assert shown in page.text
    heights = re.findall(r'<rect x="\d+" y="([\d.]+)"', page.text)
    assert len(heights) == 2 * 30  # tokens, and our own writes
    assert "1.0" in heights  # the highest bar is full
    assert HOSTILE not in page.text
    assert "&lt;script&gt;" in page.text
    assert "what nobody reads" not in page.text
    for path in ("/console/tenants", f"/console/tenants?name={scene.tenant}", "/console/billing", "/console/grants"):
        assert scene.tenant in reader.get(path).text
    assert scene.tenant not in reader.get("/console/tenants?name=of%20nobody").text


def test_an_invoice_is_shown_line_by_line(visitors: Visitors, scene: Scene) -> None:
    reader = visitors(f"m_{uuid.uuid4().hex[:8]}", "console:read")
    page = reader.get(f"/console/invoices/{scene.invoice}").text
    for shown in ("usage", "adjustment", "12.5", "&lt;script&gt;", scene.tenant):
        assert shown in page
    assert HOSTILE not in page
    for path in ("/console/tenants/tn_none", "/console/invoices/in_none"):
        assert reader.get(path).status_code == 404
