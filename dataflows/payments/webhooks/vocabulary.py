"""From the body of an event to what it says. Pure, and total: whatever a processor signs, nothing is raised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import structs

from dataflows.payments.domain.dispute import RESPONSE_DUE
from dataflows.payments.webhooks import adyen_events, simulator_events, stripe_events
from dataflows.payments.webhooks.fields import Surprise
from dataflows.payments.webhooks.findings import AttemptOutcome, DisputeChange, Finding, Unknown, Unreadable
from schemas import identity, operation
from schemas.fields import card_number, validation
from schemas.payments import operations
from schemas.payments.processors import adapter_of

_decode: Final = msgspec.json.Decoder().decode


def _standard(event_type: str, body: dict[str, Any]) -> Finding:
    """Senders of Standard Webhooks are free in their words: ours, else objects as Stripe's."""
    reader = simulator_events.read if event_type in simulator_events.TYPES else stripe_events.read
    return reader(event_type, body)


_READERS: Final[dict[str, Callable[[str, dict[str, Any]], Finding]]] = {
    "simulator": simulator_events.read,
    "standard": _standard,
    "stripe": stripe_events.read,
    "adyen": adyen_events.read,
}


def read(processor: str, event_type: str, body: bytes) -> Finding:
    """What an event says; an id that cannot be ours is Unknown, a value that no command may have is Unreadable."""
    try:
        document = _decode(body)
        if not isinstance(document, dict):
            return Unreadable("the event is no object")
        found = _READERS[adapter_of(processor)](event_type, document)
    except (Surprise, msgspec.DecodeError, RecursionError) as error:
        return Unreadable(str(error))
    if isinstance(found, AttemptOutcome):
        return _checked_outcome(found)
    if isinstance(found, DisputeChange):
        return _checked_dispute(found)
    return found


def _checked_outcome(found: AttemptOutcome) -> Finding:
    # programs outside choose ids of other forms than our ingress derives: whether one is ours, only a look-up tells
    place = identity.place_of_operation(found.operation_id)
    if place is None or not operation.ID.fullmatch(place[0]):
        return Unknown(found.operation_id)
    status = "captured" if found.status == "charged" else found.status
    payload = outcome_payload(structs.replace(found, status=status), place[1])
    return _refused("record_attempt_outcome", payload) or found


def _checked_dispute(found: DisputeChange) -> Finding:
    if found.intent_id and not operation.ID.fullmatch(found.intent_id):
        return Unknown(found.intent_id)
    if found.status not in RESPONSE_DUE:  # processors go on telling a deadline that is past
        found = structs.replace(found, evidence_due_by=None)
    return _refused("record_dispute", dispute_payload(found)) or found


def _refused(name: str, payload: dict[str, Any]) -> Unreadable | None:
    """Why no command may say it. Where the ingress left a card number out, nobody knows what stood there."""
    _, wrong = validation.normalize(operations.OPERATIONS[name].payload, payload)
    said = [f"{w['field']} {w['reason']}" for w in wrong]
    said += [f"payload.{name} {card_number.REFUSED}" for name, value in payload.items() if _is_card(value)]
    return Unreadable("; ".join(said)) if said else None


def _is_card(value: object) -> bool:
    return isinstance(value, str) and (value == validation.A_CARD or card_number.holds_card_number(value))


def outcome_payload(found: AttemptOutcome, attempt: int) -> dict[str, Any]:
    """The payload of record_attempt_outcome."""
    return {
        "operation_id": found.operation_id,
        "attempt": attempt,
        "status": found.status,
        "provider_ref": found.provider_ref,
        "amount": found.amount,
        "currency": found.currency,
        "error_code": found.error_code,
        "redirect_url": found.redirect_url,
        "authorized_until": found.authorized_until,
        "pending_reason": found.pending_reason,
        "next_action": found.next_action,
    }


def dispute_payload(found: DisputeChange) -> dict[str, Any]:
    """The payload of record_dispute."""
    return {
        "provider_ref": found.provider_ref,
        "status": found.status,
        "funds": found.funds,
        "amount": found.amount,
        "currency": found.currency,
        "fee": found.fee,
        "reason": found.reason,
        "evidence_due_by": found.evidence_due_by,
    }
