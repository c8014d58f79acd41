"""What a verified webhook says on its face: an identity, a type, perhaps a payment. Pure; its meaning is the worker's.

The identity is what makes a repeated delivery the same event, so it comes from signed bytes only.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

from ingress.http import strict_json
from ingress.payments.webhooks import signatures
from schemas import errors, validation
from schemas.payments import limits

_encode: Final = msgspec.json.Encoder().encode


class ProviderEvent(Struct, frozen=True, kw_only=True):
    """One event as its row of ``provider_event`` keeps it."""

    processor: str
    provider_event_id: str
    event_type: str
    reference: str | None
    body: bytes


def event_of(processor: str, raw: bytes, message_id: str | None) -> ProviderEvent:
    """The event in a verified body; ``message_id`` is the signed one where the scheme has it.

    Raises MalformedRequest when the body is JSON of no event, or no JSON.
    """
    body = strict_json.parse(raw)
    if not isinstance(body, dict) or not isinstance(body.get("data"), dict):
        raise errors.MalformedRequest("An event is an object with an id, a type and data.")
    event_id = body.get("id") if message_id is None else message_id
    return _event(processor, event_id, body.get("type"), _reference(body["data"]), raw)


def adyen_items(raw: bytes) -> list[dict[str, Any]]:
    """The notifications of a batch, not verified yet. Raises InvalidSignature when none of it can be signed."""
    try:
        batch = strict_json.parse(raw)
    except errors.MalformedRequest as error:
        raise signatures.InvalidSignature from error
    items = batch.get("notificationItems") if isinstance(batch, dict) else None
    if not isinstance(items, list) or not 0 < len(items) <= limits.WEBHOOK_ITEMS_MAX:
        raise signatures.InvalidSignature
    wrapped = [item.get("NotificationRequestItem") if isinstance(item, dict) else None for item in items]
    return [item if isinstance(item, dict) else {} for item in wrapped]


def event_of_adyen(item: dict[str, Any]) -> ProviderEvent:
    """The event of one verified notification. Raises MalformedRequest when it has no identity."""
    code, reference = item.get("eventCode"), item.get("pspReference")
    event_id = f"{code}:{reference}:{item.get('success')}" if reference else None
    return _event("adyen", event_id, code, item.get("merchantReference"), _encode(item))


def _event(processor: str, event_id: object, event_type: object, reference: object, body: bytes) -> ProviderEvent:
    for name, value, length_max in (
        ("id", event_id, limits.WEBHOOK_EVENT_ID_LENGTH_MAX),
        ("type", event_type, limits.WEBHOOK_EVENT_TYPE_LENGTH_MAX),
    ):
        if reason := validation.clean_text(value, length_max):
            raise errors.MalformedRequest(f"The event's {name} {reason}.")
    named = None if validation.clean_text(reference, limits.WEBHOOK_REFERENCE_LENGTH_MAX) else reference
    return ProviderEvent(
        processor=processor,
        provider_event_id=str(event_id),
        event_type=str(event_type),
        reference=None if named is None else str(named),
        body=body,
    )


def _reference(data: dict[str, Any]) -> object:
    """The payment as the event names it: ours, or the metadata that we gave a foreign object."""
    found = data.get("object")
    metadata = found.get("metadata") if isinstance(found, dict) else None
    return metadata.get("reference") if isinstance(metadata, dict) else data.get("reference")
