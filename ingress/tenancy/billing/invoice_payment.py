"""How an invoice is paid: by one payment intent of our own payments, whose id follows from the invoice. Pure.

There is no second record of it: the intent's state is the invoice's. It is of the invoice's total, so nobody pays more;
an owner decides its payments and its cancel one after the other, so an invoice is never paid twice, nor paid and void.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from schemas.identity import derived_id

if TYPE_CHECKING:
    from schemas.payments.records import PaymentIntent

CONFIRM: Final = "confirm_payment_intent"
CANCEL: Final = "cancel_payment_intent"
#: how an invoice may stand
STATES: Final = ("nothing_due", "unpaid", "processing", "paid", "partly_refunded", "refunded", "disputed", "void")
_UNPAID: Final = frozenset({"requires_payment_method", "requires_confirmation"})


def try_identity(invoice_id: str, operation: str, key: str) -> str:
    """The retry identity of one try to pay or void, of the caller's own, which may be of any length."""
    return derived_id("try", invoice_id, operation, key)


def creation(tenant_id: str, invoice: dict[str, Any]) -> dict[str, Any]:
    """What the intent of an invoice says: the same for ever, so that whoever makes it again makes none."""
    return {
        "amount": invoice["total"],
        "currency": invoice["currency"],
        "reference": invoice["invoice_id"],
        "metadata": {"tenant_id": tenant_id, "invoice_id": invoice["invoice_id"]},
    }


def is_of(intent: PaymentIntent, invoice: dict[str, Any]) -> bool:
    """Whether it still asks for what the invoice says: who has the billing merchant's token may have changed it."""
    return (intent.amount, intent.currency) == (invoice["total"], invoice["currency"])


def state_of(total: int, intent: PaymentIntent | None) -> str:
    """One of STATES."""
    if not total:
        return "nothing_due"
    if intent is None or intent.state in _UNPAID:
        return "unpaid"
    if intent.state == "canceled":
        return "void"
    return _of_received(intent)


def _of_received(intent: PaymentIntent) -> str:
    if not intent.amount_received:
        return "processing"
    if intent.amount_disputed:
        return "disputed"
    if intent.amount_refunded:
        return "partly_refunded" if intent.amount_refunded < intent.amount_received else "refunded"
    return "paid"


def rendered(invoice: dict[str, Any], intent: PaymentIntent | None) -> dict[str, Any]:
    """How an invoice stands, as callers see it."""
    return {
        "object": "invoice_payment",
        "invoice_id": invoice["invoice_id"],
        "state": state_of(invoice["total"], intent),
        "currency": invoice["currency"],
        "total": invoice["total"],
        "amount_received": intent.amount_received if intent else 0,
        "amount_refunded": intent.amount_refunded if intent else 0,
        "payment_intent": intent.id if intent else None,
        "last_payment_error": intent.last_payment_error if intent else None,
    }
