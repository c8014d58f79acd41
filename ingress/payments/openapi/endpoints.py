"""Webhook endpoints and deliveries in the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from ingress.http.openapi import elements, shared
from ingress.http.openapi.shared import STRING, TEXT_OR_NULL, TIME, TIME_OR_NULL
from ingress.payments.merchants import endpoint_values, endpoints
from schemas import limits
from schemas.fields.legible_text import LEGIBLE
from schemas.payments import limits as payments_limits

Json = dict[str, Any]

_EVENTS: Final[Json] = {
    "type": "array",
    "minItems": 1,
    "items": {"enum": [endpoint_values.EVERYTHING, *endpoint_values.EVENTS]},
}
_WRITE_CODES: Final = ("malformed_request", "too_large", "unsupported_media_type")
_DOC: Final = (
    "Every event of the caller's payments that the endpoint asks for is posted to it, at least once, in the order"
    " of each payment, signed as Standard Webhooks: webhook-id is the id of the event, by which a repetition is"
    " known. Only a 2xx is a receipt; redirects are not followed. The URL is the identity of an endpoint: posted"
    " again with the same values, it is the same endpoint (Idempotency-Replayed), without its secret, which is shown"
    " once. An endpoint is unverified until its first 2xx, and disabled when it took nothing during the whole"
    " schedule of a delivery, or answered 410. What is posted is the event as /v1/events shows it, with type (such as"
    " payment_intent.succeeded), timestamp and data, the object that it is about."
)


def paths() -> Json:
    """Every operation of endpoints and deliveries."""
    endpoint = [elements.object_id("endpoint_id")]
    delivery = [elements.object_id("delivery_id")]
    page = [elements.limit(), elements.CURSOR]
    one, conflict = ("not_found",), ("not_found", "state_conflict")
    listed = ("malformed_request", "invalid_command")
    root, own = "/v1/webhook_endpoints", "/v1/webhook_endpoints/{endpoint_id}"
    return {
        root: {
            "get": _operation("list_webhook_endpoints", "The caller's endpoints", page, listed, "WebhookEndpointPage"),
            "post": _create(),
        },
        own: {
            "get": _operation("get_webhook_endpoint", "One endpoint", endpoint, one, "WebhookEndpoint"),
            "delete": _delete(endpoint),
        },
        f"{own}/rotate_secret": {
            "post": _change("rotate_webhook_secret", "A new secret", endpoint, conflict, "MadeWebhookEndpoint")
        },
        f"{own}/enable": {
            "post": _change("enable_webhook_endpoint", "Send to it again", endpoint, one, "MadeWebhookEndpoint")
        },
        f"{own}/deliveries": {
            "get": _operation(
                "list_webhook_deliveries",
                "What was sent there, newest first",
                [*endpoint, *page],
                (*one, *listed),
                "WebhookDeliveryPage",
            )
        },
        "/v1/webhook_deliveries/{delivery_id}/resend": {
            "post": _change("resend_webhook_delivery", "Send it again", delivery, conflict, "ResentWebhookDelivery")
        },
    }


def components() -> dict[str, Json]:
    """The named schemas of these operations."""
    url = {"type": "string", "maxLength": payments_limits.MERCHANT_WEBHOOK_URL_LENGTH_MAX, "format": "uri"}
    shown = {
        "id": STRING,
        "object": {"const": "webhook_endpoint"},
        "merchant_id": STRING,
        "url": url,
        "events": _EVENTS,
        "description": TEXT_OR_NULL,
        "state": {"enum": list(endpoints.STATES)},
        "disabled_reason": TEXT_OR_NULL,
        "created_at": TIME,
        "verified_at": TIME_OR_NULL,
        "last_success_at": TIME_OR_NULL,
    }
    delivery = {
        **dict.fromkeys(("id", "webhook_endpoint", "event_id", "aggregate_key", "operation"), STRING),
        "object": {"const": "webhook_delivery"},
        "state": {"enum": list(endpoints.DELIVERY_STATES)},
        "tries": {"type": "integer", "minimum": 0},
        "last_status_code": {"type": ["integer", "null"]},
        "last_error": TEXT_OR_NULL,
        "next_at": TIME_OR_NULL,
        "created_at": TIME,
        "finished_at": TIME_OR_NULL,
    }
    secret = {"type": "string", "description": "Shown in this answer only"}
    description = {
        "type": ["string", "null"],
        "maxLength": limits.TEXT_LENGTH_MAX,
        "pattern": LEGIBLE,
    }
    return {
        "CreateWebhookEndpoint": shared.a_schema(
            {"url": url, "events": _EVENTS, "description": description}, ["url"], closed=True
        ),
        "WebhookEndpoint": shared.a_schema(shown),
        "MadeWebhookEndpoint": shared.a_schema({"result": shared.a_schema({**shown, "secret": secret}, list(shown))}),
        "WebhookDelivery": shared.a_schema(delivery),
        "ResentWebhookDelivery": shared.a_schema({"result": shared.ref("WebhookDelivery")}),
        "WebhookEndpointPage": shared.page_of(shared.ref("WebhookEndpoint")),
        "WebhookDeliveryPage": shared.page_of(shared.ref("WebhookDelivery")),
    }


def _operation(
    name: str, summary: str, parameters: list[Json], codes: tuple[str, ...], schema: str, scope: str = "payments:read"
) -> Json:
    return {
        "operationId": name,
        "summary": summary,
        "tags": ["webhook endpoints"],
        "security": [{"bearer": [scope]}],
        "parameters": parameters,
        "responses": {
            "200": elements.answer(summary, elements.JSON, schema),
            **elements.refusals((*elements.COMMON, *codes)),
        },
    }


def _change(name: str, summary: str, parameters: list[Json], codes: tuple[str, ...], schema: str) -> Json:
    nothing = {"type": "object", "maxProperties": 0}
    signed = [*parameters, *elements.SIGNATURE_HEADERS]
    made = _operation(name, summary, signed, (*codes, *_WRITE_CODES), schema, "payments:write")
    return made | {"requestBody": {"required": False, "content": {elements.JSON: {"schema": nothing}}}}


def _create() -> Json:
    codes = ("invalid_command", "state_conflict", *_WRITE_CODES)
    signed = list(elements.SIGNATURE_HEADERS)
    made = _operation("create_webhook_endpoint", "Be told", signed, codes, "MadeWebhookEndpoint", "payments:write")
    made["responses"]["201"] = made["responses"].pop("200")
    schema = shared.ref("CreateWebhookEndpoint")
    return made | {
        "description": _DOC,
        "requestBody": {"required": True, "content": {elements.JSON: {"schema": schema}}},
    }


def _delete(parameters: list[Json]) -> Json:
    made = _operation(
        "delete_webhook_endpoint",
        "Be told no more",
        [*parameters, *elements.SIGNATURE_HEADERS],
        ("not_found", *_WRITE_CODES),
        "WebhookEndpoint",
        "payments:write",
    )
    responses = {status: answer for status, answer in made["responses"].items() if status != "200"}
    return made | {"responses": {"204": {"description": "Nothing is sent there any more"}, **responses}}
