"""The posting table of payments: which accounts a fact debits and credits. Every line balances in its currency.

Source: reference postings for authorize, void, capture (full, partial, automatic) and fees. If a line here were wrong,
money would be created or lost on paper; the database checks the balance again on every insert.
"""

from __future__ import annotations

from msgspec import Struct

from dataflows.domain.fees import FeeSchedule, fee_minor
from schemas.records import LedgerEntry


class Posting(Struct, frozen=True):
    """A balanced ledger transaction before it has its place: what happened (kind), its unique reference, its lines."""

    reference: str
    kind: str
    entries: list[LedgerEntry]


class Parties(Struct, frozen=True):
    """Who is on the two sides, and in which currency."""

    processor: str
    merchant: str
    currency: str


def transfer(debit: str, credit: str, amount_minor: int, parties: Parties) -> list[LedgerEntry]:
    """Two lines that move an amount from one account to another; none for an amount of zero."""
    if amount_minor == 0:
        return []
    ccy = parties.currency
    return [
        LedgerEntry(f"{debit}:{ccy}", amount_minor, 0, ccy),
        LedgerEntry(f"{credit}:{ccy}", 0, amount_minor, ccy),
    ]


def is_balanced(entries: list[LedgerEntry]) -> bool:
    """True when debits equal credits per currency and every line is one-sided and above zero."""
    totals: dict[str, int] = {}
    for entry in entries:
        if (entry.debit > 0) == (entry.credit > 0) or entry.debit < 0 or entry.credit < 0:
            return False
        totals[entry.currency] = totals.get(entry.currency, 0) + entry.debit - entry.credit
    return bool(entries) and not any(totals.values())


def authorize(operation_id: str, amount_minor: int, parties: Parties) -> Posting:
    """A hold on the card: off the balance sheet, a memo pair."""
    hold, obligation = _memo(parties)
    return Posting(f"{operation_id}:authorize", "authorize", transfer(hold, obligation, amount_minor, parties))


def void(operation_id: str, remaining_minor: int, parties: Parties) -> Posting:
    """The remaining hold is released."""
    hold, obligation = _memo(parties)
    return Posting(f"{operation_id}:void", "void", transfer(obligation, hold, remaining_minor, parties))


def capture(
    operation_id: str, captured_minor: int, released_minor: int, parties: Parties, fees: FeeSchedule
) -> Posting:
    """Money taken, with the fees accrued on it.

    ``released_minor`` is the hold that ends with it: the captured amount, or all that is left when the capture
    is final, or 0 for a purchase, which had no hold.
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
            *transfer(pending, "platform_fee_income", fee_minor(captured_minor, fees.platform_bps), parties),
            *transfer(expense, receivable, fee_minor(captured_minor, fees.processor_bps), parties),
        ],
    )


def _memo(parties: Parties) -> tuple[str, str]:
    return f"auth_hold:{parties.processor}", f"auth_obligation:{parties.merchant}"
