"""The posting table of merchants' accounts: payouts, reserves, and money exchanged between currencies.

As in ``ledger``, every line balances in its currency, and a reference is made of the ids of the fact, so that a fact
posts once. An exchange is two balanced pairs, one for each currency, through ``fx_clearing``, where what the platform
holds in one currency and owes in the other stays visible. Source: reference postings for payouts and FX.
"""

from __future__ import annotations

from dataflows.payments.domain.ledger.posting import Posting, moved
from schemas.payments.records import Payout


def available(merchant: str, currency: str) -> str:
    """The account of what the merchant may have paid out."""
    return f"merchant_available:{merchant}:{currency}"


def reserved(merchant: str, currency: str) -> str:
    """The account of the merchant's money that an operator set aside."""
    return f"merchant_reserved:{merchant}:{currency}"


def in_transit(merchant: str, currency: str) -> str:
    """The account of money on its way to the merchant's bank: no longer available, not yet gone."""
    return f"merchant_payout_in_transit:{merchant}:{currency}"


def payout_created(payout: Payout) -> Posting:
    """The money leaves what is available and waits for the bank."""
    return _of_payout(payout, "created", "payout", _available(payout), _in_transit(payout))


def payout_paid(payout: Payout, bank: str) -> Posting:
    """The bank shows that the money has left."""
    return _of_payout(payout, "paid", "payout_paid", _in_transit(payout), _cash(bank, payout))


def payout_paid_late(payout: Payout, bank: str) -> Posting:
    """The bank paid a canceled payout: the merchant has the money, so it is taken from what is available."""
    return _of_payout(payout, "paid", "payout_paid", _available(payout), _cash(bank, payout))


def payout_not_paid(payout: Payout, why: str) -> Posting:
    """A payout was canceled, or the bank never carried it out: the merchant gets its money back."""
    return _of_payout(payout, why, f"payout_{why}", _in_transit(payout), _available(payout))


def payout_came_back(payout: Payout, bank: str) -> Posting:
    """The merchant's bank sent the money back after it had left."""
    return _of_payout(payout, "failed", "payout_failed", _cash(bank, payout), _available(payout))


def reserve_held(reference: str, merchant: str, amount: int, currency: str) -> Posting:
    """Money of the merchant is set aside."""
    lines = moved(available(merchant, currency), reserved(merchant, currency), amount, currency)
    return Posting(f"{reference}:reserve_held", "reserve_held", lines)


def reserve_released(reference: str, merchant: str, amount: int, currency: str) -> Posting:
    """Reserved money is given back."""
    lines = moved(reserved(merchant, currency), available(merchant, currency), amount, currency)
    return Posting(f"{reference}:reserve_released", "reserve_released", lines)


def exchanged(reference: str, merchant: str, source: tuple[int, str], target: tuple[int, str]) -> Posting:
    """An amount in one currency becomes an amount in another; each side balances by itself."""
    (given, sold), (got, bought) = source, target
    return Posting(
        f"{reference}:exchanged",
        "exchanged",
        [
            *moved(available(merchant, sold), f"fx_clearing:{sold}", given, sold),
            *moved(f"fx_clearing:{bought}", available(merchant, bought), got, bought),
        ],
    )


def _of_payout(payout: Payout, what: str, kind: str, debit: str, credit: str) -> Posting:
    return Posting(f"{payout.id}:{what}", kind, moved(debit, credit, payout.amount, payout.currency))


def _available(payout: Payout) -> str:
    return available(payout.merchant_id, payout.currency)


def _in_transit(payout: Payout) -> str:
    return in_transit(payout.merchant_id, payout.currency)


def _cash(bank: str, payout: Payout) -> str:
    return f"cash:{bank}:{payout.currency}"
