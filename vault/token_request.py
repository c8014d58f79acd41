"""From a request to a card that is to be stored, in both forms that the ingress takes (envelope or header fields).

No error tells what was sent: a number may stand in any place, in a field's name or an idempotency key too.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ingress.commands import envelope_fields
from ingress.http.requests import strict_json
from schemas import errors, limits
from schemas.fields import validation
from vault.card import Card, read_card

if TYPE_CHECKING:
    from starlette.datastructures import Headers

PATH: Final = "/v1/tokens"
OPERATION: Final = f"POST {PATH}"
_FIELDS: Final = frozenset(("operation", "request_id", "idempotency_key", "payload"))
_ENVELOPE_MARKS: Final = ("idempotency_key", "payload")


class TokenRequest(Struct, frozen=True):
    """A valid POST /v1/tokens."""

    idempotency_key: str
    card: Card


def read_request(raw: bytes, headers: Headers) -> TokenRequest:
    """The request. Raises MalformedRequest, IdempotencyKeyRequired or InvalidCommand."""
    given = envelope_fields.header_fields(headers)
    body = _parsed(raw)
    if given.idempotency_key is not None and not any(mark in body for mark in _ENVELOPE_MARKS):
        body = {"payload": body}
    key = _key(body, given.idempotency_key)
    if not body.keys() <= _FIELDS:
        raise errors.MalformedRequest("The envelope has only idempotency_key, request_id, operation and payload.")
    if body.get("operation", OPERATION) != OPERATION:
        raise errors.MalformedRequest("The field operation contradicts the route.")
    payload = body.get("payload", {})
    if not isinstance(payload, dict):
        raise errors.MalformedRequest("The payload must be a JSON object.")
    if any(name in payload for name in validation.TENANT_NAMES):
        raise errors.MalformedRequest("The payload must not say a tenant: it comes only from the token.")
    card, wrong = read_card(payload, datetime.now(UTC))
    if reason := validation.clean_text(key, limits.IDEMPOTENCY_KEY_LENGTH_MAX):
        wrong.append({"field": "idempotency_key", "reason": reason})
    if wrong or card is None:
        raise errors.InvalidCommand(wrong)
    return TokenRequest(idempotency_key=key, card=card)


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        body = strict_json.parse(raw) if raw.strip() else {}
    except errors.MalformedRequest:
        # Without the cause: it may quote a key of the document.
        raise errors.MalformedRequest("The body is not valid JSON in UTF-8 with each key once.") from None
    if not isinstance(body, dict):
        raise errors.MalformedRequest("The body must be a JSON object.")
    return body


def _key(body: dict[str, Any], header: str | None) -> str:
    said = body.get("idempotency_key")
    if said is not None and not isinstance(said, str):
        raise errors.MalformedRequest("The field idempotency_key must be a string.")
    if said is not None and header is not None and said != header:
        raise errors.MalformedRequest("The header and the field idempotency_key contradict each other.")
    key = said if said is not None else header
    if not key:
        raise errors.IdempotencyKeyRequired
    return key
