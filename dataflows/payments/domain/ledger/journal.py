"""Ledger transactions that belong to no payment: payouts, bank entries, approved repairs.

Each is an aggregate of its own, at version 1 for ever. One that does not balance is refused before anything is kept. A
repair is posted as two persons approved it; reconciliation moves money only between processors and banks.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from dataflows.payments.domain import approval
from dataflows.payments.domain.ledger.posting import Posting, is_balanced
from schemas.payments import repair
from schemas.payments.facts import RECONCILIATION_SCOPE, journal_id
from schemas.payments.records import LedgerEntry
from schemas.records import Command, Rejection
from schemas.refusals import state_conflict, wrong_value

#: the only senders that may post; each is limited in what it may post
_POSTS: Final = (repair.LEDGER_SCOPE, RECONCILIATION_SCOPE)
#: prefixes of the accounts that reconciliation may touch
_RECONCILED: Final = (
    "payout_in_transit:", "processor_receivable:", "processor_fee_expense:", "cash:", "fx_clearing:", "recon_suspense:"
)  # fmt: skip
#: references that only payments make
_OF_PAYMENTS: Final = ("op_", "re_", "dp_")


class JournalEntry(Struct, frozen=True, kw_only=True):
    """A ledger transaction with its identity and its reason."""

    id: str
    posting: Posting
    note: str | None


def decide_post(command: Command, *, exists: bool, approved: Command | None = None) -> JournalEntry | Rejection:
    """Makes the entry once: a reference posts once, however often it is sent.

    ``approved`` is the command of the approved proposal that the reference names, as the database has it now.
    """
    wanted: dict[str, Any] = command.payload
    reference: str = wanted["reference"]
    if command.scope not in _POSTS:
        return Rejection("not_found", "No such object.", {})
    if exists:
        return state_conflict("posted", "This reference was posted.")
    if command.expected_version not in (None, 0):
        return Rejection("version_conflict", "The object does not exist yet.", {"current_version": 0})
    if command.scope == repair.LEDGER_SCOPE and not approval.is_approved(command, approved):
        return approval.NOT_APPROVED
    entries = [LedgerEntry(**entry) for entry in wanted["entries"]]
    if wrong := _why_not(command, reference, entries):
        return wrong_value(*wrong)
    return JournalEntry(
        id=command.aggregate_key, posting=Posting(reference, wanted["kind"], entries), note=wanted["note"]
    )


def _why_not(command: Command, reference: str, entries: list[LedgerEntry]) -> tuple[str, str] | None:
    if reference.startswith(_OF_PAYMENTS) or command.aggregate_key != journal_id(reference):
        return "payload.reference", "must be one of a journal entry, and of this one"
    if not is_balanced(entries) or any(not e.account_id.endswith(f":{e.currency}") for e in entries):
        return "payload.entries", "must balance in every currency, one side each, on accounts of their currency"
    if command.scope == RECONCILIATION_SCOPE and any(not e.account_id.startswith(_RECONCILED) for e in entries):
        return "payload.entries", "must be between processors and banks only, from reconciliation"
    return None
