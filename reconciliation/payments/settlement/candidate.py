"""A line beside what it was found to tell of: as the database has it, and as it is kept."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct, structs

from reconciliation.payments.settlement.commands import EXCHANGE
from reconciliation.payments.settlement.line import Line
from reconciliation.payments.settlement.matching import Settled
from reconciliation.payments.settlement.store import Found

ATTEMPT_TYPES: Final = frozenset({"charge", "capture_reversal", "refund", "refund_reversal"})
_DISPUTES: Final = frozenset({"dispute", "dispute_reversal"})


class Candidate(Struct, frozen=True, kw_only=True):
    """A line and what it was found to tell of, None when that is nothing that we know."""

    line: Line
    matched: str | None
    intent_id: str | None
    attempt: int | None
    status: str | None
    came_back: bool | None
    amount: int | None
    expected_currency: str | None
    expected_fee: int | None
    settled: Settled
    is_fee_of_line: bool = False

    @property
    def reference(self) -> str:
        """The payment when it is known, else what the line says."""
        line = self.line
        said = (line.reference, *line.provider_refs, line.operation_id, line.line_id)
        return (self.intent_id if self.matched else None) or next(name for name in said if name)


def is_exchanged(line: Line) -> bool:
    """Whether a line tells of a payment's money in another currency than that of its settlement."""
    return line.currency != line.net_currency and line.type in ATTEMPT_TYPES | _DISPUTES


def exchange_row(processor: str, report_id: str, candidate: Candidate) -> tuple[object, ...]:
    """A part of a line: what it settled in its own currency is owed to us in the other one, less the fee there.

    The fee of a dispute that was booked with the dispute is in its own currency, and exchanged with the rest.
    """
    line = candidate.line
    booked = candidate.expected_fee or 0 if line.type in _DISPUTES else 0
    as_part = structs.replace(candidate, line=structs.replace(line, type=EXCHANGE))
    return line_row(
        processor,
        report_id,
        as_part,
        "exchanged",
        posted=(line.gross - booked, 0 if booked else line.fee, 0),
        posting="due",
        line_id=f"{line.line_id}/{EXCHANGE}",
        part_of=line.line_id,
    )


def found_of(candidate: Candidate, found_class: str, amount: int, detail: str | None = None) -> Found:
    """The finding about one line; without a ``detail`` of its own it says what was expected, where that is known."""
    line = candidate.line
    if detail is None and candidate.amount:
        detail = f"{line.type} of {line.gross}, fee {line.fee}, expected {candidate.amount}"
    return Found(
        subject=line.line_id,
        found_class=found_class,
        reference=candidate.reference,
        amount=amount,
        currency=line.currency,
        line_id=line.line_id,
        matched=candidate.matched,
        detail=detail,
    )


def line_row(
    processor: str,
    report_id: str,
    candidate: Candidate,
    line_class: str,
    *,
    difference: int = 0,
    finding: str | None = None,
    posted: tuple[int | None, int, int] | None = None,
    posting: str = "none",
    line_id: str | None = None,
    part_of: str | None = None,
) -> tuple[object, ...]:
    """A row of settlement_line, in the order of the statement ``line_copy``."""
    line = candidate.line
    gross, fee, posted_difference = posted or (None, None, 0)
    return (
        processor, line_id or line.line_id, report_id, line.line_no, line.type, line.operation_id, line.reference,
        next(iter(line.provider_refs), None), line.currency, line.gross, line.fee, line.net, line.net_currency,
        line.batch, line.created, line_class, difference, candidate.matched, candidate.intent_id, candidate.attempt,
        part_of, finding, gross, fee, posted_difference, posting,
    )  # fmt: skip


def candidate_of(row: tuple[Any, ...]) -> Candidate:
    """A line to be judged, as it was staged and matched."""
    return Candidate(
        line=line_of(row[:13]),
        matched=row[13],
        intent_id=row[14],
        attempt=row[15],
        status=row[16],
        came_back=row[17],
        amount=row[18],
        expected_currency=row[19],
        expected_fee=row[20],
        settled=Settled(gross=row[21], fee=row[22], lines=row[23]),
        is_fee_of_line=row[24],
    )


def line_of(row: tuple[Any, ...]) -> Line:
    """A line as it was staged."""
    return Line(
        line_no=row[0],
        line_id=row[1],
        type=row[2],
        operation_id=row[3],
        reference=row[4],
        provider_refs=tuple(row[5]),
        currency=row[6],
        gross=row[7],
        fee=row[8],
        net=row[9],
        net_currency=row[10],
        batch=row[11],
        created=row[12],
    )


def unmatched(
    line: Line, *, matched: str | None = None, intent_id: str | None = None, attempt: int | None = None
) -> Candidate:
    """A line that is judged without what we recorded."""
    return Candidate(
        line=line,
        matched=matched,
        intent_id=intent_id,
        attempt=attempt,
        status=None,
        came_back=None,
        amount=None,
        expected_currency=None,
        expected_fee=None,
        settled=Settled(),
    )
