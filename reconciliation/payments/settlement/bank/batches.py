"""Entries that a bank booked as one for several payouts (N:1), as the single payments that they are of.

Told with its payments: each is judged like an entry of its own, so that what does not match is a finding of its amount
and no more. Where payments have no amounts, that of the payout that each names counts, when they make the entry's.
Told as a sum only: our pending payouts of one day, or all of them, when exactly one of these choices makes the sum (and
the number, where the bank tells one). Anything else stays one entry that a person looks at: nothing is guessed.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import date
from typing import TYPE_CHECKING

from msgspec import structs

from reconciliation.payments.settlement.store import execute
from schemas.payments import limits

if TYPE_CHECKING:
    import psycopg

    from reconciliation.payments.settlement.reports.camt053_entry import Part
    from reconciliation.payments.settlement.reports.camt053_statement import Entry

_OUR_OWN = "pt_"


def split(connection: psycopg.Connection, entry: Entry) -> list[Entry]:
    """The payments that make exactly the entry; none when it is no batch, or they cannot be told for certain."""
    if entry.is_reversal:
        return []
    if entry.parts:
        amounts = [_amount_of(connection, entry, part) for part in entry.parts]
        told = [amount for amount in amounts if amount is not None]
        if len(told) < len(amounts) or sum(told) != entry.amount:
            return []
        return [_single(entry, amount, part.names) for amount, part in zip(told, entry.parts, strict=True)]
    if entry.batch_size is None or entry.amount > 0:
        return []
    return [_single(entry, -amount, (payout,)) for payout, amount in _summed(connection, entry)]


def _amount_of(connection: psycopg.Connection, entry: Entry, part: Part) -> int | None:
    """What the bank tells of a payment, else what the one payout that it names is of."""
    if part.amount is not None:
        return part.amount
    names = sorted({name.lower() for name in part.names if name.lower().startswith(_OUR_OWN)})
    ours = execute(connection, "merchant_payouts", names=names).fetchall() if names else []
    if len(ours) == 1 and ours[0][3] == entry.currency:
        amount: int = ours[0][2]
        return -amount if entry.amount < 0 else amount
    named = execute(connection, "batch_payouts_named", names=list(part.names), currency=entry.currency).fetchall()
    return int(named[0][0]) if not ours and len(named) == 1 else None


def _summed(connection: psycopg.Connection, entry: Entry) -> list[tuple[str, int]]:
    """The one choice of pending payouts that makes the sum."""
    pending = execute(
        connection,
        "batch_payouts_pending",
        currency=entry.currency,
        booked_on=_day(entry.booked_on),
        days=limits.SETTLEMENT_BANK_DAYS_MAX,
        limit=limits.SETTLEMENT_PARTS_MAX + 1,
    ).fetchall()
    if len(pending) > limits.SETTLEMENT_PARTS_MAX:
        return []
    days: dict[object, list[tuple[str, int]]] = defaultdict(list)
    for payout, amount, day in pending:
        days[day].append((payout, amount))
    choices = (
        [*days.values(), [payout for day in days.values() for payout in day]] if len(days) > 1 else [*days.values()]
    )
    fitting = [
        choice
        for choice in choices
        if len(choice) == entry.batch_size and sum(amount for _, amount in choice) == -entry.amount
    ]
    return fitting[0] if len(fitting) == 1 else []


def _day(booked_on: str | None) -> date | None:
    try:
        return date.fromisoformat((booked_on or "")[: len("2026-01-31")])
    except ValueError:
        return None


def _single(entry: Entry, amount: int, names: tuple[str, ...]) -> Entry:
    return structs.replace(entry, amount=amount, names=names, parts=(), batch_size=None)
