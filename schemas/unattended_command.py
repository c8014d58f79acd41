"""A command that nobody waits for: of a worker, of a fact. Its answer is stored, and sent nowhere."""

from __future__ import annotations

from typing import Any, Final

from schemas.operation import Operation
from schemas.records import Command

_NOBODY: Final = -1


def unattended_command(
    operation: Operation,
    aggregate_key: str,
    payload: dict[str, Any],
    *,
    scope: str,
    request_id: str,
    idempotency_key: str,
    trace_id: str,
    issued_at: int,
) -> Command:
    """The command, without a deadline and against any version; ``issued_at`` is in microseconds."""
    return Command(
        operation=operation.name,
        request_id=request_id,
        idempotency_key=idempotency_key,
        aggregate_key=aggregate_key,
        expected_version=None,
        scope=scope,
        request_hash=operation.request_hash(aggregate_key, payload),
        trace_id=trace_id,
        issued_at=issued_at,
        deadline_at=0,
        reply_to=_NOBODY,
        reply_id=0,
        payload=payload,
    )
