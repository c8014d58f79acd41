"""The commands that facts of webhooks travel as. Their identities are those of every other door for the same fact.

If an identity differed from what an answer or a poll uses, one fact would be decided twice.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from dataflows.payments.webhooks.findings import DisputeChange
from schemas import identity
from schemas.operations import OPERATIONS
from schemas.records import Command

_TRACE_LENGTH: Final = 32


def scope_of(processor: str) -> str:
    """Who says it."""
    return f"processor:{processor}"


def outcome_key(operation_id: str, status: str) -> str:
    """The identity of a definitive outcome: once per attempt and status, for ever."""
    return f"{operation_id}:{status}"


def failed_later_key(operation_id: str) -> str:
    """The identity of a refund's failure after its success."""
    return f"{operation_id}:failed_later"


def dispute_key(found: DisputeChange) -> str:
    """The identity of a state of a dispute and its money."""
    return f"{found.provider_ref}:{found.status}:{found.funds}"


def command_of(
    operation: str,
    processor: str,
    key: str,
    intent_id: str,
    payload: dict[str, Any],
    provider_event_id: str,
    issued_at: int,
) -> Command:
    """The command; equal facts have equal identity, whichever of their events told them."""
    scope = scope_of(processor)
    trace = hashlib.sha256(f"{processor}\x1f{provider_event_id}".encode()).hexdigest()[:_TRACE_LENGTH]
    return Command(
        operation=operation,
        request_id=identity.derived_id("rq", scope, operation, key),
        idempotency_key=key,
        aggregate_key=intent_id,
        expected_version=None,
        scope=scope,
        request_hash=identity.request_hash(OPERATIONS[operation].template, intent_id, payload),
        trace_id=trace,
        issued_at=issued_at,
        deadline_at=0,
        reply_to=-1,
        reply_id=0,
        payload=payload,
    )
