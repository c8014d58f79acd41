"""Bank statements: entries beside the payouts that were announced to us, and beside ours to merchants.

A statement that does not foot gives nothing; what is wrong with one entry is a finding of that entry. Entries that are
nobody's are sorted by the published rules, and what is left of a statement is one case. The file is read twice: once
for its statements, then for their entries. One transaction for a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from reconciliation.payments.settlement.bank import findings
from reconciliation.payments.settlement.bank.entries import TakenStatements, take_entry
from reconciliation.payments.settlement.line import UnreadableReport
from reconciliation.payments.settlement.reports.camt053 import read_statements
from reconciliation.payments.settlement.reports.camt053_statement import Entry, Statement, UnreadEntry
from reconciliation.payments.settlement.store import Found, execute, found_table, keep_found, resolve_cases
from schemas.payments import limits
from schemas.payments.policies import bank_rules

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

_FORMAT = "camt053"


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
        return TakenStatements(reports=[("bank", name, "rejected", str(problem))])
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
        rules = _rules(connection)
        taken = TakenStatements()
        for part in read_statements(stream):
            if statement is None:
                break
            if not isinstance(part, Statement):
                if not statement.refusals:
                    _take_part(connection, statement, part, taken, rules)
                continue
            _end_statement(connection, sha256, statement, taken)
            total.reports += taken.reports
            total.lines += taken.lines
            total.matched += taken.matched
            total.sorted_by_rule += taken.sorted_by_rule
            on_lines(total.lines)
            statement, taken = next(remaining, None), TakenStatements()
    return total


def _rules(connection: psycopg.Connection) -> list[bank_rules.BankRule]:
    """The published rules. Raises msgspec.DecodeError for those of a newer build: nothing is taken in without them."""
    row = execute(connection, "bank_rules_active").fetchone()
    return [] if row is None else bank_rules.read(row[0]).rules


def _take_part(
    connection: psycopg.Connection,
    statement: Statement,
    part: Entry | UnreadEntry,
    taken: TakenStatements,
    rules: list[bank_rules.BankRule],
) -> None:
    if isinstance(part, Entry):
        take_entry(connection, statement, part, taken, rules)
    else:
        taken.found.append(findings.unread(statement, part))
    if len(taken.found) >= limits.SETTLEMENT_COPY_LINES:
        _tell(connection, statement, taken)


def _tell(connection: psycopg.Connection, statement: Statement, taken: TakenStatements) -> None:
    keep_found(connection, f"bank:{statement.account}", statement.id, taken.found)
    taken.found.clear()


def _end_statement(connection: psycopg.Connection, sha256: bytes, statement: Statement, taken: TakenStatements) -> None:
    processor = f"bank:{statement.account}"
    subject = statement.id or "?"
    if not statement.refusals:
        resolved = execute(
            connection, "resolve_about", found_class="statement_does_not_foot", processor=processor, subject=subject
        )
        resolve_cases(connection, resolved)
        if taken.displaced:
            taken.found.append(findings.changed_statement(statement, sha256, taken.displaced, taken.displaced_amount))
        if statement.doubts:
            taken.found.append(findings.unproven(statement, sha256))
        _tell(connection, statement, taken)
        _keep(connection, (processor, subject, sha256), taken, "taken_in", "; ".join(statement.doubts) or None)
        return
    found = Found(
        subject=subject,
        found_class="statement_does_not_foot",
        reference=subject,
        amount=abs(statement.gap),
        currency=statement.currency,
        detail="; ".join(statement.refusals),
    )
    keep_found(connection, processor, subject, [found])
    _keep(connection, (processor, subject, sha256), taken, "rejected", found.detail)


def _keep(
    connection: psycopg.Connection, name: tuple[str, str, bytes], taken: TakenStatements, state: str, note: str | None
) -> None:
    processor, report_id, sha256 = name
    taken.reports.append((processor, report_id, state, note))
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
