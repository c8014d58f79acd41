"""Bank entries about our payouts to merchants: the end-to-end id that we gave the bank is the payout's own id.

A debit says that the payout left (paid), a credit that it came back (failed). Only an entry of exactly its amount is
told to the payout's owner; what differs, comes twice or names several payouts is a finding, and never a posting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from reconciliation.payments.settlement.store import execute
from schemas import identity
from schemas.payments.facts import RECONCILIATION_SCOPE, fact_command, trace_of

if TYPE_CHECKING:
    import psycopg

    from reconciliation.payments.settlement.reports.camt053_statement import Entry
    from schemas.records import Command

#: in the column ``counterpart`` of a bank line; no processor has a colon in its name
COUNTERPART: Final = "merchant:"
_PREFIX: Final = "pt_"


class Judged(Struct, frozen=True, kw_only=True):
    """What an entry is, of which payout, and whether its owner has to be told."""

    payout: str
    counterpart: str
    entry_class: str
    difference: int = 0
    is_news: bool = False


def judge(connection: psycopg.Connection, entry: Entry) -> Judged | None:
    """The verdict on an entry that names a payout of ours; None when it names none."""
    names = sorted({name.lower() for name in entry.names if name.lower().startswith(_PREFIX)})
    if not names:
        return None
    rows = execute(connection, "merchant_payouts", names=names).fetchall()
    if not rows:
        return None
    payout, merchant, amount, currency, state, debits, credits_ = rows[0]
    counterpart, booked = COUNTERPART + merchant, abs(entry.amount)
    if len(rows) > 1:
        return Judged(payout=payout, counterpart=counterpart, entry_class="bank_unmatched", difference=booked)
    if (booked, entry.currency) != (amount, currency):
        difference = abs(booked - amount) if entry.currency == currency else booked
        return Judged(payout=payout, counterpart=counterpart, entry_class="bank_difference", difference=difference)
    is_debit = entry.amount < 0
    if (debits if is_debit else credits_) > 0:
        return Judged(payout=payout, counterpart=counterpart, entry_class="bank_duplicate", difference=booked)
    # What came back had left: a debit behind its own credit says nothing new, and neither does what we know already.
    is_news = state != ("paid" if is_debit else "failed") and not (is_debit and credits_ > 0)
    return Judged(payout=payout, counterpart=counterpart, entry_class="matched", is_news=is_news)


def outcome_command(bank: str, payout: str, gross: int, currency: str, issued_at: int) -> Command:
    """The fact that a bank entry proves: the same identity whatever statement tells it, and however often."""
    status = "paid" if gross < 0 else "failed"
    key = f"{payout}:{status}"
    payload: dict[str, object] = {
        "payout": payout,
        "status": status,
        "amount": abs(gross),
        "currency": currency,
        "bank": bank,
        "reason": "returned_by_bank" if status == "failed" else None,
    }
    return fact_command(
        "record_payout_outcome",
        scope=RECONCILIATION_SCOPE,
        key=key,
        aggregate_key=identity.account_of(payout),
        payload=payload,
        trace_id=trace_of(RECONCILIATION_SCOPE, key),
        issued_at=issued_at,
    )
