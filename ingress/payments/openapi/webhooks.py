"""The route of processors in the OpenAPI document: no bearer token, a signature instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ingress.payments.webhooks.signatures import PROCESSORS

Json = dict[str, Any]

_CODES: Final = (
    "malformed_request",
    "invalid_signature",
    "not_found",
    "too_large",
    "unsupported_media_type",
    "headers_too_large",
    "internal_error",
    "unavailable",
)
_DOC: Final = (
    "The raw body is verified: Stripe-Signature for stripe; webhook-id, webhook-timestamp and webhook-signature"
    " (Standard Webhooks) for standard and simulator; the hmacSignature of each item for adyen. 2xx means that every"
    " genuine event is durable; a repeated one is answered as the first time."
)
#: a scheme, or a further processor that is named after it
_NAME: Final = rf"^({'|'.join(PROCESSORS)})(_[a-z0-9]{{1,24}})?$"
_HEADERS: Final = ("Stripe-Signature", "webhook-id", "webhook-timestamp", "webhook-signature")


def receive(problems: Callable[[tuple[str, ...]], Json]) -> Json:
    """The operation; ``problems`` renders the responses of codes."""
    processor = {"name": "processor", "in": "path", "required": True, "schema": {"type": "string", "pattern": _NAME}}
    headers = [{"name": name, "in": "header", "required": False, "schema": {"type": "string"}} for name in _HEADERS]
    taken = {"application/json": {"schema": {"type": "object"}}, "text/plain": {"schema": {"const": "[accepted]"}}}
    return {
        "operationId": "receive_webhook",
        "summary": "A processor tells what happened",
        "description": _DOC,
        "tags": ["processors"],
        "security": [],
        "parameters": [processor, *headers],
        "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}},
        "responses": {"200": {"description": "Durable", "content": taken}, **problems(_CODES)},
    }
