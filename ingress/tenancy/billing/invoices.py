"""Billing runs and invoices as they are read: the stored bytes, or the same made again from the events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dataflows.tenancy.domain.billing_entry import BillingEntry
from dataflows.tenancy.domain.billing_entry import rendered as entry_shown
from dataflows.tenancy.domain.billing_run import BillingRun, rendered
from ingress.http.pages import NewestFirst
from schemas import errors
from schemas.tenancy import limits
from schemas.tenancy.invoice import InvoicePlace, basis, made
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from ingress.http.cursors import Cursors
    from ingress.http.pages import Place
    from ingress.http.store import Store
    from ingress.tenancy.usage.questions import Questions

_SQL: Final = queries("sinks.postgres.queries.tenancy", "invoices.sql")


class StoredInvoice(NamedTuple):
    """An invoice that stands, and what its lines follow from."""

    place: InvoicePlace
    document: bytes

    @property
    def tenant_id(self) -> str:
        """Whose it is."""
        return self.place.tenant_id


class Billing:
    """Reads of one process."""

    def __init__(self, store: Store, cursors: Cursors, questions: Questions) -> None:
        self._store = store
        self._questions = questions
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

    async def entries(self, tenant_id: str, limit: int, cursor: str | None) -> dict[str, Any]:
        """One page of what was said of the tenant's money, newest first."""
        return await self._pages.page(
            "billing_entries_of_tenant",
            "billing_entries",
            tenant_id,
            {},
            limit,
            cursor,
            _entry,
            _entry_place,
            entry_shown,
        )

    async def invoice(self, invoice_id: str) -> StoredInvoice:
        """One that stands, whoever's. Raises NotFound."""
        (rows,) = await self._store.snapshot((_SQL["invoice_place"], (invoice_id,)))
        if not rows:
            raise errors.NotFound
        *place, _, document = rows[0]
        return StoredInvoice(InvoicePlace(*place), document)

    async def made_again(self, invoice_id: str, stored: StoredInvoice) -> bytes | None:
        """Its bytes, from events, entries and the run's prices: nothing of what was stored of its lines is read.

        None: it is of so much usage that the metering makes it, and tells it for a while to who asks again.
        Raises StateConflict when its usage is so old that it is not kept any more, and Overloaded.
        """
        asked = stored.place.asked()
        if await self._store.rows("invoice_not_kept", {"invoice": stored.document, **asked}):
            raise errors.StateConflict("The usage of this invoice is not kept any more; the invoice stands.")
        named = {"tenant": stored.tenant_id, "invoice": invoice_id, "told_s": limits.INVOICE_AGAIN_TOLD_S}
        if found := await self._store.rows("invoice_again", named):
            document: bytes | None = found[0][0]
            return document
        names = ("run_terms", "used_in_period", "used_late", "entries_taken")
        try:
            async with self._questions.turn(stored.tenant_id):
                terms, own, late, entries = await self._store.snapshot(*((_SQL[name], asked) for name in names))
        except errors.DependencyTimeout:
            await self._store.rows("invoice_again_ask", named)
            return None
        return made(basis(stored.place, terms[0], own, late, entries)).document


def _rendered(row: tuple[Any, ...]) -> dict[str, Any]:
    (
        run_id,
        invoice_id,
        tenant_id,
        number,
        begins,
        ends,
        grace_s,
        currency,
        prices,
        created_at,
        is_finalized,
        made_by,
        person,
    ) = row
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
        made_by=made_by,
        person=person,
    )
    return rendered(run, is_finalized=is_finalized)


def _entry(row: tuple[Any, ...]) -> BillingEntry:
    (
        entry_id,
        tenant_id,
        number,
        kind,
        dimension,
        quantity,
        unit_price,
        at,
        begins,
        ends,
        amount,
        reason,
        created_at,
        made_by,
        person,
    ) = row
    return BillingEntry(
        entry_id=entry_id,
        tenant_id=tenant_id,
        number=number,
        kind=kind,
        dimension=dimension,
        quantity=quantity,
        unit_price=unit_price,
        at_us=at,
        period=None if begins is None else (begins, ends),
        amount=amount,
        reason=reason,
        created_at=created_at,
        made_by=made_by,
        person=person,
    )


def _entry_place(entry: BillingEntry) -> Place:
    return entry.number, entry.entry_id


def _place(row: tuple[Any, ...]) -> Place:
    return row[3], row[0]
