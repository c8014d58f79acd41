"""What a call is in Stripe's words: the parameters of a request, the same for every send of one operation. Pure.

Metadata carries our operation, so that webhooks and searches lead back to it (dataflows/payments/webhooks reads it).
"""

from __future__ import annotations

from typing import Any, Final

from dataflows.payments.attempts.adapter import FOR_PAYER, Call
from schemas.payments.processor_currency import to_processor

ADAPTER: Final = "stripe"
KINDS: Final = frozenset({"authorize", "purchase", "increment", "capture", "void", "refund", "evidence"})
_OF_PARENT: Final = KINDS - {"authorize", "purchase"}
#: a hold that grew: in its metadata, with the operation that made it grow, is the total from before
INCREMENT: Final = "more_"
_CHARGE_PREFIX: Final = "ch_"
#: between Stripe's name of a dispute and how often it took the money, from the second time on
AGAIN: Final = ":"
#: cards only: no method that sends the payer elsewhere for days
_CARD_ONLY: Final = {"payment_method_types": ["card"]}
#: only holds that were asked for so may grow, and be captured in several parts
_MAY_GROW: Final = {
    "payment_method_options": {
        "card": {"request_incremental_authorization": "if_available", "request_multicapture": "if_available"}
    }
}
#: of a card's statement Stripe takes the part behind the merchant's own name, and refuses the whole
_FOR_PAYER: Final = dict(zip(FOR_PAYER, FOR_PAYER, strict=True)) | {
    "statement_descriptor": "statement_descriptor_suffix"
}
#: evidence that Stripe takes as a text of its own; its other kinds are files
EVIDENCE_TEXTS: Final = frozenset(
    {
        *("access_activity_log", "billing_address", "cancellation_policy_disclosure", "cancellation_rebuttal"),
        *("customer_email_address", "customer_name", "customer_purchase_ip", "duplicate_charge_explanation"),
        *("duplicate_charge_id", "product_description", "refund_policy_disclosure", "refund_refusal_explanation"),
        *("service_date", "shipping_address", "shipping_carrier", "shipping_date", "shipping_tracking_number"),
    }
)
_OTHER_EVIDENCE: Final = "uncategorized_text"


#: of POST /v1/payment_intents/{id}/cancel, of one that waits for its payer
END_OF_WAIT: Final = {"cancellation_reason": "abandoned"}


def why_not(call: Call) -> str | None:
    """Why this call can never be sent; None when it can. The same answer for every send of it."""
    if call.kind not in KINDS or (call.kind in _OF_PARENT and call.parent_ref is None):
        return "unsupported_operation"
    if call.kind == "evidence":
        return None if call.evidence else "no_evidence"
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
        **{_FOR_PAYER[name]: text for name, text in call.for_payer.items()},
        **(_MAY_GROW if call.kind == "authorize" else {}),
    }


def increment_parameters(call: Call, held: int) -> dict[str, Any]:
    """Of POST /v1/payment_intents/{id}/increment_authorization, which takes the new total; ``held`` is Stripe's own."""
    return {
        "amount": held + to_processor(ADAPTER, call.amount, call.currency),
        "metadata": {increment_name(call): str(held)},
    }


def increment_name(call: Call) -> str:
    """The name under which an increment leaves its trace on the payment."""
    return f"{INCREMENT}{call.operation_id}"


def capture_parameters(call: Call) -> dict[str, Any]:
    """Of POST /v1/payment_intents/{id}/capture. Its metadata stays for the queries of every capture of the payment."""
    parameters: dict[str, Any] = {
        "amount_to_capture": to_processor(ADAPTER, call.amount, call.currency),
        "metadata": metadata(call) | {call.operation_id: str(call.amount)},
    }
    return parameters if call.final else parameters | {"final_capture": False}


def evidence_parameters(call: Call) -> dict[str, Any]:
    """Of POST /v1/disputes/{id}, submitted at once; a kind that Stripe has no text for is told in the free one."""
    told = call.evidence or {}
    texts = {kind: text for kind, text in told.items() if kind in EVIDENCE_TEXTS}
    others = [
        text if kind == _OTHER_EVIDENCE else f"{kind}: {text}" for kind, text in told.items() if kind not in texts
    ]
    if others:
        texts[_OTHER_EVIDENCE] = "\n".join(others)
    return {"evidence": texts, "submit": True, "metadata": metadata(call)}


def refund_parameters(call: Call) -> dict[str, Any]:
    """Of POST /v1/refunds."""
    return {
        **parent_of_refund(call),
        "amount": to_processor(ADAPTER, call.amount, call.currency),
        "metadata": metadata(call),
    }


def dispute_of(call: Call) -> str:
    """Stripe's name of the dispute that a call is about, however often that took the money."""
    return (call.parent_ref or "").partition(AGAIN)[0]


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
