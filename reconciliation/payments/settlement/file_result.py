"""What became of a file that somebody gave: whether it was taken in, why not, and what is open about it now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct, field

from reconciliation.payments.settlement.store import execute

if TYPE_CHECKING:
    import psycopg

FileState = Literal["taken_in", "known", "partly", "truncated", "rejected"]
_WHOLE: Final = frozenset({"taken_in", "known"})


class Discrepancy(Struct, frozen=True, kw_only=True):
    """Something that is not explained. ``reference`` is the payment when it is known, else what the line says."""

    found_class: str = field(name="class")
    reference: str
    amount: int
    currency: str | None
    processor: str
    subject: str
    detail: str | None
    case_id: str | None
    first_seen: str


class FileResult(Struct, kw_only=True):
    """One file of a run; ``reports`` are the processor and id of each report or statement in it."""

    name: str
    format: str
    state: FileState
    new_lines: int = 0
    matched: int = 0
    reasons: list[str] = field(default_factory=list)  # of what was not taken in
    reports: list[tuple[str, str]] = field(default_factory=list)
    discrepancies: list[Discrepancy] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether all of it was taken in: every line could be read."""
        return self.state in _WHOLE and all(d.found_class != "unreadable_line" for d in self.discrepancies)


def state_of(states: list[str]) -> FileState:
    """Of a file with several statements: whether all, some or none of them were taken in."""
    if "taken_in" not in states:
        return "rejected"
    return "taken_in" if all(state == "taken_in" for state in states) else "partly"


def open_about(connection: psycopg.Connection, reports: list[tuple[str, str]]) -> list[Discrepancy]:
    """What is not explained of these reports and their lines."""
    rows = [
        row
        for processor, report_id in reports
        for row in execute(connection, "report_discrepancies", processor=processor, report_id=report_id).fetchall()
    ]
    return [discrepancy_of(row) for row in rows]


def discrepancy_of(row: tuple[Any, ...]) -> Discrepancy:
    """A row of ``summary_discrepancies`` or ``report_discrepancies``."""
    found_class, reference, amount, currency, processor, subject, detail, case_id, first_seen = row
    return Discrepancy(
        found_class=found_class,
        reference=reference,
        amount=amount,
        currency=currency,
        processor=processor,
        subject=subject,
        detail=detail,
        case_id=case_id,
        first_seen=first_seen.isoformat(),
    )
