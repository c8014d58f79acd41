"""Facts: commands of our own processes. Their identity is made here alone, so that every door tells a fact alike.

If two doors (an answer, a webhook, a query, a settlement line) named one fact differently, it would be decided twice.
Equal facts have equal identity and hash, whenever they are told.
"""

from __future__ import annotations

from typing import Final

from schemas import identity
from schemas.payments.operations import OPERATIONS
from schemas.records import Command
from schemas.unattended_command import unattended_command

PROCESSOR_SCOPE: Final = "processor:"
#: of what reconciliation posts to the ledger, and tells of payouts
RECONCILIATION_SCOPE: Final = "ledger:reconciliation"
#: the status in the identity of a refund's failure after its success; in its payload it is "failed"
FAILED_LATER: Final = "failed_later"
_TRACE_LENGTH: Final = 32


def fact_command(
    operation: str,
    *,
    scope: str,
    key: str,
    aggregate_key: str,
    payload: dict[str, object],
    trace_id: str,
    issued_at: int,
) -> Command:
    """The command of a fact that nobody waits for; ``issued_at`` is in microseconds."""
    return unattended_command(
        OPERATIONS[operation],
        aggregate_key,
        payload,
        scope=scope,
        request_id=identity.derived_id("rq", scope, operation, key),
        idempotency_key=key,
        trace_id=trace_id,
        issued_at=issued_at,
    )


def trace_of(scope: str, key: str) -> str:
    """The trace of a fact that no request and no event of a processor caused."""
    return identity.request_hash("trace", scope, {"key": key}).hex()[:_TRACE_LENGTH]


def processor_scope(processor: str) -> str:
    """Who says what a processor did."""
    return f"{PROCESSOR_SCOPE}{processor}"


def outcome_key(operation_id: str, status: str) -> str:
    """The identity of a definitive outcome, or of ``FAILED_LATER``: once per attempt and status, for ever."""
    return f"{operation_id}:{status}"


def pending_key(operation_id: str, reason: str | None) -> str:
    """The identity of a processor's own word, at its time, that a refund is pending and why: once per reason.

    Who asks learns what is true now, each time anew; such a word may arrive when it is true no more.
    """
    return f"{operation_id}:pending:{reason or 'no_reason'}"


def journal_id(reference: str) -> str:
    """The aggregate of a journal entry: whoever posts the reference reaches the same owner."""
    return identity.derived_id("jr", "ledger", "post_journal", reference)
