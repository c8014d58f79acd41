"""Ledger transactions before they have their places, and the check that they balance."""

from __future__ import annotations

from msgspec import Struct

from schemas.payments.records import LedgerEntry


class Posting(Struct, frozen=True):
    """A balanced ledger transaction before it has its place: its kind, its unique reference, its lines."""

    reference: str
    kind: str
    entries: list[LedgerEntry]


def moved(debit: str, credit: str, amount_minor: int, currency: str) -> list[LedgerEntry]:
    """Two lines that move an amount between two accounts."""
    return [LedgerEntry(debit, amount_minor, 0, currency), LedgerEntry(credit, 0, amount_minor, currency)]


def is_balanced(entries: list[LedgerEntry]) -> bool:
    """True when debits equal credits per currency and every line is one-sided and above zero."""
    totals: dict[str, int] = {}
    for entry in entries:
        if (entry.debit > 0) == (entry.credit > 0) or entry.debit < 0 or entry.credit < 0:
            return False
        totals[entry.currency] = totals.get(entry.currency, 0) + entry.debit - entry.credit
    return bool(entries) and not any(totals.values())
