"""What a call is in Stripe's words: the parameters of a request, the same for every send of one operation. Pure.

Metadata carries our operation, so that webhooks and searches lead back to it (dataflows/payments/webhooks reads it).
"""

from __future__ import annotations

from typing import Any, Final

from dataflows.payments.attempts.adapter import Call
from schemas.processor_currency import to_processor

ADAPTER: Final = "stripe"
KINDS: Final = frozenset({"authorize", "purchase", "capture", "void", "refund"})
_CHARGE_PREFIX: Final = "ch_"
#: cards only: no method that sends the payer elsewhere for days
_CARD_ONLY: Final = {"payment_method_types": ["card"]}


def why_not(call: Call) -> str | None:
    """Why this call can never be sent; None when it can. The same answer for every send of it."""
    if call.kind not in KINDS or (call.kind in {"capture", "void", "refund"} and call.parent_ref is None):
        return "unsupported_operation"
    try:
        to_processor(ADAPTER, call.amount, call.currency)
    except ValueError:
        return "amount_not_representable"
    return None


def needs_method(call: Call) -> bool:
    """Whether a payment method has to be made first: a pm_ id is one, a tok_ is a card (Stripe's token, or our own)."""
    return call.kind in {"authorize", "purchase"} and call.payment_method.startswith("tok_")


def method_parameters(call: Call) -> dict[str, Any]:
    """Of POST /v1/payment_methods. Making one moves no money."""
    return {"type": "card", "card": {"token": call.payment_method}}


def method_key(call: Call) -> str:
    """The identity under which the method is made: every send of the payment then names the same one."""
    return f"{call.operation_id}:method"


def charge_parameters(call: Call, method: str) -> dict[str, Any]:
    """Of POST /v1/payment_intents, for authorize and purchase."""
    return {
        **_amount(call),
        **_CARD_ONLY,
        "payment_method": method,
        "capture_method": "manual" if call.kind == "authorize" else "automatic",
        "confirm": True,
        "metadata": metadata(call),
    }


def capture_parameters(call: Call) -> dict[str, Any]:
    """Of POST /v1/payment_intents/{id}/capture. Its metadata stays for the queries of every capture of the payment."""
    parameters: dict[str, Any] = {
        "amount_to_capture": to_processor(ADAPTER, call.amount, call.currency),
        "metadata": metadata(call) | {call.operation_id: str(call.amount)},
    }
    return parameters if call.final else parameters | {"final_capture": False}


def refund_parameters(call: Call) -> dict[str, Any]:
    """Of POST /v1/refunds."""
    return {
        **parent_of_refund(call),
        "amount": to_processor(ADAPTER, call.amount, call.currency),
        "metadata": metadata(call),
    }


def parent_of_refund(call: Call) -> dict[str, str]:
    """What is refunded: the payment, or the charge that took the money."""
    parent = call.parent_ref or ""
    return {"charge" if parent.startswith(_CHARGE_PREFIX) else "payment_intent": parent}


def search_query(call: Call) -> str:
    """Finds the payment of an operation; an operation id has no character that would need an escape."""
    return f"metadata['operation_id']:'{call.operation_id}'"


def metadata(call: Call) -> dict[str, str]:
    """What leads from Stripe's object to ours."""
    return {"operation_id": call.operation_id, "reference": call.intent_id}


def _amount(call: Call) -> dict[str, Any]:
    return {"amount": to_processor(ADAPTER, call.amount, call.currency), "currency": call.currency.lower()}
