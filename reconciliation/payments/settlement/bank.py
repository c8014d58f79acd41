"""Bank statements: entries beside the payouts that were announced to us, and beside ours to merchants.

A statement that does not foot gives nothing. The file is read twice: once for its statements, then for the entries of
those that foot. One transaction for a file.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, BinaryIO

from msgspec import Struct

from reconciliation.payments.settlement import bank_batches, merchant_payouts
from reconciliation.payments.settlement.camt053 import Entry, Statement, read_statements
from reconciliation.payments.settlement.commands import BANK_RETURN
from reconciliation.payments.settlement.line import UnreadableReport
from reconciliation.payments.settlement.store import Found, execute, found_table, keep_found, resolve_cases
from schemas import limits

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

_FORMAT = "camt053"
#: an entry whose payments stand in lines of their own
_BATCH = "batch"


#: characters of an entry's content, or of a file's digest, in the name of what has no place of its own
_SHORT = 12


class TakenStatements(Struct, kw_only=True):
    """What came of a file of bank statements; ``displaced`` are new entries in the place of others."""

    lines: int = 0
    matched: int = 0
    displaced: int = 0
    displaced_amount: int = 0


def take_in_statements(
    connection: psycopg.Connection,
    file: tuple[str, bytes],
    opened: Callable[[], BinaryIO],
    on_lines: Callable[[int], None] = lambda _: None,
) -> TakenStatements:
    """Every sound statement of the file is taken in, once; ``file`` is its name and digest."""
    name, sha256 = file
    try:
        with opened() as stream:
            statements = _statements(stream)
    except UnreadableReport as problem:
        with found_table(connection):
            found = Found(subject=name, found_class="unreadable_report", reference=name, amount=0, detail=str(problem))
            keep_found(connection, "bank", name, [found])
            _keep(connection, ("bank", name, sha256), TakenStatements(), "rejected", str(problem))
        return TakenStatements()
    with found_table(connection):
        resolve_cases(
            connection,
            execute(connection, "resolve_about", found_class="unreadable_report", processor="bank", subject=name),
        )
        return _take_in(connection, sha256, statements, opened, on_lines)


def _statements(stream: BinaryIO) -> list[Statement]:
    found: list[Statement] = []
    for part in read_statements(stream):
        if isinstance(part, Statement):
            found.append(part)
        if len(found) > limits.SETTLEMENT_STATEMENTS_MAX:
            raise UnreadableReport(f"the file has more than {limits.SETTLEMENT_STATEMENTS_MAX} statements")
    return found


def _take_in(
    connection: psycopg.Connection,
    sha256: bytes,
    statements: list[Statement],
    opened: Callable[[], BinaryIO],
    on_lines: Callable[[int], None],
) -> TakenStatements:
    total = TakenStatements()
    with opened() as stream:
        remaining = iter(statements)
        statement = next(remaining, None)
        taken = TakenStatements()
        for part in read_statements(stream):
            if statement is None:
                break
            if isinstance(part, Entry):
                if not statement.findings:
                    _take_entry(connection, statement, part, taken)
                continue
            _end_statement(connection, sha256, statement, taken)
            total.lines += taken.lines
            total.matched += taken.matched
            on_lines(total.lines)
            statement, taken = next(remaining, None), TakenStatements()
    return total


def _end_statement(connection: psycopg.Connection, sha256: bytes, statement: Statement, taken: TakenStatements) -> None:
    processor = f"bank:{statement.account}"
    subject = statement.id or "?"
    if not statement.findings:
        resolved = execute(
            connection, "resolve_about", found_class="statement_does_not_foot", processor=processor, subject=subject
        )
        resolve_cases(connection, resolved)
        if taken.displaced:
            keep_found(connection, processor, subject, [_changed_statement(statement, sha256, taken)])
        _keep(connection, (processor, subject, sha256), taken, "taken_in", None)
        return
    found = Found(
        subject=subject,
        found_class="statement_does_not_foot",
        reference=subject,
        amount=abs(statement.gap),
        currency=statement.currency,
        detail="; ".join(statement.findings),
    )
    keep_found(connection, processor, subject, [found])
    _keep(connection, (processor, subject, sha256), taken, "rejected", found.detail)


def _changed_statement(statement: Statement, sha256: bytes, taken: TakenStatements) -> Found:
    return Found(
        subject=f"{statement.id}@{sha256.hex()[:_SHORT]}",
        found_class="changed_statement",
        reference=statement.id,
        amount=abs(taken.displaced_amount),
        currency=statement.currency,
        detail=f"{taken.displaced} entries stand in the place of others that an earlier statement of this id had there",
    )


class _Judged(Struct, frozen=True, kw_only=True):
    """What an entry is: the payout, as counterpart and name, and whether an owner has to be told."""

    payout: tuple[str, str] | None
    entry_class: str
    difference: int
    is_due: bool
    is_taken_back: bool = False


def _take_entry(connection: psycopg.Connection, statement: Statement, entry: Entry, taken: TakenStatements) -> None:
    processor, line_id = f"bank:{statement.account}", f"{statement.id}:{entry.number}"
    there = execute(connection, "bank_lines_known", processor=processor, line_id=line_id, **_looks(entry)).fetchall()
    if any(is_equal for _, _, is_equal in there):
        return
    taken.lines += 1
    if there:
        taken.displaced += 1
        taken.displaced_amount += entry.amount
        line_id += f"~{entry.content[:_SHORT]}"
    judged = _judge(connection, entry)
    singles = [] if judged.entry_class == "matched" else bank_batches.split(connection, entry)
    if not any(_judge(connection, single).entry_class == "matched" for single in singles):
        taken.matched += _keep_entry(connection, processor, line_id, entry, judged)
        return
    batch = _Judged(payout=None, entry_class=_BATCH, difference=0, is_due=False)
    _keep_entry(connection, processor, line_id, entry, batch)
    matched = [
        # judged again, behind those of the same batch: one payout is not matched by two of its payments
        _keep_entry(connection, processor, f"{line_id}/{n}", single, _judge(connection, single), part_of=line_id)
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


def _judge(connection: psycopg.Connection, entry: Entry) -> _Judged:
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
    processor: str,
    line_id: str,
    entry: Entry,
    judged: _Judged,
    part_of: str | None = None,
) -> bool:
    """Keeps an entry, or a payment of one, with what is wrong with it; whether it was matched."""
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
        counterpart=payout[0] if payout and is_matched else None,
        part_of=part_of,
        posting="due" if judged.is_due else "none",
    )
    if judged.is_due:
        execute(connection, "due_keep", processor=processor, report_id=entry.statement, lines=[line_id])
    if is_matched or judged.entry_class == _BATCH:
        return is_matched
    found = Found(
        subject=line_id,
        found_class=judged.entry_class,
        reference=payout[1] if payout else next(iter(entry.names), line_id),
        amount=judged.difference,
        currency=entry.currency,
        line_id=line_id,
        detail=f"entry of {entry.amount} on {entry.booked_on}: {', '.join(entry.names[:3])}",
    )
    keep_found(connection, processor, entry.statement, [found])
    return False


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


def _keep(
    connection: psycopg.Connection, name: tuple[str, str, bytes], taken: TakenStatements, state: str, note: Any
) -> None:
    processor, report_id, sha256 = name
    execute(
        connection,
        "report_keep",
        processor=processor,
        report_id=report_id,
        sha256=sha256,
        format=_FORMAT,
        state=state,
        note=note,
        is_complete_history=False,
        lines=taken.lines,
        matched=taken.matched,
        oldest_at=None,
        youngest_at=None,
    )
