"""Refunds that succeed and fail later: the money comes back to where it was taken from, durably and once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compose.simulator import limits, webhooks
from compose.simulator.operations import modes
from compose.simulator.operations.nouns import Outcome, provider_ref_for
from compose.simulator.statements import QUERIES

if TYPE_CHECKING:
    import sqlite3


@dataclass(frozen=True, slots=True)
class FailDueRefunds:
    """A deed: the refunds whose time has come fail, and their money is back with the merchant."""

    now_ms: int
    tells: bool

    def apply(self, connection: sqlite3.Connection) -> int:
        """How many failed; a bounded number."""
        due = connection.execute(
            QUERIES["refunds_due_to_fail"], (self.now_ms, limits.SIMULATOR_DUE_REFUNDS_MAX)
        ).fetchall()
        for operation_id, token, reference, amount, currency, capture_ref in due:
            code = modes.mode_of(token).refund_failure or "unknown"
            connection.execute(QUERIES["refund_failure_insert"], (operation_id, code, self.now_ms))
            connection.execute(QUERIES["capture_give_back"], (-amount, 0, capture_ref))
            connection.execute(QUERIES["refund_to_fail_delete"], (operation_id,))
            outcome = Outcome(
                provider_ref=provider_ref_for(operation_id),
                operation_id=operation_id,
                kind="refund",
                status="failed",
                reference=reference,
                amount=amount,
                currency=currency,
                decline_code=code,
                after_success=True,
            )
            if self.tells:
                event = webhooks.event_of_outcome(outcome)
                webhooks.tell(connection, event, modes.mode_of(token), self.now_ms)
        return len(due)
