"""The posting table of payments: which accounts a fact debits and credits. Every line balances in its currency.

Source: reference postings for authorize, void, capture (full, partial, automatic), fees, refunds, disputes and settled
lines. If a line here were wrong, money would be created or lost on paper; the database checks the balance again at
every insert. A reference is made of the ids of the fact and is unique for ever: a fact posts once, whatever its door.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from dataflows.payments.domain.ledger.posting import Posting, moved
from dataflows.payments.domain.policies.fees import FeeSchedule, fee_minor
from schemas.payments.records import LedgerEntry

#: the kind of a posting for a fee of a settlement line that was not accrued
SETTLEMENT_FEE: Final = "settlement_fee"


class Parties(Struct, frozen=True):
    """The two sides of a posting, and its currency."""

    processor: str
    merchant: str
    currency: str


def transfer(debit: str, credit: str, amount_minor: int, parties: Parties) -> list[LedgerEntry]:
    """Two lines that move an amount between two accounts; none for an amount of zero."""
    if amount_minor == 0:
        return []
    currency = parties.currency
    return moved(f"{debit}:{currency}", f"{credit}:{currency}", amount_minor, currency)


def authorize(operation_id: str, amount_minor: int, parties: Parties) -> Posting:
    """A hold on the card: off the balance sheet, a memo pair."""
    hold, obligation = _memo(parties)
    return Posting(f"{operation_id}:authorize", "authorize", transfer(hold, obligation, amount_minor, parties))


def void(operation_id: str, remaining_minor: int, parties: Parties) -> Posting:
    """The remaining hold is released."""
    hold, obligation = _memo(parties)
    return Posting(f"{operation_id}:void", "void", transfer(obligation, hold, remaining_minor, parties))


def expire(operation_id: str, remaining_minor: int, parties: Parties) -> Posting:
    """The processor let the hold end; ``operation_id`` is the authorization's."""
    hold, obligation = _memo(parties)
    return Posting(f"{operation_id}:expired", "expire", transfer(obligation, hold, remaining_minor, parties))


def capture(
    operation_id: str, captured_minor: int, released_minor: int, parties: Parties, fees: FeeSchedule
) -> Posting:
    """Money is taken, and its fees are accrued.

    ``released_minor`` is the hold that ends with it: the captured amount, all that is left if the capture is final, or
    0 for a purchase, which had no hold.
    """
    hold, obligation = _memo(parties)
    pending = f"merchant_pending:{parties.merchant}"
    receivable = f"processor_receivable:{parties.processor}"
    expense = f"processor_fee_expense:{parties.processor}"
    return Posting(
        f"{operation_id}:capture",
        "capture",
        [
            *transfer(obligation, hold, released_minor, parties),
            *transfer(receivable, pending, captured_minor, parties),
            *transfer(pending, "platform_fee_income", fees.platform_fee(captured_minor), parties),
            *transfer(expense, receivable, fee_minor(captured_minor, fees.processor_bps), parties),
        ],
    )


def refund_created(refund_id: str, amount_minor: int, from_pending_minor: int, parties: Parties) -> Posting:
    """Money of the merchant is set aside for the payer: unsettled money first, the rest from what is available."""
    return Posting(
        f"{refund_id}:created", "refund", _from_merchant(_in_flight(parties), amount_minor, from_pending_minor, parties)
    )


def refund_succeeded(operation_id: str, amount_minor: int, fee_returned_minor: int, parties: Parties) -> Posting:
    """The processor paid the payer, and will settle that much less."""
    return Posting(
        f"{operation_id}:refunded",
        "refund_succeeded",
        [
            *transfer(_in_flight(parties), _receivable(parties), amount_minor, parties),
            *_fee_returned(fee_returned_minor, parties),
        ],
    )


def refund_failed(reference: str, kind: str, amount_minor: int, to_pending_minor: int, parties: Parties) -> Posting:
    """A refund is not paid (it failed or was canceled): the merchant gets its money back."""
    return Posting(reference, kind, _to_merchant(_in_flight(parties), amount_minor, to_pending_minor, parties))


def refund_succeeded_late(
    operation_id: str, amount_minor: int, from_pending_minor: int, fee_returned_minor: int, parties: Parties
) -> Posting:
    """A refund that was failed has been paid after all: what the merchant got back is taken again."""
    return Posting(
        f"{operation_id}:refunded",
        "refund_succeeded",
        [
            *_from_merchant(_receivable(parties), amount_minor, from_pending_minor, parties),
            *_fee_returned(fee_returned_minor, parties),
        ],
    )


def refund_failed_later(
    operation_id: str, amount_minor: int, to_pending_minor: int, fee_returned_minor: int, parties: Parties
) -> Posting:
    """A refund that had succeeded came back; ``fee_returned_minor`` is below zero if its fee is taken again."""
    return Posting(
        f"{operation_id}:failed_later",
        "refund_failed_later",
        [
            *_to_merchant(_receivable(parties), amount_minor, to_pending_minor, parties),
            *_fee_returned(fee_returned_minor, parties),
        ],
    )


def dispute_withdrawn(dispute_id: str, amount_minor: int, fee_minor_: int, parties: Parties) -> Posting:
    """The network took the money back. The merchant's balance may go below zero: nothing is written off by us."""
    claim, hold = _dispute(parties)
    available, receivable = f"merchant_available:{parties.merchant}", _receivable(parties)
    return Posting(
        f"{dispute_id}:withdrawn",
        "dispute_withdrawn",
        [
            *transfer(claim, receivable, amount_minor, parties),
            *transfer(available, hold, amount_minor, parties),
            *transfer(f"dispute_fee_expense:{parties.processor}", receivable, fee_minor_, parties),
        ],
    )


def dispute_reinstated(dispute_id: str, amount_minor: int, parties: Parties, *, after_loss: bool = False) -> Posting:
    """The network gave the money back; directly to the merchant if a loss had cleared the hold."""
    claim, hold = _dispute(parties)
    available, receivable = f"merchant_available:{parties.merchant}", _receivable(parties)
    entries = [
        *transfer(receivable, claim, amount_minor, parties),
        *transfer(hold, available, amount_minor, parties),
    ]
    if after_loss:
        entries = transfer(receivable, available, amount_minor, parties)
    return Posting(f"{dispute_id}:reinstated", "dispute_reinstated", entries)


def dispute_lost(dispute_id: str, amount_minor: int, parties: Parties) -> Posting:
    """The withdrawn money is gone for good: the claim and the hold end."""
    claim, hold = _dispute(parties)
    return Posting(f"{dispute_id}:lost", "dispute_lost", transfer(hold, claim, amount_minor, parties))


def dispute_appealed(dispute_id: str, amount_minor: int, parties: Parties) -> Posting:
    """An appeal against the loss: the money is claimed again and held until it is decided."""
    claim, hold = _dispute(parties)
    return Posting(f"{dispute_id}:appealed", "dispute_appealed", transfer(claim, hold, amount_minor, parties))


def settled(operation_id: str, matured_minor: int, fee_difference_minor: int, parties: Parties) -> Posting:
    """A capture was settled: the merchant's share matures, and the fee that was taken replaces the accrued one."""
    pending, available = f"merchant_pending:{parties.merchant}", f"merchant_available:{parties.merchant}"
    return Posting(
        f"{operation_id}:settled",
        "settled",
        [
            *transfer(pending, available, matured_minor, parties),
            *_processor_fee(fee_difference_minor, parties),
        ],
    )


def settlement_fee(reference: str, fee_minor_: int, parties: Parties) -> Posting:
    """The processor kept a fee that was not accrued (below zero: gave one back), so it owes what its payout brings."""
    return Posting(reference, SETTLEMENT_FEE, _processor_fee(fee_minor_, parties))


def settlement_difference(reference: str, kind: str, gained_minor: int, parties: Parties) -> Posting:
    """A settlement pays more (above zero) or less than expected; the difference waits in suspense for a person."""
    receivable, suspense = _receivable(parties), f"recon_suspense:{parties.processor}"
    return Posting(
        reference,
        kind,
        [
            *transfer(receivable, suspense, max(0, gained_minor), parties),
            *transfer(suspense, receivable, max(0, -gained_minor), parties),
        ],
    )


def _from_merchant(credit: str, amount_minor: int, from_pending_minor: int, parties: Parties) -> list[LedgerEntry]:
    return [
        *transfer(f"merchant_pending:{parties.merchant}", credit, from_pending_minor, parties),
        *transfer(f"merchant_available:{parties.merchant}", credit, amount_minor - from_pending_minor, parties),
    ]


def _to_merchant(debit: str, amount_minor: int, to_pending_minor: int, parties: Parties) -> list[LedgerEntry]:
    return [
        *transfer(debit, f"merchant_pending:{parties.merchant}", to_pending_minor, parties),
        *transfer(debit, f"merchant_available:{parties.merchant}", amount_minor - to_pending_minor, parties),
    ]


def _fee_returned(fee_returned_minor: int, parties: Parties) -> list[LedgerEntry]:
    income, available = "platform_fee_income", f"merchant_available:{parties.merchant}"
    return [
        *transfer(income, available, max(0, fee_returned_minor), parties),
        *transfer(available, income, max(0, -fee_returned_minor), parties),
    ]


def _processor_fee(fee_minor_: int, parties: Parties) -> list[LedgerEntry]:
    receivable, expense = _receivable(parties), f"processor_fee_expense:{parties.processor}"
    return [
        *transfer(expense, receivable, max(0, fee_minor_), parties),
        *transfer(receivable, expense, max(0, -fee_minor_), parties),
    ]


def _receivable(parties: Parties) -> str:
    return f"processor_receivable:{parties.processor}"


def _in_flight(parties: Parties) -> str:
    return f"refund_in_flight:{parties.processor}"


def _dispute(parties: Parties) -> tuple[str, str]:
    return f"dispute_receivable:{parties.processor}", f"merchant_dispute_hold:{parties.merchant}"


def _memo(parties: Parties) -> tuple[str, str]:
    return f"auth_hold:{parties.processor}", f"auth_obligation:{parties.merchant}"
