"""Holds whose time is over: their release is asked for, as a command to the owner, who voids them at the processor.

A processor that ends a hold says so itself, and sooner: this is for those that do not, and for words that were lost.
Each period has one identity, so any number of workers ask once; a refused release is asked for again in the next. What
was asked for in vain to the last is a person's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from msgspec import Struct

from schemas.payments import facts, limits
from schemas.records import Command

EXPIRE: Final = "expire_authorization"
FIRST: Final = (0, "")  # a time and payment before all others


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


class ReleaseTurn:
    """Which holds a worker asks for next: each once in its period, and all others before it begins anew.

    Owners that are halted decide nothing: what waits for them is neither told every second, nor in the way of the rest.
    """

    def __init__(self) -> None:
        self.after = FIRST  # time and payment of the last hold that was looked at
        self._asked: dict[str, None] = {}  # durable commands by their ids, oldest first

    def commands(self, overdue: Sequence[OverdueHold], issued_at: int) -> list[Command]:
        """What is to be asked for of the next holds behind ``after``, a full batch unless they are the last."""
        is_full = len(overdue) >= limits.AUTHORIZATION_RELEASE_BATCH_MAX
        self.after = (overdue[-1].authorized_until, overdue[-1].intent_id) if is_full else FIRST
        commands = [release_command(hold, issued_at) for hold in overdue]
        return [command for command in commands if command.request_id not in self._asked]

    def told(self, durable: Collection[str]) -> None:
        """These need not be asked for again."""
        self._asked |= dict.fromkeys(durable)
        while len(self._asked) > limits.AUTHORIZATION_RELEASES_REMEMBERED_MAX:
            del self._asked[next(iter(self._asked))]


BOUNDS: Final = {
    "grace_s": limits.AUTHORIZATION_RELEASE_GRACE_S,
    "retry_s": limits.AUTHORIZATION_RELEASE_RETRY_S,
    "tries_max": limits.AUTHORIZATION_RELEASE_TRIES_MAX,
    "count": limits.AUTHORIZATION_RELEASE_BATCH_MAX,
}
