"""Reports of a merchant's money: what its accounts held at two times, what moved between, and its payouts.

From the ledger alone, so they add up: opening + activity = closing, to the minor unit. A report is of the half-open
time from ``from`` to ``to``. A line's time is when its owner decided it, moments before its commit: a report up to just
now may still gain lines, an older one never does. JSON comes in pages, CSV as one stream of the same pages.
"""

from __future__ import annotations

import asyncio
import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from schemas import errors, rendering
from schemas.payments import limits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from ingress.http.cursors import Cursors
    from ingress.http.store import Store

#: the merchant's ledger accounts by their names in reports
_ACCOUNTS: Final = {
    "pending": "merchant_pending",
    "available": "merchant_available",
    "dispute_hold": "merchant_dispute_hold",
    "reserved": "merchant_reserved",
    "payout_in_transit": "merchant_payout_in_transit",
}
FORMATS: Final = ("json", "csv")
#: what makes a spreadsheet take a text for a formula
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One kind of report: its query, its columns in their order, and which of them are the place of a page."""

    query: str
    columns: tuple[str, ...]
    place: tuple[str, ...]  # parameters of the query, equal to the columns at ``at`` of the last row
    at: tuple[int, ...]
    first: tuple[int | str, ...]  # before every row
    times: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()  # that come as text: sums may have more than 64 bits
    texts: frozenset[str] = frozenset()  # integers that a JSON number does not hold exactly


REPORTS: Final = {
    "balance": Report(
        query="report_balance",
        columns=("account", "currency", "opening", "credits", "debits", "closing"),
        place=("after_currency", "after_account"),
        at=(1, 0),
        first=("", ""),
        numbers=frozenset({"opening", "credits", "debits", "closing"}),
    ),
    "activity": Report(
        query="report_activity",
        columns=("at", "txn_id", "line", "account", "currency", "kind", "reference", "amount"),
        place=("after_at", "after_txn", "after_line"),
        at=(0, 1, 2),
        first=(0, -1, -1),
        times=frozenset({"at"}),
        texts=frozenset({"txn_id"}),
    ),
    "payouts": Report(
        query="report_payouts",
        columns=("created_at", "id", "amount", "currency", "state", "destination", "failure_reason", "updated_at"),
        place=("after_at", "after_id"),
        at=(0, 1),
        first=(0, ""),
        times=frozenset({"created_at", "updated_at"}),
    ),
}


class Asked(Struct, frozen=True, kw_only=True):
    """Whose report, of which time (microseconds, half-open), in one currency or in all."""

    merchant: str
    start: int
    end: int
    currency: str | None


class Reports:
    """Reads reports. They may sum many lines: few pages are read at once, the others wait."""

    def __init__(self, store: Store, cursors: Cursors) -> None:
        self._store = store
        self._cursors = cursors
        self._running = asyncio.Semaphore(limits.REPORTS_RUNNING_MAX)

    async def page(self, name: str, asked: Asked, limit: int, cursor: str | None) -> dict[str, Any]:
        """One page and the cursor of the next. Raises MalformedRequest for a cursor of another report or time."""
        report = REPORTS[name]
        bound = f"report:{name}:{asked.start}:{asked.end}:{asked.currency or ''}"
        place = self._cursors.read(asked.merchant, bound, cursor, tuple[Any, ...]) if cursor else report.first
        rows = await self._rows(report, asked, place, limit + 1)
        has_more = len(rows) > limit
        rows = rows[:limit]
        return {
            "object": "report",
            "report": name,
            "from": rendering.timestamp(asked.start),
            "to": rendering.timestamp(asked.end),
            "currency": asked.currency,
            "data": [_document(report, row) for row in rows],
            "has_more": has_more,
            "next_cursor": self._cursors.write(asked.merchant, bound, _place(report, rows[-1])) if has_more else None,
        }

    async def csv(self, name: str, asked: Asked) -> AsyncIterator[bytes]:
        """The whole report as CSV, a page at a time; the first is read here, so that an outage is still an answer.

        A file that would be longer than the bound breaks off instead of ending: it never looks complete.
        """
        report, size = REPORTS[name], limits.REPORT_PAGE_LIMIT_MAX
        rows = await self._rows(report, asked, report.first, size)
        return self._stream(report, asked, rows)

    async def _stream(self, report: Report, asked: Asked, rows: list[Row]) -> AsyncIterator[bytes]:
        size, sent = limits.REPORT_PAGE_LIMIT_MAX, 0
        yield _csv([report.columns])
        while rows:
            yield _csv([_cells(report, row) for row in rows])
            sent += len(rows)
            if len(rows) < size:
                return
            if sent >= limits.REPORT_CSV_ROWS_MAX:
                raise errors.TooLarge(f"A file has at most {limits.REPORT_CSV_ROWS_MAX} rows; ask for a shorter time.")
            rows = await self._rows(report, asked, _place(report, rows[-1]), size)

    async def _rows(self, report: Report, asked: Asked, place: Sequence[Any], limit: int) -> list[Row]:
        parameters: dict[str, Any] = {
            "merchant": asked.merchant,
            "accounts": list(_ACCOUNTS),
            "prefixes": [f"{account}:{asked.merchant}:" for account in _ACCOUNTS.values()],
            "from": asked.start,
            "to": asked.end,
            "currency": asked.currency,
            "limit": limit,
            **dict(zip(report.place, place, strict=True)),
        }
        async with self._running:
            return await self._store.rows(report.query, parameters)


def _place(report: Report, row: Row) -> tuple[Any, ...]:
    return tuple(row[n] for n in report.at)


def _document(report: Report, row: Row) -> dict[str, Any]:
    return {name: _value(report, name, value) for name, value in zip(report.columns, row, strict=True)}


def _value(report: Report, name: str, value: Any) -> Any:
    if name in report.times:
        return rendering.timestamp(value)
    if name in report.numbers:
        return int(value)
    return str(value) if name in report.texts else value


def _cells(report: Report, row: Row) -> list[Any]:
    return [neutral(value) for value in _document(report, row).values()]


def neutral(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula; numbers are none."""
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value


def _csv(rows: Sequence[Sequence[Any]]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerows(rows)
    return buffer.getvalue().encode()
