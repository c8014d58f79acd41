"""What is told of a bank statement beside its entries, and what a statement's one case is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reconciliation.payments.settlement.store import Found

if TYPE_CHECKING:
    from reconciliation.payments.settlement.reports.camt053_statement import Statement, UnreadEntry

#: characters of an entry's content, or of a file's digest, in the name of what has no place of its own
SHORT: Final = 12


def group_of(statement: Statement) -> str:
    """What the one case of a statement is about: all that nobody knows in it."""
    return f"bank:{statement.account}/{statement.id}"


def unread(statement: Statement, entry: UnreadEntry) -> Found:
    """An entry that says nothing we may rely on."""
    return Found(
        subject=f"{entry.statement}:{entry.number}~{entry.content[:SHORT]}",
        found_class="unreadable_line",
        reference=group_of(statement),
        amount=0,
        detail=f"entry {entry.number} {entry.reason}",
    )


def unproven(statement: Statement, sha256: bytes) -> Found:
    """What was taken in, though nothing proves that it is whole: one case for all statements of the account."""
    return Found(
        subject=f"{statement.id}@{sha256.hex()[:SHORT]}",
        found_class="statement_unproven",
        reference=f"bank:{statement.account}",
        amount=0,
        currency=statement.currency,
        detail="; ".join(statement.doubts),
    )


def changed_statement(statement: Statement, sha256: bytes, displaced: int, amount: int) -> Found:
    """New entries in the place of others: the bank gave an id again, or another content to the same entries."""
    return Found(
        subject=f"{statement.id}@{sha256.hex()[:SHORT]}",
        found_class="changed_statement",
        reference=group_of(statement),
        amount=abs(amount),
        currency=statement.currency,
        detail=f"{displaced} entries stand in the place of others that an earlier statement of this id had there",
    )
