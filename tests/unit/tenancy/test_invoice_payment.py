"""An invoice stands as its one payment does; the identities that lead to it follow from the invoice alone."""

from __future__ import annotations

from msgspec import structs

from dataflows.tenancy.domain.invoice_intent import BILLING_MERCHANT, intent_of
from ingress.tenancy.billing import invoice_payment
from ingress.tenancy.billing.invoice_payment import CANCEL, CONFIRM, STATES
from schemas.payments.records import PaymentIntent
from tests.each import each

INVOICE = {"invoice_id": "in_1", "total": 100, "currency": "EUR"}
INTENT = PaymentIntent(
    id=intent_of("in_1"),
    merchant_id=BILLING_MERCHANT,
    amount=100,
    currency="EUR",
    state="requires_payment_method",
    version=1,
    capture_method="automatic",
    payment_method=None,
    processor="p",
    amount_capturable=0,
    amount_received=0,
    amount_refunded=0,
    amount_disputed=0,
    last_payment_error=None,
    cancellation_reason=None,
    latest_attempt=0,
    metadata={},
    created_at=1,
    updated_at=1,
)
PAID = {"state": "succeeded", "amount_received": 100}
CASES = {
    "unpaid": [{}, {"state": "requires_confirmation", "last_payment_error": "card_declined"}],
    "processing": [{"state": "processing"}, {"state": "requires_action"}, {"state": "requires_merchant_action"}],
    "paid": [PAID],
    "partly_refunded": [PAID | {"amount_refunded": 1}, PAID | {"amount_refunded": 99}],
    "refunded": [PAID | {"amount_refunded": 100}],
    "disputed": [PAID | {"amount_disputed": 100}],
    "void": [{"state": "canceled"}],
}


@each(("state", "changes"), [(state, one) for state, ones in CASES.items() for one in ones])
def test_an_invoice_stands_as_its_payment_does(state: str, changes: dict[str, object]) -> None:
    intent = structs.replace(INTENT, **changes)  # type: ignore[arg-type] # by name
    assert invoice_payment.state_of(100, intent) == state
    shown = invoice_payment.rendered(INVOICE, intent)
    assert (shown["state"], shown["payment_intent"], shown["amount_received"]) == (
        state,
        INTENT.id,
        intent.amount_received,
    )


def test_without_a_payment_it_is_unpaid_and_of_nothing_nothing_is_due() -> None:
    assert invoice_payment.state_of(100, None) == "unpaid"
    assert invoice_payment.state_of(0, None) == "nothing_due"
    assert set(STATES) == {*CASES, "nothing_due"}


def test_an_intent_that_was_changed_is_not_paid() -> None:
    assert invoice_payment.is_of(INTENT, INVOICE)
    assert not invoice_payment.is_of(structs.replace(INTENT, amount=101), INVOICE)
    assert not invoice_payment.is_of(structs.replace(INTENT, currency="USD"), INVOICE)


def test_who_asks_again_asks_for_the_same_and_nobody_else_does() -> None:
    """By invoice and by what is done, for one key of a caller may be used for all of them."""
    tries = [(invoice, name) for invoice in ("in_1", "in_2") for name in (CONFIRM, CANCEL)]
    assert len({invoice_payment.try_identity(*one, "k") for one in tries}) == len(tries)
    assert invoice_payment.try_identity("in_1", CONFIRM, "k" * 255) == invoice_payment.try_identity(
        "in_1", CONFIRM, "k" * 255
    )
    assert intent_of("in_1") != intent_of("in_2")
    assert invoice_payment.creation("tn_1", INVOICE) == invoice_payment.creation("tn_1", dict(INVOICE))
