"""Payouts of a processor as a report tells of them: announced to the ledger when they are the sum of their batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciliation.payments.settlement.candidate import found_of, line_of, line_row, unmatched
from reconciliation.payments.settlement.store import execute, keep_found, keep_lines

if TYPE_CHECKING:
    import psycopg


def announce_payouts(
    connection: psycopg.Connection, processor: str, report_id: str, batches: dict[tuple[str, str], tuple[int, int]]
) -> int:
    """How many are announced; others are a person's."""
    rows, found, sound = [], [], 0
    for row in execute(connection, "payouts_of_report"):
        line = line_of(row)
        lines_net, paid = batches.get((line.batch or "", line.net_currency), (0, -1))
        candidate, said = unmatched(line), f"{line.type} of {line.net} net"
        if line.gross - line.fee != line.net:
            found.append(found_of(candidate, "does_not_foot", abs(line.gross - line.fee - line.net), said))
        elif abs(lines_net) != paid:
            found.append(found_of(candidate, "payout_difference", abs(abs(lines_net) - paid), said))
        else:
            towards_us = abs(line.net) if lines_net >= 0 else -abs(line.net)
            rows.append(
                line_row(processor, report_id, candidate, "announced", posted=(towards_us, 0, 0),
                         posting="due" if towards_us else "none")
            )  # fmt: skip
            sound += 1
            continue
        rows.append(line_row(processor, report_id, candidate, found[-1].found_class, difference=found[-1].amount))
    keep_lines(connection, processor, report_id, rows)
    keep_found(connection, processor, report_id, found)
    return sound
