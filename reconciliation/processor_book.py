"""The processor's own book against ours, in both directions: the check that finds lost and doubled money.

The book is read before the snapshot and again after it. Whatever the first reading holds had its attempt durable
before (rule: an attempt is recorded before the call), so the snapshot must know it. Whatever the snapshot calls final,
the processor had booked before it said so, so the second reading must hold it. A live system shows no false gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import httpx

from schemas import limits
from schemas.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciliation.snapshot import Snapshot

SECTIONS: Final = ("captured", "authorized", "voided", "refunded")
_OPEN: Final = frozenset({"created", "pending", "unknown", "manual_review"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One effect as the processor booked it."""

    section: str
    reference: str
    amount: int
    currency: str


@dataclass(slots=True)
class BookCheck:
    """The violations found so far and how many effects belong to attempts that are still open here."""

    open_attempts: int = 0


def read_book(processor_url: str) -> tuple[dict[str, Entry], list[dict[str, Any]]]:
    """The book by operation id, and the operations that it holds twice. Raises errors.Unavailable."""
    try:
        answer = httpx.get(f"{processor_url}/book", timeout=limits.CHECK_BOOK_TIMEOUT_S)
        answer.raise_for_status()
        book = answer.json()
    except httpx.HTTPStatusError as error:
        raise Unavailable(f"the processor's book cannot be read: status {error.response.status_code}") from error
    except (httpx.HTTPError, ValueError) as error:
        raise Unavailable(f"the processor's book cannot be read: {type(error).__name__}") from error
    entries: dict[str, Entry] = {}
    doubled = []
    for section in SECTIONS:
        for row in book.get(section, ()):  # an older processor knows no refunds
            if row["operation_id"] in entries:
                doubled.append({"operation_id": row["operation_id"], "reason": "the processor booked it twice"})
            entries[row["operation_id"]] = Entry(section, row["reference"], row["amount"], row["currency"])
    return entries, doubled


def book_violations(
    view: Snapshot, attempts_sql: str, before: dict[str, Entry], after: dict[str, Entry], count: BookCheck
) -> Iterator[dict[str, Any]]:
    """Effects without a record of ours, records without an effect, and amounts that differ; ``before`` is used up."""
    for operation_id, status, intent_id, amount, currency, posted, is_fresh in view.tuples(attempts_sql):
        ours = {
            "operation_id": operation_id,
            "intent": intent_id,
            "status": status,
            "amount": amount,
            "currency": currency,
        }
        booked, there = before.pop(operation_id, None), after.get(operation_id)
        if status in _OPEN:
            count.open_attempts += booked is not None
        elif status not in SECTIONS:
            if booked is not None and there is not None:  # a refund that failed later leaves the book
                yield {**ours, "booked": booked.section, "reason": "the processor did what our record denies"}
        elif there is None and status == "refunded" and is_fresh:
            count.open_attempts += 1  # its failure may be on its way to us
        elif there is None:
            yield {**ours, "reason": "the processor's book does not know it"}
        elif there != Entry(status, intent_id, amount, currency) or posted != amount:
            yield {**ours, "posted": posted, "booked": [there.section, there.reference, there.amount, there.currency],
                   "reason": "the ledger and the processor's book differ"}  # fmt: skip
    for operation_id, entry in before.items():
        yield {
            "operation_id": operation_id,
            "booked": [entry.section, entry.reference, entry.amount, entry.currency],
            "reason": "the processor moved money without any attempt of ours",
        }
