"""Settlement reports: what the processor pays out, with lies planted on request. Deeds upon the book.

A report takes everything that no report took before and never changes afterwards. A fault changes the report, never
the book: what really moved stays what it is, so whoever reconciles must find each planted fault and nothing else.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

from compose.simulator import errors, limits, webhooks
from compose.simulator.operations.nouns import Identity, MoneyMinor
from compose.simulator.statements import QUERIES

if TYPE_CHECKING:
    import sqlite3

#: faults of one charge's line, which ``reference`` names
LineFault = Literal["short", "over", "missing", "duplicate", "sign_flipped", "split", "split_over_days"]
#: faults of a report as a whole
ReportFault = Literal["other_timezone", "resent", "truncated", "payout_failed"]
_LINE_FAULTS: Final = frozenset({"short", "over", "missing", "duplicate", "sign_flipped", "split", "split_over_days"})
_OTHER_OFFSET_MINUTES: Final = 120


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One lie to plant. ``amount`` is by how much a line is short or over, 1 when absent."""

    kind: LineFault | ReportFault
    reference: Identity | None = None
    amount: MoneyMinor = 1


class ReportBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The body of POST /settlements."""

    faults: Annotated[list[Fault], msgspec.Meta(max_length=limits.SIMULATOR_SETTLEMENT_FAULTS_MAX)] = []


@dataclass(frozen=True, slots=True)
class MakeReport:
    """A deed: one report of all that is unsettled, or two when it is sent again."""

    body: ReportBody

    def apply(self, connection: sqlite3.Connection) -> dict[str, Any]:
        """The ids of what was made. Raises InvalidOperation when a fault cannot be planted."""
        now_ms = webhooks.now_ms()
        kinds = {fault.kind for fault in self.body.faults}
        offset = _OTHER_OFFSET_MINUTES if "other_timezone" in kinds else 0
        # 1. Lie in what is about to be reported.
        held_back = _plant(connection, [fault for fault in self.body.faults if fault.kind in _LINE_FAULTS])
        # 2. It becomes the report, with the payout of its sum.
        report_id = _new_report(connection, offset, now_ms, is_truncated="truncated" in kinds)
        prefix = report_id.replace("rpt_", "ln_")
        connection.execute(QUERIES["lines_insert"], {"report_id": report_id, "line_prefix": prefix})
        connection.execute(QUERIES["unsettled_clear"])
        connection.executemany(QUERIES["unsettled_insert"], held_back)
        _pay_out(connection, report_id, prefix, now_ms, fails="payout_failed" in kinds)
        made = [report_id]
        # 3. The same lines come again, whole this time.
        if "resent" in kinds:
            made.append(_new_report(connection, offset, now_ms, is_truncated=False))
            connection.execute(QUERIES["lines_resend"], (made[-1], report_id))
        return {"report_id": report_id, "reports": made}


def _plant(connection: sqlite3.Connection, faults: list[Fault]) -> list[tuple[Any, ...]]:
    """Lies in what is unsettled; returns what the next report is to bring."""
    references = [fault.reference for fault in faults]
    charges = {
        reference: (sequence, gross, fee)
        for reference, sequence, gross, fee in connection.execute(
            QUERIES["unsettled_charges"], (json.dumps(references),)
        ).fetchall()
    }
    wrong = [
        {"field": f"faults.{number}", "reason": reason}
        for number, fault in enumerate(faults)
        if (reason := _problem_with(fault, charges, references)) is not None
    ]
    if wrong:
        raise errors.InvalidOperation(errors=wrong)
    held_back = []
    for fault in faults:
        sequence, gross, fee = charges[str(fault.reference)]
        if fault.kind == "split_over_days":
            held_back.append(_hold_back(connection, sequence, gross, fee))
        else:
            _plant_one(connection, fault, sequence, gross, fee)
    return held_back


def _problem_with(fault: Fault, charges: dict[str, tuple[int, int, int]], references: list[str | None]) -> str | None:
    if fault.reference is None or fault.reference not in charges:
        return f"{fault.kind} needs the reference of a capture that is not settled yet"
    if references.count(fault.reference) > 1:
        return "there is another fault for this reference"
    _, gross, _ = charges[fault.reference]
    if fault.kind == "short" and fault.amount >= gross:
        return f"nothing would be left: the capture is of {gross}"
    if fault.kind in ("split", "split_over_days") and gross == 1:
        return "one minor unit cannot be split"
    return None


def _hold_back(connection: sqlite3.Connection, sequence: int, gross: int, fee: int) -> tuple[Any, ...]:
    """The second half of a charge, for the next report; the first stays in this one."""
    row = connection.execute(QUERIES["unsettled_row"], (sequence,)).fetchone()
    connection.execute(QUERIES["unsettled_change"], (gross // 2, fee // 2, sequence))
    return (*row[:5], gross - gross // 2, fee - fee // 2, row[5])


def _plant_one(connection: sqlite3.Connection, fault: Fault, sequence: int, gross: int, fee: int) -> None:
    """The fee stays that of the true amount, so that a line is off by exactly what was planted."""
    execute = connection.execute
    match fault.kind:
        case "short":
            execute(QUERIES["unsettled_change"], (gross - fault.amount, fee, sequence))
        case "over":
            execute(QUERIES["unsettled_change"], (gross + fault.amount, fee, sequence))
        case "missing":
            execute(QUERIES["unsettled_delete"], (sequence,))
        case "duplicate":
            execute(QUERIES["unsettled_copy"], (gross, fee, sequence))
        case "sign_flipped":
            execute(QUERIES["unsettled_change"], (-gross, -fee, sequence))
        case "split":
            execute(QUERIES["unsettled_copy"], (gross - gross // 2, fee - fee // 2, sequence))
            execute(QUERIES["unsettled_change"], (gross // 2, fee // 2, sequence))


def _new_report(connection: sqlite3.Connection, offset: int, now_ms: int, *, is_truncated: bool) -> str:
    report_id = f"rpt_{secrets.token_hex(8)}"
    connection.execute(QUERIES["report_insert"], (report_id, offset, is_truncated, now_ms))
    return report_id


def _pay_out(connection: sqlite3.Connection, report_id: str, prefix: str, now_ms: int, *, fails: bool) -> None:
    """The report's last lines: what leaves for the bank in each currency, and its return when that failed."""
    (position,) = connection.execute(QUERIES["report_last_position"], (report_id,)).fetchone()
    for currency, net in connection.execute(QUERIES["report_sums"], (report_id,)).fetchall():
        payout_id = f"po_{secrets.token_hex(8)}"
        for kind, amount in (("payout", -net), ("payout_reversal", net))[: 2 if fails else 1]:
            position += 1
            line = (report_id, position, f"{prefix}_{position:07d}", kind, payout_id, payout_id, currency,
                    amount, amount, now_ms)  # fmt: skip
            connection.execute(QUERIES["line_insert"], line)
