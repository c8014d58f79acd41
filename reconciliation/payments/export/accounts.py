"""Our accounts in beancount's tree: five roots, and components that other accounts never share. Pure.

Injective: two accounts of ours never become one, whatever a merchant is called. A kind of account has a fixed place; a
name is escaped byte by byte behind an ``X``, because a component begins with a capital and holds letters, digits and
dashes only. ``merchant_pending:m_1:USD`` is ``Liabilities:MerchantPending:Xm--1:USD``. Source: reference 3.5.
"""

from __future__ import annotations

import string
from typing import Final

#: where each kind of account stands; clearing and memo accounts are neither ours nor owed, so they are equity
_PLACES: Final = {
    "processor_receivable": "Assets:ProcessorReceivable",
    "payout_in_transit": "Assets:PayoutInTransit",
    "cash": "Assets:Cash",
    "processor_reserve": "Assets:ProcessorReserve",
    "dispute_receivable": "Assets:DisputeReceivable",
    "merchant_pending": "Liabilities:MerchantPending",
    "merchant_available": "Liabilities:MerchantAvailable",
    "merchant_dispute_hold": "Liabilities:MerchantDisputeHold",
    "merchant_reserved": "Liabilities:MerchantReserved",
    "merchant_payout_in_transit": "Liabilities:MerchantPayoutInTransit",
    "refund_in_flight": "Liabilities:RefundInFlight",
    "platform_fee_income": "Income:PlatformFee",
    "processor_fee_expense": "Expenses:ProcessorFee",
    "dispute_fee_expense": "Expenses:DisputeFee",
    "recon_loss_expense": "Expenses:ReconLoss",
    "recon_gain_income": "Income:ReconGain",
    "chargeback_loss": "Expenses:ChargebackLoss",
    "recon_suspense": "Equity:Clearing:ReconSuspense",
    "fx_clearing": "Equity:Clearing:Fx",
    "rounding": "Equity:Clearing:Rounding",
    "auth_hold": "Equity:Memo:AuthHold",
    "auth_obligation": "Equity:Memo:AuthObligation",
}
_OTHER: Final = "Equity:Other"
_PLAIN: Final = frozenset((string.ascii_letters + string.digits).encode())


def beancount_account(account_id: str, currency: str) -> str:
    """The account's name in beancount. Raises ValueError when the account is not of this currency."""
    named, colon, its_currency = account_id.rpartition(":")
    if not colon or its_currency != currency:
        raise ValueError(f"the account {account_id!r} is not of the currency {currency}")
    kind, colon, name = named.partition(":")
    place = _PLACES.get(kind) or f"{_OTHER}:{_component(kind)}"
    return ":".join([place, *([_component(name)] if colon else []), currency])


def _component(name: str) -> str:
    """``_`` is ``--``, another byte that may not stand there is ``-`` and two hexadecimal digits."""
    return "X" + "".join(
        chr(byte) if byte in _PLAIN else "--" if byte == ord("_") else f"-{byte:02x}" for byte in name.encode()
    )
