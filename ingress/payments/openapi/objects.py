"""What reads and commands of payments show: intents, refunds, disputes, balances, fees, processors."""

from __future__ import annotations

from typing import Any, get_args

from ingress.http.openapi.shared import (
    INTEGER,
    STRING,
    SUM,
    TEXT_OR_NULL,
    TIME,
    TIME_OR_NULL,
    a_schema,
    list_of,
    page_of,
    ref,
    resource,
)
from schemas.payments import records

Json = dict[str, Any]


def _intent() -> Json:
    return resource(
        records.PaymentIntent,
        "payment_intent",
        {
            "last_payment_error": {"anyOf": [a_schema({"code": STRING}), {"type": "null"}]},
            "next_action": {"anyOf": [_payer_action(), {"type": "null"}]},
        },
    )


def _payer_action() -> Json:
    """Of kinds other than ``redirect_to_url``, ``details`` are the processor's own."""
    parts = {"type": STRING, "url": {"type": ["string", "null"]}, "details": {"type": "object"}}
    return a_schema(parts, required=["type", "url"])


def _refund() -> Json:
    return resource(records.Refund, "refund")


def _dispute() -> Json:
    return resource(records.Dispute, "dispute")


def _fee_policy() -> Json:
    terms = {
        "version": {"type": ["integer", "null"]},
        "effective_at": TIME_OR_NULL,
        "bps": {"type": "integer", "minimum": 0},
        "fixed": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
        "refunds_return": {"enum": ["nothing", "bps"]},
    }
    upcoming = {"type": "array", "items": a_schema(terms)}
    return a_schema({"object": {"const": "fee_policy"}, "merchant_id": STRING} | terms | {"upcoming": upcoming})


def _balances() -> Json:
    row = a_schema({"currency": STRING, "pending": INTEGER, "available": INTEGER, "reserved": INTEGER})
    return list_of(row)


def _processors() -> Json:
    health = {"breaker": {"enum": ["closed", "half_open", "open"]}, "as_of": TIME, "window_s": SUM}
    health |= dict.fromkeys(("succeeded", "declined", "failed", "unknown"), SUM)
    row = {
        "object": {"const": "processor"},
        "name": STRING,
        "adapter": STRING,
        "share_bps": {"type": ["integer", "null"], "minimum": 0},
        "health": {"anyOf": [a_schema(health), {"type": "null"}]},
    }
    return list_of(a_schema(row))


def _attempt() -> Json:
    return a_schema(
        {
            "object": {"const": "processor_attempt"},
            "attempt": SUM,
            "kind": {"enum": list(get_args(records.AttemptKind))},
            "status": {"enum": list(get_args(records.AttemptStatus))},
            "processor": STRING,
            "amount": SUM,
            "currency": STRING,
            "provider_ref": TEXT_OR_NULL,
            "error_code": TEXT_OR_NULL,
            "created_at": TIME,
            "updated_at": TIME,
        }
    )


def _expandable(document: Json, instead: Json, beside: Json) -> Json:
    """A resource as one read shows it: what ``expand[]`` puts instead of an id, and what it adds."""
    replaced = {name: {"anyOf": [document["properties"][name], schema]} for name, schema in instead.items()}
    return {**document, "properties": document["properties"] | replaced | beside}


def _reads() -> dict[str, Json]:
    first = {
        name: a_schema({"data": {"type": "array", "items": ref(schema)}, "has_more": {"type": "boolean"}})
        for name, schema in (("refunds", "Refund"), ("disputes", "Dispute"))
    }
    attempt = {"anyOf": [_attempt(), {"type": "null"}]}
    of_payment = {"payment_intent": ref("PaymentIntent")}
    return {
        "PaymentIntentRead": _expandable(_intent(), {"latest_attempt": attempt}, first),
        "RefundRead": _expandable(_refund(), of_payment, {}),
        "DisputeRead": _expandable(_dispute(), of_payment, {}),
        "DryRun": a_schema(
            {
                "dry_run": {"const": True},
                "result": {"anyOf": [ref("PaymentIntent"), ref("Refund")]},
                "not_considered": {"type": "array", "items": STRING},
            }
        ),
    }


def components() -> Json:
    """Every schema of these."""
    return {
        "PaymentIntent": _intent(),
        "Committed": a_schema({"result": ref("PaymentIntent"), "event": ref("Event")}),
        "PaymentIntentPage": page_of(ref("PaymentIntent")),
        **_reads(),
        "Refund": _refund(),
        "CommittedRefund": a_schema({"result": ref("Refund"), "event": ref("Event")}),
        "RefundPage": page_of(ref("Refund")),
        "Dispute": _dispute(),
        "CommittedDispute": a_schema({"result": ref("Dispute"), "event": ref("Event")}),
        "DisputePage": page_of(ref("Dispute")),
        "Balances": _balances(),
        "FeePolicyRead": _fee_policy(),
        "Processors": _processors(),
    }
