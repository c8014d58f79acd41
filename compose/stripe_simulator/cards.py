"""Stripe's test payment methods, by their documented names: what the card behind one does."""

from __future__ import annotations

from typing import Final, NamedTuple


class Card(NamedTuple):
    """How one card behaves."""

    decline_code: str | None = None
    asks_payer: bool = False  # 3-D Secure
    refunds_wait: bool = False
    is_disputed: bool = False


PAYS: Final = Card()
_CARDS: Final = {
    "visa": PAYS,
    "mastercard": PAYS,
    "visa_chargeDeclined": Card(decline_code="generic_decline"),
    "chargeDeclined": Card(decline_code="generic_decline"),
    "chargeDeclinedInsufficientFunds": Card(decline_code="insufficient_funds"),
    "threeDSecure2Required": Card(asks_payer=True),
    "threeDSecureRequired": Card(asks_payer=True),
    "authenticationRequired": Card(asks_payer=True),
    "pendingRefund": Card(refunds_wait=True),
    "createDispute": Card(is_disputed=True),
}
_METHOD: Final = "pm_card_"
_TOKEN: Final = "tok_"  # noqa: S105 - how the names of such cards begin


def card_of(name: str) -> Card | None:
    """The card behind a method or a token; None when Stripe knows none of that name."""
    for prefix in (_METHOD, _TOKEN):
        if name.startswith(prefix):
            return _CARDS.get(name.removeprefix(prefix))
    return None
