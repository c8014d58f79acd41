"""Tenants: who they are and what they use, what they are billed, and who of support may look at them."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from starlette.requests import Request
from starlette.responses import Response

from ingress import limits
from ingress.commands import calling
from ingress.console import visit as visits
from ingress.http.parts import parts_of
from ingress.tenancy import quotas
from ingress.tenancy.billing import invoice_payment
from ingress.tenancy.billing.entitlements import Entitlements
from ingress.tenancy.billing.invoice_routes import intent_of
from schemas import errors
from schemas import limits as schemas_limits
from schemas.tenancy import pricing
from schemas.tenancy.value_types import MODES

KEY_BYTES: Final = 16
_FULL: Final = 40  # height of the highest bar

router: Final = visits.router()


class Bar(NamedTuple):
    """One day of a chart: where it stands, how high it is, and what it says."""

    day: date
    place: int
    height: float
    quantity: int
    events: int


@router.get("/tenants")
async def tenants(request: Request) -> Response:
    """The newest tenants, or those that a text names."""
    async with visits.reading_of(request, "tenants", "tenants") as visit:
        wanted = request.query_params.get("name", "").strip()[: limits.CONSOLE_SEARCH_LENGTH_MAX] or None
        bounds = {"counted": limits.CONSOLE_COUNTED_MAX, "limit": limits.CONSOLE_ROWS_MAX}
        rows = await visit.console.records("tenants_newest", wanted=wanted, **bounds)
    return visit.page("tenants.html", rows=rows, wanted=wanted or "", rows_max=limits.CONSOLE_ROWS_MAX)


@router.get("/tenants/{tenant_id}")
async def tenant(request: Request, tenant_id: str) -> Response:
    """All of one tenant on a page. Raises NotFound."""
    async with visits.reading_of(request, "tenant", tenant_id) as visit:
        calling.require_id(tenant_id)
        console, own = visit.console, {"tenant": tenant_id, "limit": limits.CONSOLE_ROWS_MAX}
        facts, used, runs, entries, grants, calls, chains, moves, changes = await asyncio.gather(
            console.records("tenant_facts", tenant=tenant_id),
            console.records("tenant_quotas", **own),
            console.records("billing_runs", **own),
            console.records("billing_entries", **own),
            console.records("grants", **own),
            console.records("grant_calls", **own),
            console.records("grant_chain", **own),
            console.records("tenant_moves", migration=None, **own),
            console.records("tenant_history", **own),
        )
        if not facts:
            raise errors.NotFound("There is no such tenant.")
        zone = facts[0]["timezone"]
        metered = await console.records(
            "tenant_usage",
            tenant=tenant_id,
            zone=zone,
            days=limits.CONSOLE_USAGE_DAYS,
            dimensions=limits.CONSOLE_DIMENSIONS_MAX,
            counted=limits.CONSOLE_COUNTED_MAX,
        )
    return visit.page(
        "tenant.html",
        tenant=facts[0],
        quotas=quotas.shown(facts[0]["quotas"], {row["dimension"]: row["used"] for row in used}),
        prices={name: pricing.shown(price) for name, price in sorted(facts[0]["prices"].items())},
        entitlements=await _entitled(request, tenant_id, zone),
        charts=charts(metered, datetime.now(ZoneInfo(zone)).date()),
        runs=runs,
        entries=entries,
        grants=grants,
        calls=calls,
        chain=chains[0] if chains else None,
        moves=moves,
        changes=changes,
        modes=[mode for mode in MODES if mode != facts[0]["mode"]],
        key=secrets.token_hex(KEY_BYTES),
        days=limits.CONSOLE_USAGE_DAYS,
        counted=limits.CONSOLE_COUNTED_MAX,
    )


async def _entitled(request: Request, tenant_id: str, zone: str) -> list[dict[str, Any]] | None:
    """What the tenant may now; None while that costs more than a page may."""
    try:
        found, _ = await parts_of(request).get(Entitlements).of(tenant_id, zone)
    except (errors.Overloaded, errors.DependencyTimeout):
        return None
    told: list[dict[str, Any]] = found["data"]
    return told


def charts(rows: Iterable[dict[str, Any]], today: date) -> dict[str, list[Bar]]:
    """A bar for each day up to today, by dimension; the highest of each is full."""
    days = [today - timedelta(days=limits.CONSOLE_USAGE_DAYS - 1 - n) for n in range(limits.CONSOLE_USAGE_DAYS)]
    found: dict[str, dict[date, dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["dimension"], {})[row["day"]] = row
    return {name: _bars(by_day, days) for name, by_day in found.items()}


def _bars(by_day: dict[date, dict[str, Any]], days: list[date]) -> list[Bar]:
    most = max((int(row["quantity"]) for row in by_day.values()), default=0) or 1
    bars = []
    for place, day in enumerate(days):
        quantity, events = (int(by_day[day][name]) if day in by_day else 0 for name in ("quantity", "events"))
        bars.append(Bar(day, place, round(_FULL * quantity / most, 1), quantity, events))
    return bars


@router.get("/grants")
async def grants(request: Request) -> Response:
    """The newest support grants of all tenants, and who may decide them."""
    async with visits.reading_of(request, "grants", "grants") as visit:
        rows = await visit.console.records("grants", tenant=None, limit=limits.CONSOLE_ROWS_MAX)
    return visit.page("grants.html", rows=rows, rows_max=limits.CONSOLE_ROWS_MAX, key=secrets.token_hex(KEY_BYTES))


@router.get("/billing")
async def billing(request: Request) -> Response:
    """The newest billing runs of all tenants, and what became of each."""
    async with visits.reading_of(request, "billing", "billing") as visit:
        rows = await visit.console.records("billing_newest", limit=limits.CONSOLE_ROWS_MAX)
    return visit.page("billing.html", rows=rows, now=datetime.now(UTC), rows_max=limits.CONSOLE_ROWS_MAX)


@router.get("/invoices/{invoice_id}")
async def invoice(request: Request, invoice_id: str) -> Response:
    """An invoice of a tenant, line by line. Raises NotFound."""
    async with visits.reading_of(request, "invoice", invoice_id) as visit:
        calling.require_id(invoice_id)
        rows = await visit.console.records("tenant_invoice", invoice=invoice_id)
        if not rows:
            raise errors.NotFound("There is no such invoice.")
    document = json.loads(bytes(rows[0]["document"]))
    intent = await intent_of(request, invoice_id)
    return visit.page(
        "invoice.html",
        invoice=document,
        made_at=rows[0]["created_at"],
        payment=invoice_payment.rendered(document, intent),
        key=secrets.token_hex(KEY_BYTES),
        note_max=schemas_limits.NOTE_LENGTH_MAX,
    )
