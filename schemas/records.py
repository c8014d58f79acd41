"""Records that all services share: commands, refusals, events, results. Plain data: no clock, no I/O.

Times are integers of microseconds since the epoch.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct, field, structs

Outcome = Literal["committed", "refused", "parked", "expired"]

_OF_FACTS: Final = "processor:"  # what the scope of a fact begins with


class Command(Struct, kw_only=True):
    """One command of the spec's envelope, as it lies in a command topic."""

    operation: str  # a key of schemas.services.OPERATIONS
    request_id: str
    idempotency_key: str
    aggregate_key: str
    expected_version: int | None
    scope: str  # merchant or tenant; "processor:<name>" for facts
    request_hash: bytes
    trace_id: str
    issued_at: int
    deadline_at: int  # 0 = none
    reply_to: int  # partition of results.v1; -1 = nobody waits
    reply_id: int
    payload: dict[str, object]
    signals: dict[str, str] | None = None  # what the ingress saw of a confirm or approval; no part of the request

    @property
    def is_awaited(self) -> bool:
        """Whether an ingress process waits for the answer."""
        return self.reply_to >= 0

    @property
    def is_told(self) -> bool:
        """Whether anybody reads the answer. That to a processor's fact is read only by who waits for it now."""
        return self.is_awaited or not self.scope.startswith(_OF_FACTS)

    def tried_again(self) -> Command:
        """The same after it was parked: nobody waits for it any more, however late it is."""
        return structs.replace(self, deadline_at=0, reply_to=-1, reply_id=0)


class Rejection(Struct, frozen=True):
    """A refusal decided by the domain; stored as the idempotency result and returned again on a retry."""

    code: str
    detail: str
    extra: dict[str, object] = field(default_factory=dict)


class Denial(Rejection, frozen=True):
    """A refusal for now: it is not stored, and the same identity may ask again."""


class Event(Struct, kw_only=True):
    """The durable event envelope, spec 1 section 6, with the position that makes its stream gapless."""

    event_id: str
    aggregate_key: str
    event_type: str
    schema_version: int
    trace_id: str
    seq: int  # 1, 2, 3 ... within its partition
    occurred_at: int
    version: int  # of the aggregate
    scope: str
    operation: str
    body: dict[str, object]


class Result(Struct, kw_only=True):
    """What a waiting ingress hears: the outcome of one command after its commit."""

    reply_id: int
    outcome: Outcome
    replayed: bool
    body: bytes  # JSON: {"result", "event"} or {"code", "detail", ...}
