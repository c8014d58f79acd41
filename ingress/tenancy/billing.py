"""Billing runs and invoices as they are read: the stored bytes, or the same made again from the events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dataflows.tenancy.domain.billing_run import BillingRun, rendered
from ingress.http.pages import NewestFirst
from schemas import errors
from schemas.tenancy.invoice import Run, document, used_by
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from ingress.http.cursors import Cursors
    from ingress.http.pages import Place
    from ingress.http.store import Store

_SQL: Final = queries("sinks.postgres.queries.tenancy", "invoices.sql")


class StoredInvoice(NamedTuple):
    """An invoice that stands, and what its lines follow from."""

    tenant_id: str
    run_number: int
    ordinal: int
    cut: list[int]
    before: list[int]
    document: bytes


class Billing:
    """Reads of one process."""

    def __init__(self, store: Store, cursors: Cursors) -> None:
        self._store = store
        self._pages = NewestFirst(store, cursors)

    async def run(self, tenant_id: str, billing_run_id: str) -> dict[str, Any]:
        """One run of the tenant. Raises NotFound."""
        rows = await self._store.rows("billing_run_by_id", {"tenant": tenant_id, "id": billing_run_id})
        if not rows:
            raise errors.NotFound
        return _rendered(rows[0])

    async def runs(self, tenant_id: str, limit: int, cursor: str | None) -> dict[str, Any]:
        """One page of the tenant's runs, newest first."""
        return await self._pages.page(
            "billing_runs_of_tenant", "billing_runs", tenant_id, {}, limit, cursor, tuple, _place, _rendered
        )

    async def invoice(self, invoice_id: str) -> StoredInvoice:
        """One that stands, whoever's. Raises NotFound."""
        (rows,) = await self._store.snapshot((_SQL["invoice_place"], (invoice_id,)))
        if not rows:
            raise errors.NotFound
        return StoredInvoice(*rows[0])

    async def made_again(self, stored: StoredInvoice) -> bytes:
        """Its bytes, from the events and the run's prices: nothing of what was stored of its lines is read."""
        named = {
            "tenant": stored.tenant_id,
            "number": stored.run_number,
            "ordinal": stored.ordinal,
            "before": stored.before,
            "cut": stored.cut,
        }
        terms, own, late = await self._store.snapshot(
            (_SQL["run_terms"], named),
            (_SQL["used_in_period"], named),
            (_SQL["used_late"], named),
        )
        run = Run(*terms[0])
        return document(run, used_by(run, own, late))


def _rendered(row: tuple[Any, ...]) -> dict[str, Any]:
    run_id, invoice_id, tenant_id, number, begins, ends, grace_s, currency, prices, created_at, is_finalized = row
    run = BillingRun(
        billing_run_id=run_id,
        invoice_id=invoice_id,
        tenant_id=tenant_id,
        number=number,
        from_us=begins,
        to_us=ends,
        grace_s=grace_s,
        currency=currency,
        prices=prices,
        created_at=created_at,
    )
    return rendered(run, is_finalized=is_finalized)


def _place(row: tuple[Any, ...]) -> Place:
    return row[3], row[0]
