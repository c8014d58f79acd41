"""What is read of payments, in the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from ingress.http.openapi import elements
from ingress.http.openapi.reads import OF_A_LIST, OF_ONE, a_list, read
from ingress.operators.openapi_cases import for_operators
from ingress.payments import expansion, filters
from ingress.payments.resources import DISPUTES, INTENTS, REFUNDS, Kind
from schemas.payments import limits as payments_limits

Json = dict[str, Any]

_AT: Final = elements.query("at", {"type": "string", "format": "date-time"}, "At this past time instead of now")


def paths() -> Json:
    """The GET of every path of payments that has one."""
    return {
        "/v1/payment_intents": a_list(
            "payment_intents",
            "The caller's payment intents, newest first",
            "PaymentIntentPage",
            *filters_of(INTENTS),
        ),
        "/v1/payment_intents/{intent_id}": _resource(
            "payment_intent", "intent_id", "One payment intent", "PaymentIntentRead", "payment_intents"
        ),
        "/v1/refunds": a_list("refunds", "The caller's refunds, newest first", "RefundPage", *filters_of(REFUNDS)),
        "/v1/refunds/{refund_id}": _resource("refund", "refund_id", "One refund", "RefundRead", "refunds"),
        "/v1/disputes": a_list("disputes", "The caller's disputes, newest first", "DisputePage", *filters_of(DISPUTES)),
        "/v1/disputes/{dispute_id}": _resource("dispute", "dispute_id", "One dispute", "DisputeRead", "disputes"),
        "/v1/balance": _balance(),
        "/v1/fee_policy": _fee_policy(),
        "/v1/processors": _processors(),
    }


def filters_of(kind: Kind[Any]) -> list[Json]:
    """By what the list of a kind is filtered."""
    return filters.parameters(kind.record, of_intent=kind.of_intent is not None)


def _resource(name: str, parameter: str, summary: str, schema: str, kind: str | None = None) -> Json:
    headers = {"ETag": elements.header("The version, in quotes; none when something is expanded")}
    responses = {
        "200": elements.answer("The resource", elements.JSON, schema, headers),
        "304": {"description": "If-None-Match names the current version"},
    }
    parameters = [elements.object_id(parameter), elements.PREFER, elements.NONE_MATCH]
    if kind is not None:
        names = {
            "type": "array",
            "items": {"enum": list(expansion.ALLOWED[kind])},
            "maxItems": payments_limits.EXPANSIONS_MAX,
        }
        parameters.append(elements.query(expansion.PARAMETER, names, "What to take along instead of its id"))
    return read(f"get_{name}", summary, parameters, responses, (*OF_ONE, "invalid_command"))


def _balance() -> Json:
    responses = {"200": elements.answer("The balances, one for each currency", elements.JSON, "Balances")}
    return read("get_balance", "What is owed to the merchant", [_AT], responses, OF_A_LIST)


def _fee_policy() -> Json:
    responses = {"200": elements.answer("The terms in force, and those to come", elements.JSON, "FeePolicyRead")}
    return read("get_fee_policy", "What the platform takes of the caller's captures", [], responses, ())


def _processors() -> Json:
    responses = {"200": elements.answer("The processors, the default first", elements.JSON, "Processors")}
    return for_operators(read("list_processors", "Every processor, and how it is", [], responses, ()))
