"""Entries of a bank statement, each beside the payouts that it may be: matched, sorted by a rule, or for a person.

An entry that an earlier statement brought changes nothing; one that stands in the place of another is a further entry.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from msgspec import Struct, field

from reconciliation.payments.settlement import merchant_payouts
from reconciliation.payments.settlement.bank import batches
from reconciliation.payments.settlement.bank.findings import SHORT, group_of
from reconciliation.payments.settlement.commands import BANK_RETURN
from reconciliation.payments.settlement.store import Found, execute, resolve_cases
from schemas.fields.currency import format_minor
from schemas.payments import limits
from schemas.payments.policies import bank_rules

if TYPE_CHECKING:
    import psycopg

    from reconciliation.payments.settlement.reports.camt053_statement import Entry, Statement

#: an entry whose payments stand in lines of their own
_BATCH = "batch"
#: an entry that a published rule knows
_SORTED = "sorted"
#: before its name in the column ``counterpart``; no processor has a colon in its name
RULE = "rule:"


class TakenStatements(Struct, kw_only=True):
    """What came of a file of bank statements; ``displaced`` are new entries in the place of others."""

    lines: int = 0
    matched: int = 0
    displaced: int = 0
    displaced_amount: int = 0
    sorted_by_rule: int = 0
    #: processor, id, state and note of each statement, or of the file when it holds none that can be read
    reports: list[tuple[str, str, str, str | None]] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)


class _Judged(Struct, frozen=True, kw_only=True):
    """What an entry is: the payout, as counterpart and name, and whether an owner has to be told."""

    payout: tuple[str, str] | None
    entry_class: str
    difference: int
    is_due: bool
    is_taken_back: bool = False
    rule: str | None = None


def take_entry(
    connection: psycopg.Connection,
    statement: Statement,
    entry: Entry,
    taken: TakenStatements,
    rules: list[bank_rules.BankRule],
) -> None:
    """Keeps an entry with what it was found to be, unless it is known."""
    processor, line_id = f"bank:{statement.account}", f"{statement.id}:{entry.number}"
    there = execute(connection, "bank_lines_known", processor=processor, line_id=line_id, **_looks(entry)).fetchall()
    rule = bank_rules.rule_of(
        rules, amount=entry.amount, currency=entry.currency, text=entry.text, parties=entry.parties, ibans=entry.ibans
    )
    if known := [(name, known_class) for name, known_class, is_equal in there if is_equal]:
        if rule is not None and known[0][1] == "bank_unmatched":
            taken.sorted_by_rule += _sort_known(connection, processor, known[0][0], rule)
        return
    taken.lines += 1
    if there:
        taken.displaced += 1
        taken.displaced_amount += entry.amount
        line_id += f"~{entry.content[:SHORT]}"
    judged = _judge(connection, entry)
    if rule is not None and judged.entry_class == "bank_unmatched" and judged.payout is None:
        judged = _Judged(payout=None, entry_class=_SORTED, difference=0, is_due=False, rule=rule.name)
        taken.sorted_by_rule += 1
    singles = [] if judged.entry_class in ("matched", _SORTED) else batches.split(connection, entry)
    if not any(_judge(connection, single).entry_class == "matched" for single in singles):
        taken.matched += _keep_entry(connection, statement, line_id, entry, judged, taken)
        return
    batch = _Judged(payout=None, entry_class=_BATCH, difference=0, is_due=False)
    _keep_entry(connection, statement, line_id, entry, batch, taken)
    matched = [
        # judged again, behind those of the same batch: one payout is not matched by two of its payments
        _keep_entry(connection, statement, f"{line_id}/{n}", single, _judge(connection, single), taken, line_id)
        for n, single in enumerate(singles, 1)
    ]
    taken.matched += all(matched)


def _looks(entry: Entry) -> dict[str, object]:
    """What an entry is kept with, and known again by."""
    return {
        "content": entry.content,
        "amount": entry.amount,
        "currency": entry.currency,
        "created": entry.booked_on,
        "reference": next(iter(entry.names), None),
    }


def _sort_known(connection: psycopg.Connection, processor: str, line_id: str, rule: bank_rules.BankRule) -> bool:
    """An entry that waited for a person before there was a rule for it."""
    execute(connection, "bank_line_sort", processor=processor, line_id=line_id, rule=RULE + rule.name)
    resolved = execute(connection, "resolve_about", found_class="bank_unmatched", processor=processor, subject=line_id)
    resolve_cases(connection, resolved)
    return True


def _judge(connection: psycopg.Connection, entry: Entry) -> _Judged:
    if entry.contradiction is not None:
        return _Judged(payout=None, entry_class="bank_entry_unsound", difference=abs(entry.amount), is_due=False)
    ours = merchant_payouts.judge(connection, entry)
    if ours is None:
        if (taken_back := _payout_taken_back(connection, entry)) is not None:
            return _Judged(payout=taken_back, entry_class="matched", difference=0, is_due=True, is_taken_back=True)
        payout, entry_class, difference = _payout_of(connection, entry)
        return _Judged(payout=payout, entry_class=entry_class, difference=difference, is_due=entry_class == "matched")
    return _Judged(
        payout=(ours.counterpart, ours.payout),
        entry_class=ours.entry_class,
        difference=ours.difference,
        is_due=ours.entry_class == "matched" and ours.is_news,
    )


def _keep_entry(
    connection: psycopg.Connection,
    statement: Statement,
    line_id: str,
    entry: Entry,
    judged: _Judged,
    taken: TakenStatements,
    part_of: str | None = None,
) -> bool:
    """Keeps an entry, or a payment of one, with what is wrong with it; whether it was matched."""
    processor = f"bank:{statement.account}"
    is_matched = judged.entry_class == "matched"
    payout = judged.payout
    execute(
        connection,
        "bank_line_keep",
        processor=processor,
        line_id=line_id,
        report_id=entry.statement,
        line_no=entry.number,
        type=BANK_RETURN if judged.is_taken_back else "bank_credit" if entry.amount > 0 else "bank_debit",
        **_looks(entry) | {"class": judged.entry_class, "content": None if part_of else entry.content},
        difference=judged.difference,
        matched=payout[1] if payout and is_matched else None,
        counterpart=payout[0] if payout and is_matched else judged.rule and RULE + judged.rule,
        part_of=part_of,
        posting="due" if judged.is_due else "none",
    )
    if judged.is_due:
        execute(connection, "due_keep", processor=processor, report_id=entry.statement, lines=[line_id])
    if is_matched or judged.entry_class in (_BATCH, _SORTED):
        return is_matched
    found = Found(
        subject=line_id,
        found_class=judged.entry_class,
        reference=payout[1] if payout else group_of(statement),
        amount=judged.difference,
        currency=entry.currency,
        line_id=line_id,
        detail=_as_told(entry),
    )
    taken.found.append(found)
    return False


def _as_told(entry: Entry) -> str:
    """An entry as it stands in the bank's own statement: whole units and cents, currency, the day it was booked."""
    day = f"booked on {entry.booked_on[:10]}" if entry.booked_on else "without a booking date"
    says = entry.contradiction or ", ".join(entry.names[:3])
    return f"entry of {format_minor(entry.amount, entry.currency)} {entry.currency} {day}" + (
        f": {says}" if says else ""
    )


def _payout_taken_back(connection: psycopg.Connection, entry: Entry) -> tuple[str, str] | None:
    """The payout that had been received and that the entry, by its name and with the opposite amount, undoes."""
    rows = execute(
        connection, "bank_payouts_taken_back", names=list(entry.names), currency=entry.currency, amount=entry.amount
    ).fetchall()
    return (rows[0][0], rows[0][1]) if len(rows) == 1 else None


def _payout_of(connection: psycopg.Connection, entry: Entry) -> tuple[tuple[str, str] | None, str, int]:
    """The payout that an entry is, its class, and what is wrong. By name first; by amount and date when only one is."""
    amount = abs(entry.amount)
    if entry.is_reversal:
        return None, "bank_unmatched", amount
    rows = execute(
        connection,
        "bank_payouts",
        names=list(entry.names),
        currency=entry.currency,
        amount=entry.amount,
        limit=limits.SETTLEMENT_NAMES_MAX,
    ).fetchall()
    named = [row for row in rows if row[4]]
    exact = [row for row in named if row[3] == entry.amount]
    if len(exact) == 1:
        return (exact[0][0], exact[0][1]), "matched", 0
    if len(named) == 1:
        return (named[0][0], named[0][1]), "bank_difference", abs(entry.amount - named[0][3])
    near = [row for row in rows if row[3] == entry.amount and _is_near(entry.booked_on, row[2])]
    if not named and len(near) == 1:
        return (near[0][0], near[0][1]), "matched", 0
    return None, "bank_unmatched", amount


def _is_near(booked_on: str | None, announced: str | None) -> bool:
    """Whether a payout of that day may be booked on this one; days of the two sides may be a zone apart."""
    booked, created = _day(booked_on), _day(announced)
    if booked is None or created is None:
        return False
    return -timedelta(days=1) <= booked - created <= timedelta(days=limits.SETTLEMENT_BANK_DAYS_MAX)


def _day(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text or "").replace(tzinfo=UTC, hour=0, minute=0, second=0, microsecond=0)
    except ValueError:
        return None
