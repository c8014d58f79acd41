"""The one payment intent of an invoice; its id follows from the invoice, whoever asks. Pure."""

from __future__ import annotations

from typing import Final

from schemas.identity import derived_id
from schemas.services import OPERATIONS

#: the merchant to whom tenants pay: its balance is what the platform earned
BILLING_MERCHANT: Final = "m_millrace_billing"
CREATE: Final = "create_payment_intent"


def identity_of(invoice_id: str) -> str:
    """The retry identity under which its intent is made, whoever asks first."""
    return f"invoice-{invoice_id}"


def intent_of(invoice_id: str) -> str:
    """The id of its intent, whether or not it was made."""
    return derived_id("pi", BILLING_MERCHANT, OPERATIONS[CREATE].template, identity_of(invoice_id))
