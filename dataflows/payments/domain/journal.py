"""Ledger transactions that belong to no payment: payouts, bank entries, approved repairs.

Each is an aggregate of its own, at version 1 for ever. It balances, or it is refused before anything is kept. Who may
ask for one is not decided here: only our own processes can write this fact, and a repair has its two persons before it.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from dataflows.payments.domain.ledger import Posting, is_balanced
from schemas.payments.facts import journal_id
from schemas.records import Command, LedgerEntry, Rejection

LEDGER_SCOPE: Final = "ledger:"
#: references that payments build for themselves
_OF_PAYMENTS: Final = ("op_", "re_", "dp_")


class JournalEntry(Struct, frozen=True, kw_only=True):
    """A ledger transaction with its identity, and why it was made."""

    id: str
    posting: Posting
    note: str | None


def decide_post(command: Command, *, exists: bool) -> JournalEntry | Rejection:
    """The entry, once: a reference posts once, whoever asks again."""
    wanted: dict[str, Any] = command.payload
    reference: str = wanted["reference"]
    if not command.scope.startswith(LEDGER_SCOPE):
        return Rejection("not_found", "No such object.", {})
    if exists:
        return Rejection("state_conflict", "This reference was posted.", {"current_state": "posted"})
    if command.expected_version not in (None, 0):
        return Rejection("version_conflict", "The object does not exist yet.", {"current_version": 0})
    if reference.startswith(_OF_PAYMENTS) or command.aggregate_key != journal_id(reference):
        return Rejection("invalid_command", "The reference is not one of a journal entry, or not of this one.", {})
    entries = [LedgerEntry(**entry) for entry in wanted["entries"]]
    if not is_balanced(entries) or any(not e.account_id.endswith(f":{e.currency}") for e in entries):
        return Rejection(
            "invalid_command", "Entries balance in every currency, one side each, on accounts of their currency.", {}
        )
    return JournalEntry(
        id=command.aggregate_key, posting=Posting(reference, wanted["kind"], entries), note=wanted["note"]
    )
