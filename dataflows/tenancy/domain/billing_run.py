"""Decides when a period of a tenant may be billed: once, when it is over, at the prices of that moment. Pure.

One owner decides all runs of a tenant, one after another: of many requests for a period at once, one succeeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from schemas.records import Command, Rejection
from schemas.refusals import state_conflict, wrong_value
from schemas.tenancy import limits, pricing
from schemas.tenancy.instants import instant, parsed
from schemas.tenancy.operations import person_of

Period = tuple[int, int]


class DeskTenant(Struct, frozen=True):
    """A tenant as billing knows it; currency and prices are fixed when a run is made."""

    tenant_id: str
    tier: str
    currency: str
    prices: Mapping[str, str]


class BillingRun(Struct, frozen=True, kw_only=True):
    """A billed period and its terms. Its invoice is made when the grace is over."""

    billing_run_id: str
    invoice_id: str
    tenant_id: str
    number: int  # among those of its tenant
    from_us: int
    to_us: int
    grace_s: int
    currency: str
    prices: Mapping[str, str]
    created_at: int
    made_by: str | None = None  # in whose name; None = made before that was kept
    person: str | None = None  # who it was; None = as above

    @property
    def period(self) -> Period:
        """Its beginning, and its end (not included)."""
        return self.from_us, self.to_us


def decide_billing_run(
    tenant: DeskTenant, billed: Iterable[Period], number: int, billing_run_id: str, command: Command, now: int
) -> BillingRun | Rejection:
    """The run, or a refusal. ``billed``: the periods of the tenant's runs; ``number``: the next."""
    begins, ends = parsed(command.payload["from"]), parsed(command.payload["to"])
    if begins is None or ends is None or begins >= ends:
        return wrong_value("payload.to", "must be after payload.from")
    if begins < now - limits.BILLING_PERIOD_AGE_MAX_S * 1_000_000:
        days = limits.BILLING_PERIOD_AGE_MAX_S // 86_400
        return wrong_value("payload.from", f"must be within the last {days} days: older usage is not kept")
    if ends > now:
        return state_conflict("not_over", "The period is not over yet.")
    if other := next((period for period in billed if period[0] < ends and begins < period[1]), None):
        return state_conflict(
            "billed", f"The period from {instant(other[0])} to {instant(other[1])} is billed already."
        )
    return BillingRun(
        billing_run_id=billing_run_id,
        invoice_id="in_" + billing_run_id.partition("_")[2],
        tenant_id=tenant.tenant_id,
        number=number,
        from_us=begins,
        to_us=ends,
        grace_s=int(str(command.payload["grace_s"])),
        currency=tenant.currency,
        prices=tenant.prices,
        created_at=now,
        made_by=command.scope,
        person=person_of(command),
    )


def rendered(run: BillingRun, *, is_finalized: bool = False) -> dict[str, Any]:
    """The run as callers see it. It names its invoice once there is one."""
    return {
        "object": "billing_run",
        "billing_run_id": run.billing_run_id,
        "tenant_id": run.tenant_id,
        "from": instant(run.from_us),
        "to": instant(run.to_us),
        "grace_s": run.grace_s,
        "currency": run.currency,
        "prices": {name: pricing.shown(price) for name, price in run.prices.items()},
        "state": "finalized" if is_finalized else "collecting",
        "invoice_id": run.invoice_id if is_finalized else None,
        "by": run.made_by,
        "person": run.person,
        "created_at": instant(run.created_at),
        "version": run.number,
    }
