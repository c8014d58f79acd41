"""Disputes: a card's bank takes money back, and a verdict may return it. Levers of tests, as deeds upon the book.

What is refunded cannot be disputed again and the other way round, so a payer is never paid twice. Like Stripe, the
processor tells the opening and the taking of the funds as two events.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from compose.simulator import errors, limits, webhooks
from compose.simulator.evidence import verdict_of
from compose.simulator.operations import modes
from compose.simulator.operations.known import capture_of
from compose.simulator.operations.nouns import Capture, Identity, MoneyMinor, provider_ref_for
from compose.simulator.statements import QUERIES

if TYPE_CHECKING:
    import sqlite3

Outcome = Literal["won", "lost"]


class OpenBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The body of POST /disputes."""

    reference: Identity
    amount: MoneyMinor
    reason: Literal["fraudulent", "duplicate", "product_not_received", "general"] = "fraudulent"


class CloseBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The body of POST /disputes/{id}/close."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class OpenDispute:
    """A deed: the funds of a capture are withdrawn, and the fee with them."""

    body: OpenBody
    tells: bool

    def apply(self, connection: sqlite3.Connection) -> dict[str, Any]:
        """The new dispute. Raises NotFound without a capture, InvalidOperation past what is left of it."""
        body, now_ms = self.body, webhooks.now_ms()
        capture = capture_of(connection.execute(QUERIES["captures_of_reference"], (body.reference,)).fetchone())
        if capture is None:
            raise errors.NotFound("Nothing was captured under this reference.")
        if body.amount > capture.remainder:
            reason = f"only {capture.remainder} of that capture is neither refunded nor disputed"
            raise errors.InvalidOperation(errors=[{"field": "amount", "reason": reason}])
        dispute = _Dispute(_new_id(connection, capture), capture.provider_ref, capture.operation_id, body.reference,
                           body.amount, capture.currency, limits.SIMULATOR_DISPUTE_FEE_MINOR, body.reason)  # fmt: skip
        connection.execute(QUERIES["dispute_insert"], (*dispute.row, now_ms))
        connection.execute(QUERIES["capture_give_back"], (0, body.amount, capture.provider_ref))
        _note_for_settlement(connection, "dispute", dispute, -dispute.amount, dispute.fee, now_ms)
        due = {"evidence_due_by_ms": now_ms + limits.SIMULATOR_EVIDENCE_MS}
        if self.tells:
            _tell(connection, dispute, "dispute.created", "needs_response", "none", now_ms, due)
            _tell(connection, dispute, "dispute.funds_withdrawn", "needs_response", "withdrawn", now_ms, due)
        return dispute.view("needs_response", "withdrawn") | due


@dataclass(frozen=True, slots=True)
class CloseDispute:
    """A deed: the verdict, which decisive evidence makes whatever is asked. The same again changes nothing."""

    dispute_id: str
    outcome: Outcome
    tells: bool

    def apply(self, connection: sqlite3.Connection) -> dict[str, Any]:
        """The closed dispute. Raises NotFound, or DisputeClosed when it has the other outcome."""
        now_ms = webhooks.now_ms()
        row = connection.execute(QUERIES["dispute_fetch"], (self.dispute_id,)).fetchone()
        if row is None:
            raise errors.NotFound("There is no such dispute.")
        *facts, decided = row
        dispute = _Dispute(self.dispute_id, *facts)
        outcome = verdict_of(connection, self.dispute_id, self.outcome)
        funds = "reinstated" if outcome == "won" else "withdrawn"
        if decided is None:
            connection.execute(QUERIES["dispute_end_insert"], (self.dispute_id, outcome, now_ms))
            if self.tells:
                _tell(connection, dispute, "dispute.closed", outcome, "withdrawn", now_ms)
            if outcome == "won":
                self._reinstate(connection, dispute, now_ms)
        elif decided != outcome:
            raise errors.DisputeClosed
        return dispute.view(outcome, funds)

    def _reinstate(self, connection: sqlite3.Connection, dispute: _Dispute, now_ms: int) -> None:
        connection.execute(QUERIES["capture_give_back"], (0, -dispute.amount, dispute.capture_ref))
        _note_for_settlement(connection, "dispute_reversal", dispute, dispute.amount, 0, now_ms)
        if self.tells:
            _tell(connection, dispute, "dispute.funds_reinstated", "won", "reinstated", now_ms)


@dataclass(frozen=True, slots=True)
class _Dispute:
    dispute_id: str
    capture_ref: str
    operation_id: str
    reference: str
    amount: int
    currency: str
    fee: int
    reason: str

    @property
    def row(self) -> tuple[str | int, ...]:
        return (self.dispute_id, self.capture_ref, self.operation_id, self.reference, self.amount, self.currency,
                self.fee, self.reason)  # fmt: skip

    def view(self, status: str, funds: str) -> dict[str, Any]:
        return {
            "id": self.dispute_id,
            "reference": self.reference,
            "operation_id": self.operation_id,
            "amount": self.amount,
            "currency": self.currency,
            "fee": self.fee,
            "reason": self.reason,
            "status": status,
            "funds": funds,
        }


def _new_id(connection: sqlite3.Connection, capture: Capture) -> str:
    (count,) = connection.execute(QUERIES["dispute_count"], (capture.provider_ref,)).fetchone()
    return "sdp_" + hashlib.sha256(f"{capture.provider_ref}:{count}".encode()).hexdigest()[:24]


def _tell(
    connection: sqlite3.Connection,
    dispute: _Dispute,
    kind: str,
    status: str,
    funds: str,
    now_ms: int,
    due: dict[str, int] | None = None,
) -> None:
    data = {
        "dispute_id": dispute.dispute_id,
        "reference": dispute.reference,
        "operation_id": dispute.operation_id,
        "provider_ref": provider_ref_for(dispute.operation_id),
        "amount": dispute.amount,
        "currency": dispute.currency,
        "fee": dispute.fee,
        "reason": dispute.reason,
        "status": status,
        "funds": funds,
        **(due or {}),
    }
    event = webhooks.Event(
        type=kind,
        identity=f"{dispute.dispute_id}:{kind}",
        reference=dispute.reference,
        operation_id=dispute.dispute_id,
        data=data,
    )
    webhooks.tell(connection, event, modes.APPROVE, now_ms)


def _note_for_settlement(
    connection: sqlite3.Connection, kind: str, dispute: _Dispute, gross: int, fee: int, now_ms: int
) -> None:
    connection.execute(
        QUERIES["unsettled_insert"],
        (kind, dispute.operation_id, dispute.reference, dispute.dispute_id, dispute.currency, gross, fee, now_ms),
    )
