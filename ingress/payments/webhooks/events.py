"""What a verified webhook says on its face: an identity, a type, perhaps a payment. Pure; its meaning is the worker's.

The identity is what makes a repeated delivery the same event, so it comes from signed bytes only. A card number is not
stored, whoever tells it: a word stands in its place, and an identity that looks like one is known by its MAC.
"""

from __future__ import annotations

import hmac
from typing import Any, Final

import msgspec
from msgspec import Struct

from ingress.http.requests import strict_json
from ingress.payments.webhooks import signatures
from schemas import errors
from schemas.fields import card_number, validation
from schemas.payments import limits

_encode: Final = msgspec.json.Encoder().encode


class ProviderEvent(Struct, frozen=True, kw_only=True):
    """One event as its row of ``provider_event`` keeps it."""

    processor: str
    provider_event_id: str
    event_type: str
    reference: str | None
    body: bytes


def event_of(processor: str, raw: bytes, message_id: str | None, key: bytes) -> ProviderEvent:
    """The event in a verified body; ``message_id`` is the signed one where the scheme has it, ``key`` our secret.

    Raises MalformedRequest when the body is JSON of no event, or no JSON.
    """
    body = strict_json.parse(raw)
    if not isinstance(body, dict) or not isinstance(body.get("data"), dict):
        raise errors.MalformedRequest("An event is an object with an id, a type and data.")
    event_id = body.get("id") if message_id is None else message_id
    told = _without_cards(body)
    kept = raw if told == body else _encode(told)
    return _event(processor, _identity(event_id, key), told.get("type"), _reference(told["data"]), kept)


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


def event_of_adyen(item: dict[str, Any], key: bytes) -> ProviderEvent:
    """The event of one verified notification. Raises MalformedRequest when it has no identity."""
    code, reference = item.get("eventCode"), item.get("pspReference")
    event_id = _identity(f"{code}:{reference}:{item.get('success')}" if reference else None, key)
    told = _without_cards(item)
    return _event("adyen", event_id, told.get("eventCode"), told.get("merchantReference"), _encode(told))


def _identity(said: object, key: bytes) -> object:
    """The same event has the same one. Of an order number that could be a card's, nothing is lost."""
    if isinstance(said, str) and card_number.holds_card_number(said):
        return f"mac_{hmac.digest(key, said.encode(errors='replace'), 'sha256').hex()}"
    return said


def _without_cards(value: Any) -> Any:
    """JSON with a word in place of every name, text and number that holds a card number."""
    if isinstance(value, dict):
        return {validation.without_card(name): _without_cards(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_without_cards(one) for one in value]
    if isinstance(value, str):
        return validation.without_card(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return validation.without_card(str(value)) if is_number and card_number.holds_card_number(str(value)) else value


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
