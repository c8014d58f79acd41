"""What the book has of operations, and of the holds and captures that further ones work on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from compose.simulator.operations import modes
from compose.simulator.operations.nouns import Capture, Hold, OperationBody, Outcome, provider_ref_for
from compose.simulator.statements import QUERIES

if TYPE_CHECKING:
    import sqlite3

_CHALLENGES: Final = "https://acs.simulator.example/challenge"
_WITH_CHALLENGE: Final = frozenset({"authorize", "purchase"})
_body_of: Final = msgspec.json.Decoder(OperationBody).decode


@dataclass(frozen=True, slots=True)
class KnownOperation:
    """What became of it, and how its card behaves."""

    outcome: Outcome
    fingerprint: bytes
    mode: modes.Mode
    failed_later: str | None = None
    released: int | None = None  # of a hold that ended by itself


class KnownOperations:
    """Those of one book."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def operation(self, operation_id: str) -> KnownOperation | None:
        """What was carried out, or waits for its payer."""
        row = self._connection.execute(QUERIES["operation_fetch"], (operation_id,)).fetchone()
        if row is None:
            return self._waiting(operation_id)
        _, fingerprint, token, kind, status, reference, amount, currency, decline_code, booked_at_ms = row[:10]
        failed_later, released = row[10:]
        mode = modes.mode_of(token)
        is_hold = (kind, status) == ("authorize", "authorized")
        outcome = Outcome(
            provider_ref=provider_ref_for(operation_id),
            operation_id=operation_id,
            kind=kind,
            status=status,
            reference=reference,
            amount=amount,
            currency=currency,
            decline_code=decline_code,
            authorized_until_ms=booked_at_ms + mode.hold_ms if is_hold else None,
        )
        return KnownOperation(outcome, fingerprint, mode, failed_later, released)

    def _waiting(self, operation_id: str) -> KnownOperation | None:
        waits = self.waits_for_payer(operation_id)
        if waits is None:
            return None
        fingerprint, token, body = waits
        mode = modes.mode_of(token)
        return KnownOperation(waiting(operation_id, body, mode), fingerprint, mode)

    def waits_for_payer(self, operation_id: str) -> tuple[bytes, str | None, OperationBody] | None:
        """Fingerprint, card and body of an operation whose payer has to act."""
        row = self._connection.execute(QUERIES["action_fetch"], (operation_id,)).fetchone()
        if row is None:
            return None
        _, fingerprint, token, text = row
        return fingerprint, token, _body_of(text)

    def hold(self, provider_ref: str | None) -> Hold | None:
        """The hold that the processor's name is of."""
        row = self._connection.execute(QUERIES["hold_fetch"], (provider_ref,)).fetchone()
        if row is None:
            return None
        ref, token, reference, currency, amount, captured, released = row
        return Hold(
            provider_ref=ref,
            token=token,
            reference=reference,
            currency=currency,
            amount=amount,
            captured=captured,
            released=released,
        )

    def capture(self, provider_ref: str | None) -> Capture | None:
        """The capture that the processor's name is of."""
        return capture_of(self._connection.execute(QUERIES["capture_fetch"], (provider_ref,)).fetchone())

    def parents(self, body: OperationBody) -> tuple[Hold | None, Capture | None]:
        """The hold or the capture that an operation works on."""
        hold = self.hold(body.parent) if body.kind in {"increment", "capture", "void"} else None
        return hold, self.capture(body.parent) if body.kind == "refund" else None


def capture_of(row: tuple[str, str, str, str, str, int, int, int] | None) -> Capture | None:
    """The capture of a row of QUERIES["capture_fetch"] or ["captures_of_reference"]."""
    if row is None:
        return None
    provider_ref, operation_id, token, reference, currency, amount, refunded, disputed = row
    return Capture(
        provider_ref=provider_ref,
        operation_id=operation_id,
        token=token,
        reference=reference,
        currency=currency,
        amount=amount,
        refunded=refunded,
        disputed=disputed,
    )


def waiting(operation_id: str, body: OperationBody, mode: modes.Mode) -> Outcome:
    """What an operation says of itself while its payer has to act."""
    return Outcome(
        provider_ref=provider_ref_for(operation_id),
        operation_id=operation_id,
        kind=body.kind,
        status="pending" if mode.refund_pending else "requires_action",
        reference=body.reference,
        amount=body.amount,
        currency=body.currency,
        decline_code=None,
        redirect_url=f"{_CHALLENGES}/{operation_id}" if body.kind in _WITH_CHALLENGE else None,
        pending_reason=mode.refund_pending,
    )
