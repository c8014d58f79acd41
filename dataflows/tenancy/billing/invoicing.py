"""Makes the invoice of every run whose grace is over: once, of what was counted up to then. Makes others again.

One transaction sees one moment: the cut, and the usage behind it. Killed before its end, nothing was made; two at once
meet at the primary key. Which usage is in an invoice follows from its cut and from that of the one before, for ever.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

import psycopg
import structlog

from dataflows.owner import fail_points
from dataflows.tenancy.domain.invoice_intent import intent_of
from schemas import errors
from schemas.tenancy import limits as tenancy_limits
from schemas.tenancy.invoice import Basis, InvoicePlace, basis, made
from sinks import limits as sinks_limits
from sinks.postgres import owner_connection
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sinks.postgres.owner_connection import OwnerConnection

SQL: Final = queries("sinks.postgres.queries.tenancy", "invoices.sql")
#: what the usage, the entries and the prices of one tenant may come to
_OF_ONE: Final = (psycopg.Error, errors.PlatformError, ArithmeticError, LookupError, ValueError)
_log: Final = structlog.get_logger(__name__)


class Failed:
    """Invoices that could not be made, by tenant and run or id: each is left alone for a while."""

    def __init__(self) -> None:
        self._again_at: dict[tuple[str, Any], float] = {}
        self._wait_s: dict[tuple[str, Any], float] = {}

    def add(self, tenant_id: str, which: Any) -> None:
        """One more, or once more: it waits twice as long then."""
        wait_s = self._wait_s.get((tenant_id, which), tenancy_limits.BILLING_AGAIN_S)
        self._again_at[tenant_id, which] = time.monotonic() + wait_s
        self._wait_s[tenant_id, which] = min(2 * wait_s, tenancy_limits.BILLING_AGAIN_MAX_S)

    def made(self, tenant_id: str, which: Any) -> None:
        """That one is not among them any more."""
        self._wait_s.pop((tenant_id, which), None)

    def waiting(self) -> list[tuple[str, Any]]:
        """Those that are not tried yet."""
        now = time.monotonic()
        self._again_at = {run: at for run, at in self._again_at.items() if at > now}
        return list(self._again_at)


class Invoicing:
    """One loop of ``make_due`` or ``make_asked``; several at once make no second invoice."""

    def __init__(self, dsn: str, name: str, make: Callable[[OwnerConnection, Failed], int], poll_s: float) -> None:
        self._dsn = dsn
        self._name = name
        self._make = make
        self._poll_s = poll_s
        self._stop = threading.Event()
        self._failed = Failed()

    def stop(self) -> None:
        """Ends ``run`` after the invoice under way."""
        self._stop.set()

    def run(self) -> None:
        """Makes what is due, until ``stop``; Postgres is waited for."""
        while not self._stop.is_set():
            try:
                with connected(self._dsn, self._name) as connection:
                    while not self._stop.is_set():
                        began = time.monotonic()
                        if not self._make(connection, self._failed):
                            self._stop.wait(max(self._poll_s, pause_s(time.monotonic() - began)))
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                _log.warning("invoicing_begins_again", error=str(error).partition("\n")[0])
                self._stop.wait(sinks_limits.STREAM_JOIN_AGAIN_S)


def pause_s(looked_s: float) -> float:
    """How long to wait when nothing is due: the more runs there ever were, the longer a look takes.

    In which the process may have stood still: that makes no invoice wait for many times as long.
    """
    rest_s = min(looked_s * tenancy_limits.BILLING_POLL_REST, tenancy_limits.BILLING_POLL_MAX_S)
    return max(tenancy_limits.BILLING_POLL_S, rest_s)


def connected(dsn: str, name: str) -> OwnerConnection:
    """As an owner's, but for how long a transaction lasts: the more usage, the longer, and nobody waits for its locks.

    One that stands still in it is not waited for as long: who makes the same invoice would be refused meanwhile.

    Raises psycopg.OperationalError.
    """
    connection = owner_connection.connect(dsn, name)
    at_most, held = tenancy_limits.BILLING_INVOICE_MAX_MS, sinks_limits.IDLE_IN_TRANSACTION_TIMEOUT_MS
    connection.execute(SQL["invoices_last"].encode(), {"at_most": str(at_most), "held": str(held)})
    return connection


def make_due(connection: OwnerConnection, failed: Failed) -> int:
    """Makes the invoices that are due now; how many. One that cannot be made is told, and holds up no other.

    Raises psycopg.OperationalError when the session is gone, be it that one took too long.
    """
    return _each(connection, failed, "runs_due", _make)


def make_asked(connection: OwnerConnection, failed: Failed) -> int:
    """Makes invoices again that took an ingress too long, as ``make_due`` makes others."""
    return _each(connection, failed, "again_due", _make_again)


def _each(
    connection: OwnerConnection, failed: Failed, query: str, make: Callable[[OwnerConnection, str, Any], int]
) -> int:
    waiting = failed.waiting()
    asked = ([tenant_id for tenant_id, _ in waiting], [which for _, which in waiting])
    due = connection.execute(SQL[query].encode(), (*asked, tenancy_limits.BILLING_RUNS_AT_ONCE)).fetchall()
    count = 0
    for tenant_id, which in due:
        try:
            count += make(connection, tenant_id, which)
            failed.made(tenant_id, which)
        except _OF_ONE as error:
            failed.add(tenant_id, which)
            told = {"reason": type(error).__name__, "cause": str(error).partition("\n")[0]}
            _log.error("invoice_failed", tenant_id=tenant_id, run=which, **told)
            if connection.closed or connection.broken:
                raise
    return count


def _make(connection: OwnerConnection, tenant_id: str, number: int) -> int:
    try:
        with connection.transaction():
            connection.execute(b"set transaction isolation level repeatable read")
            returned = _void(connection, tenant_id)
            place = _next_place(connection, tenant_id, number, returned)
            found = _basis(connection, place)
            invoice = made(found)
            named = (tenant_id, place.ordinal, found.run.invoice_id, number, list(place.cut), place.entries)
            stands = (*named, returned, place.late_rule, place.meter_version, invoice.credit_left, invoice.document)
            connection.execute(SQL["invoice_insert"].encode(), stands)
            fail_points.reach("invoice_before_commit")
    except (psycopg.errors.UniqueViolation, psycopg.errors.SerializationFailure):  # another process was first
        return 0
    return 1


def _make_again(connection: OwnerConnection, tenant_id: str, invoice_id: str) -> int:
    with connection.transaction():
        connection.execute(b"set transaction isolation level repeatable read")
        *place, _, _ = _one(connection, "invoice_place", (invoice_id,))
        document = made(_basis(connection, InvoicePlace(*place))).document
        connection.execute(SQL["again_made"].encode(), (document, tenant_id, invoice_id))
    return 1


def _void(connection: psycopg.Connection[Any], tenant_id: str) -> list[int]:
    """The invoices of the tenant that nobody can pay any more, and whose credit no other has given back."""
    rows = connection.execute(SQL["invoices_of_credit"].encode(), {"tenant": tenant_id}).fetchall()
    ordinals = {intent_of(invoice_id): ordinal for ordinal, invoice_id in rows}
    void = connection.execute(SQL["intents_void"].encode(), (list(ordinals),)).fetchall()
    return sorted(ordinals[intent] for (intent,) in void)


def _next_place(connection: psycopg.Connection[Any], tenant_id: str, number: int, returned: list[int]) -> InvoicePlace:
    """Behind the newest invoice of the tenant, up to what is counted and known now. ``returned``: as ``_void`` says."""
    (cut,) = _one(connection, "counted_cut", ())
    (entries,) = _one(connection, "entries_cut", (tenant_id,))
    newest = connection.execute(SQL["invoice_newest"].encode(), (tenant_id,)).fetchone()
    ordinal, before, entries_before, credit = newest or (0, [], 0, 0)
    (taken,) = _one(connection, "credit_taken", (tenant_id, returned))
    return InvoicePlace(tenant_id, number, ordinal + 1, cut, before, entries, entries_before, credit + taken)


def _basis(connection: psycopg.Connection[Any], place: InvoicePlace) -> Basis:
    """What the invoice is made of, from events and entries alone."""
    asked = place.asked()
    terms = _one(connection, "run_terms", asked)
    own, late, entries = (
        connection.execute(SQL[query].encode(), asked).fetchall()
        for query in ("used_in_period", "used_late", "entries_taken")
    )
    return basis(place, terms, own, late, entries)


def _one(connection: psycopg.Connection[Any], query: str, asked: Sequence[Any] | Mapping[str, Any]) -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = connection.execute(SQL[query].encode(), asked).fetchone()
    assert row is not None  # noqa: S101 - a run is never deleted
    return row
