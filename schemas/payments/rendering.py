"""Renders records of payments as public JSON from their declarations, so stored results, reads and events agree."""

from __future__ import annotations

from typing import Any, Final

from schemas.payments import payer_action, records
from schemas.renderer import renderer, timestamp

payment_intent: Final = renderer(
    records.PaymentIntent,
    "payment_intent",
    {
        "last_payment_error": lambda code: {"code": code},
        "next_action": payer_action.shown,
    },
)
refund: Final = renderer(records.Refund, "refund")
dispute: Final = renderer(records.Dispute, "dispute")
merchant_account: Final = renderer(records.MerchantAccount, "merchant_account")
payout: Final = renderer(records.Payout, "payout")
payout_destination: Final = renderer(records.PayoutDestination, "payout_destination")


def payment_event_body(body: dict[str, Any]) -> dict[str, Any]:
    """What a merchant sees of a payment event: the intent and the part that changed. Ledger accounts stay inside."""
    attempt = body["processor_attempt"]
    if attempt is not None:
        times = {name: timestamp(attempt[name]) for name in ("created_at", "updated_at")}
        attempt = {"object": "processor_attempt", **attempt, **times}
    rendered: dict[str, Any] = {"payment_intent": None, "processor_attempt": attempt}
    if body["payment_intent"] is not None:
        rendered["payment_intent"] = payment_intent(records.PaymentIntent(**body["payment_intent"]))
    if body.get("refund") is not None:
        rendered["refund"] = refund(records.Refund(**body["refund"]))
    if body.get("dispute") is not None:
        rendered["dispute"] = dispute(records.Dispute(**body["dispute"]))
    if body.get("payout") is not None:
        rendered["payout"] = payout(records.Payout(**body["payout"]))
    if body.get("payout_destination") is not None:
        found = records.PayoutDestination(**body["payout_destination"])
        rendered["payout_destination"] = payout_destination(found)
    if body.get("account") is not None:  # why it is frozen is between operators
        shown = merchant_account(records.MerchantAccount(**body["account"]))
        rendered["account"] = {name: value for name, value in shown.items() if name != "frozen_reason"}
    return rendered
