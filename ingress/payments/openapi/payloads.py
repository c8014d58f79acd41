"""The JSON schemas of what a client of payments sends: the payload of each operation, by its record."""

from __future__ import annotations

from typing import Any, Final

from ingress.http.openapi_schemas import AMOUNT, OBJECT_ID, TEXT, a_schema
from schemas import currency, limits

Json = dict[str, Any]

_TOKEN: Final[Json] = {
    "type": ["string", "null"],
    "maxLength": limits.TOKEN_LENGTH_MAX,
    "pattern": r"^(tok|pm)_[\u0020-\u007e]*$",
}
_COUNTRY: Final[Json] = {"type": ["string", "null"], "pattern": "^[A-Z]{2}$"}
_METADATA: Final[Json] = {
    "type": "object",
    "maxProperties": limits.METADATA_KEYS_MAX,
    "propertyNames": {"minLength": 1, "maxLength": limits.METADATA_KEY_LENGTH_MAX, "pattern": TEXT},
    "additionalProperties": {
        "type": "string",
        "maxLength": limits.METADATA_VALUE_LENGTH_MAX,
        "pattern": TEXT,
    },
}
_CANCEL_REASONS: Final = ["duplicate", "fraudulent", "requested_by_customer", "abandoned", None]
_REFUND_REASONS: Final = ["duplicate", "fraudulent", "requested_by_customer", None]

PAYLOADS: Final[dict[str, Json]] = {
    "CreatePaymentIntent": a_schema(
        {
            "amount": AMOUNT,
            "currency": {"enum": sorted(currency.EXPONENTS)},
            "payment_method": _TOKEN,
            "capture_method": {"enum": ["automatic", "manual"]},
            "metadata": _METADATA,
        },
        ["amount", "currency"],
        closed=True,
    ),
    "ConfirmPaymentIntent": a_schema(
        {
            "payment_method": _TOKEN,
            "customer_ip": {
                "anyOf": [{"type": "string", "format": "ipv4"}, {"type": "string", "format": "ipv6"}, {"type": "null"}],
                "description": "The payer's address in its canonical form, for the risk rules",
            },
            "customer_country": _COUNTRY,
            "card_country": _COUNTRY,
        },
        [],
        closed=True,
    ),
    "UpdatePaymentIntent": a_schema(
        {
            "amount": {**AMOUNT, "type": ["integer", "null"]},
            "currency": {"enum": [*sorted(currency.EXPONENTS), None]},
            "payment_method": _TOKEN,
            "capture_method": {"enum": ["automatic", "manual", None]},
            "metadata": {**_METADATA, "type": ["object", "null"]},
        },
        [],
        closed=True,
    ),
    "IncrementAuthorization": a_schema({"amount": AMOUNT}, ["amount"], closed=True),
    "SubmitDisputeEvidence": a_schema(
        {
            "dispute": {**OBJECT_ID, "description": "The id of the route, which says it already"},
            "evidence": {
                "type": "object",
                "maxProperties": limits.EVIDENCE_KINDS_MAX,
                "propertyNames": {"minLength": 1, "maxLength": limits.EVIDENCE_KIND_LENGTH_MAX, "pattern": TEXT},
                "additionalProperties": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": limits.EVIDENCE_TEXT_LENGTH_MAX,
                    "pattern": TEXT,
                },
                "description": "Texts by kind; they replace those of the same kind in the draft",
            },
            "submit": {"type": "boolean", "description": "Send the whole draft, for good"},
        },
        [],
        closed=True,
    ),
    "CapturePaymentIntent": a_schema(
        {"amount": {**AMOUNT, "type": ["integer", "null"]}, "final": {"type": "boolean"}}, [], closed=True
    ),
    "CreateRefund": a_schema(
        {
            "payment_intent": OBJECT_ID,
            "amount": {**AMOUNT, "type": ["integer", "null"]},
            "reason": {"enum": _REFUND_REASONS},
            "metadata": _METADATA,
        },
        ["payment_intent"],
        closed=True,
    ),
    "CancelRefund": a_schema(
        {"refund": {**OBJECT_ID, "description": "The id of the route, which says it already"}}, [], closed=True
    ),
    "CreatePayout": a_schema(
        {
            "amount": AMOUNT,
            "currency": {"enum": sorted(currency.EXPONENTS)},
            "destination": {
                "type": "string",
                "minLength": 1,
                "maxLength": limits.PAYOUT_DESTINATION_LENGTH_MAX,
                "pattern": TEXT,
                "description": "The merchant's own name of its bank account",
            },
            "metadata": _METADATA,
        },
        ["amount", "currency", "destination"],
        closed=True,
    ),
    "CancelPayout": a_schema(
        {"payout": {**OBJECT_ID, "description": "The id of the route, which says it already"}}, [], closed=True
    ),
    "CancelPaymentIntent": a_schema({"cancellation_reason": {"enum": _CANCEL_REASONS}}, [], closed=True),
}
