"""The commands that facts of webhooks travel as; ``schemas.payments.facts`` gives them the identity of every door."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from dataflows.payments.webhooks.findings import DisputeChange
from schemas.payments import facts
from schemas.records import Command

_TRACE_LENGTH: Final = 32


def dispute_key(found: DisputeChange) -> str:
    """The identity of a state of a dispute and its money, and of the deadline for evidence where one is told."""
    due = "" if found.evidence_due_by is None else f":{found.evidence_due_by}"
    return f"{found.provider_ref}:{found.status}:{found.funds}{due}"


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
    trace = hashlib.sha256(f"{processor}\x1f{provider_event_id}".encode()).hexdigest()[:_TRACE_LENGTH]
    return facts.fact_command(
        operation,
        scope=facts.processor_scope(processor),
        key=key,
        aggregate_key=intent_id,
        payload=payload,
        trace_id=trace,
        issued_at=issued_at,
    )
