"""Lines that pay several captures of one payment at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dataflows.payments.domain.policies.fees import FeeSchedule, fee_minor
from reconciliation.payments.settlement.candidate import exchange_row, is_exchanged, line_of, line_row, unmatched
from reconciliation.payments.settlement.store import execute, keep_lines
from schemas.payments import limits

if TYPE_CHECKING:
    import psycopg

#: what the platform accrues of a capture; the fee of a line that pays several is split by it
_FEE_BPS: Final = FeeSchedule().processor_bps


def match_sums(connection: psycopg.Connection, processor: str, report_id: str) -> int:
    """A row for each such line, and one for each part of it; how many there were."""
    sums = execute(connection, "loose_sums", processor=processor, parts_max=limits.SETTLEMENT_PARTS_MAX).fetchall()
    numbers = [row[0] for row in sums]
    lines = {row[0]: line_of(row) for row in execute(connection, "loose_lines", line_nos=numbers)}
    rows = []
    taken: set[str] = set()
    for number, operations, attempts, amounts in sums:
        if taken & set(operations):
            continue  # a second line for the same captures is judged like any other
        taken |= set(operations)
        line = lines.pop(number)
        rows.append(line_row(processor, report_id, unmatched(line), "matched"))
        fees = [fee_minor(amount, _FEE_BPS) for amount in amounts]
        fees[0] += line.fee - sum(fees)
        if is_exchanged(line):  # its fee is in the other currency, and booked there
            fees = [0] * len(fees)
            rows.append(exchange_row(processor, report_id, unmatched(line)))
        for operation, attempt, amount, fee in zip(operations, attempts, amounts, fees, strict=True):
            part = unmatched(line, matched=operation, intent_id=line.reference, attempt=attempt)
            rows.append(
                line_row(processor, report_id, part, "matched", finding="matched", posted=(amount, fee, 0),
                         posting="due", line_id=f"{line.line_id}/{attempt}", part_of=line.line_id)
            )  # fmt: skip
    keep_lines(connection, processor, report_id, rows)
    execute(connection, "candidate_drop", line_nos=[number for number in numbers if number not in lines])
    return len(numbers) - len(lines)
