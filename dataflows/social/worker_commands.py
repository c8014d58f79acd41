"""Commands of the service's own workers. Their identity is what they are about, so that each is carried out once."""

from __future__ import annotations

import time
from typing import Any, Final

from schemas import identity
from schemas.records import Command
from schemas.senders import WORKER_SCOPE
from schemas.services import OPERATIONS

_NOBODY: Final = -1
_NO_TRACE: Final = "0" * 32


def worker_command(worker: str, operation: str, about: str, aggregate_key: str, payload: dict[str, Any]) -> Command:
    """A command that nobody waits for. ``about`` with the operation is its retry identity."""
    return Command(
        operation=operation,
        request_id=f"{operation}:{about}",
        idempotency_key=f"{operation}:{about}",
        aggregate_key=aggregate_key,
        expected_version=None,
        scope=f"{WORKER_SCOPE}{worker}",
        request_hash=identity.request_hash(OPERATIONS[operation].template, aggregate_key, payload),
        trace_id=_NO_TRACE,
        issued_at=time.time_ns() // 1_000,
        deadline_at=0,
        reply_to=_NOBODY,
        reply_id=0,
        payload=payload,
    )
