"""The processors' own books against ours, in both directions: the check that finds lost and doubled money.

A book is read before the snapshot and again after it. Whatever the first reading holds had its attempt durable
before (rule: an attempt is recorded before the call), so the snapshot must know it. Whatever the snapshot calls final,
the processor had booked before it said so, so the second reading must hold it. A live system shows no false gap.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, Any, Final

import httpx

from schemas.errors import Unavailable
from schemas.payments import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from reconciliation.contract.snapshot import Snapshot

SECTIONS: Final = ("captured", "authorized", "voided", "refunded")
_OPEN: Final = frozenset({"created", "pending", "unknown", "requires_action", "manual_review"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One effect as a processor booked it."""

    processor: str
    section: str
    reference: str
    amount: int
    currency: str


@dataclass(slots=True)
class BookCheck:
    """How many effects belong to attempts that are still open here, and how many attempts have no book to be in."""

    open_attempts: int = 0
    without_book: int = 0


@dataclass(slots=True)
class Books:
    """The books of all processors by operation id, and the operations that stand in them twice."""

    processors: frozenset[str]
    entries: dict[str, Entry] = field(default_factory=dict)
    doubled: list[dict[str, Any]] = field(default_factory=list)


def read_books(urls: Mapping[str, str]) -> Books:
    """The book of every processor that shows one, by name. Raises errors.Unavailable when one cannot be read."""
    books = Books(frozenset(urls))
    for processor, url in urls.items():
        book = _fetched(processor, url)
        for section in SECTIONS:
            for row in book.get(section, ()):  # an older processor knows no refunds
                operation_id = row["operation_id"]
                if operation_id in books.entries:
                    twice = sorted({books.entries[operation_id].processor, processor})
                    books.doubled.append(
                        {"operation_id": operation_id, "booked": twice, "reason": "the processor booked it twice"}
                    )
                books.entries[operation_id] = Entry(
                    processor, section, row["reference"], row["amount"], row["currency"]
                )
    return books


class ProcessorBooks:
    """The books of one check: read before the snapshot, and again when they are compared."""

    def __init__(self, urls: Mapping[str, str]) -> None:
        self._urls = urls
        self._before: Books | Unavailable | None = None

    def read_before(self) -> None:
        """The first reading; what fails is raised when the books are compared."""
        try:
            self._before = read_books(self._urls)
        except Unavailable as error:
            self._before = error

    def violations(self, view: Snapshot, sql: str, tell: Callable[[str], None]) -> Iterator[dict[str, Any]]:
        """Both directions, and what stands in the books twice."""
        books = self._before
        if not isinstance(books, Books):
            raise books or Unavailable("the books were not read before the snapshot")
        yield from books.doubled
        entries, count = len(books.entries), BookCheck()
        yield from book_violations(view, sql, books, read_books(self._urls).entries, count)
        note = f"{entries} effects; {count.open_attempts} of attempts that are open here"
        if count.without_book:
            note += f"; {count.without_book} attempts at processors that show no book"
        tell(note)


def _fetched(processor: str, url: str) -> Any:
    try:
        answer = httpx.get(f"{url}/book", timeout=limits.CHECK_BOOK_TIMEOUT_S)
        answer.raise_for_status()
        return answer.json()
    except httpx.HTTPStatusError as error:
        raise Unavailable(f"the book of {processor} cannot be read: status {error.response.status_code}") from error
    except (httpx.HTTPError, ValueError) as error:
        raise Unavailable(f"the book of {processor} cannot be read: {type(error).__name__}") from error


def book_violations(
    view: Snapshot, attempts_sql: str, books: Books, after: dict[str, Entry], count: BookCheck
) -> Iterator[dict[str, Any]]:
    """Effects without a record of ours, records without an effect, and what differs; the books are used up."""
    before = books.entries
    for operation_id, status, intent_id, amount, currency, posted, is_fresh, processor in view.tuples(attempts_sql):
        if processor not in books.processors and operation_id not in before:
            count.without_book += 1
            continue
        ours = {
            "operation_id": operation_id,
            "processor": processor,
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
        elif there != Entry(processor, status, intent_id, amount, currency) or posted != amount:
            yield {**ours, "posted": posted, "booked": list(astuple(there)),
                   "reason": "the ledger and the processor's book differ"}  # fmt: skip
    for operation_id, entry in before.items():
        yield {
            "operation_id": operation_id,
            "booked": list(astuple(entry)),
            "reason": "the processor moved money without any attempt of ours",
        }
