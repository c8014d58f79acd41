"""Holds whose time is over: their release is asked for, as a command to the owner, who voids them at the processor.

A processor that ends a hold says so itself, and sooner: this is for those that do not, and for words that were lost.
Each period has one identity, so any number of workers ask once; a refused release is asked for again in the next.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from schemas.payments import facts, limits
from schemas.records import Command

EXPIRE: Final = "expire_authorization"


class OverdueHold(Struct, frozen=True, kw_only=True):
    """An authorization as committed, past its time."""

    intent_id: str
    processor: str
    operation_id: str
    authorized_until: int  # microseconds
    period: int  # how many waits for another try are over


def release_command(hold: OverdueHold, issued_at: int) -> Command:
    """The same for every worker that asks in the same period; ``issued_at`` in microseconds."""
    scope = facts.processor_scope(hold.processor)
    key = f"{hold.operation_id}:release:{hold.period}"
    return facts.fact_command(
        EXPIRE,
        scope=scope,
        key=key,
        aggregate_key=hold.intent_id,
        payload={"operation_id": hold.operation_id, "authorized_until": hold.authorized_until},
        trace_id=facts.trace_of(scope, key),
        issued_at=issued_at,
    )


BOUNDS: Final = {
    "grace_s": limits.AUTHORIZATION_RELEASE_GRACE_S,
    "retry_s": limits.AUTHORIZATION_RELEASE_RETRY_S,
    "tries_max": limits.AUTHORIZATION_RELEASE_TRIES_MAX,
    "count": limits.AUTHORIZATION_RELEASE_BATCH_MAX,
}
