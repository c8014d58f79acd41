"""Billing entries that people make: corrections of usage and credit, for the next invoice. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from dataflows.tenancy.domain.billing_run import DeskTenant, Period
from schemas import limits
from schemas.records import Command, Rejection
from schemas.refusals import wrong_values
from schemas.tenancy import pricing
from schemas.tenancy.instants import instant, parsed
from schemas.tenancy.invoice import ADJUSTMENT, CREDIT
from schemas.tenancy.operations import person_of


class BillingEntry(Struct, frozen=True, kw_only=True):
    """One entry. Its price is fixed when it is made; ``period`` is the billed one that it corrects, None = none yet."""

    entry_id: str
    tenant_id: str
    number: int  # among those of its tenant
    kind: str
    dimension: str | None = None
    quantity: int | None = None
    unit_price: str | None = None
    at_us: int | None = None
    period: Period | None = None
    amount: int | None = None
    reason: str
    created_at: int
    made_by: str | None = None  # in whose name; None = made before that was kept
    person: str | None = None  # who it was; None = as above


def adjusted(
    tenant: DeskTenant,
    billed: Mapping[Period, Mapping[str, str]],
    number: int,
    entry_id: str,
    command: Command,
    now: int,
) -> BillingEntry | Rejection:
    """The correction, or a refusal. ``number``: the next.

    ``billed``: the periods of the tenant's runs, and the prices that each fixed: what is corrected in one costs what it
    did there, as late usage does.
    """
    said: dict[str, Any] = command.payload
    at = parsed(said["at"])
    period = None if at is None else next((one for one in billed if one[0] <= at < one[1]), None)
    prices = tenant.prices if period is None else billed[period]
    price = said["unit_price"] or prices.get(said["dimension"])
    wrong = []
    if said["quantity"] == 0:
        wrong.append({"field": "payload.quantity", "reason": "must not be 0"})
    if at is None or at > now:
        wrong.append({"field": "payload.at", "reason": "must not be to come"})
    if price is None or pricing.tariff(price) is not None:
        whose = "the dimension has" if period is None else "the dimension had, when that was billed,"
        reason = f"must be said: {whose} no price that is the same for each unit"
        wrong.append({"field": "payload.unit_price", "reason": reason})
    elif abs(pricing.amount(price, said["quantity"])) > limits.AMOUNT_MINOR_MAX:
        reason = f"times the price must be {limits.AMOUNT_MINOR_MAX} minor units at most, or as much less than nothing"
        wrong.append({"field": "payload.quantity", "reason": reason})
    if wrong or at is None:
        return wrong_values(wrong)
    return BillingEntry(
        entry_id=entry_id,
        tenant_id=tenant.tenant_id,
        number=number,
        kind=ADJUSTMENT,
        dimension=said["dimension"],
        quantity=said["quantity"],
        unit_price=price,
        at_us=at,
        period=period,
        reason=said["reason"],
        created_at=now,
        made_by=command.scope,
        person=person_of(command),
    )


def credited(tenant: DeskTenant, number: int, entry_id: str, command: Command, now: int) -> BillingEntry:
    """The credit."""
    said: dict[str, Any] = command.payload
    return BillingEntry(
        entry_id=entry_id,
        tenant_id=tenant.tenant_id,
        number=number,
        kind=CREDIT,
        amount=said["amount"],
        reason=said["reason"],
        created_at=now,
        made_by=command.scope,
        person=person_of(command),
    )


def rendered(entry: BillingEntry) -> dict[str, Any]:
    """The entry as callers see it."""
    about: dict[str, Any] = {"amount": entry.amount}
    if entry.kind == ADJUSTMENT:
        begins, ends = entry.period or (None, None)
        about = {
            "dimension": entry.dimension,
            "quantity": entry.quantity,
            "unit_price": entry.unit_price,
            "amount": pricing.amount(entry.unit_price or "0", entry.quantity or 0),
            "at": instant(entry.at_us or 0),
            "from": None if begins is None else instant(begins),
            "to": None if ends is None else instant(ends),
        }
    return {
        "object": "billing_entry",
        "entry_id": entry.entry_id,
        "tenant_id": entry.tenant_id,
        "kind": entry.kind,
        **about,
        "reason": entry.reason,
        "by": entry.made_by,
        "person": entry.person,
        "created_at": instant(entry.created_at),
        "version": entry.number,
    }
