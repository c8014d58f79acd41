"""What the processor tells by itself: events, the rows of its outbox, and how a delivery is signed.

An event is written in the transaction of the effect that it tells of and leaves when a receiver has taken it, so it
is delivered at least once, in no promised order; its id is the same on every delivery. Signed as Standard Webhooks.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from compose.simulator import errors, limits
from compose.simulator.operations import modes
from compose.simulator.statements import QUERIES

if TYPE_CHECKING:
    import sqlite3

    from compose.simulator.operations.nouns import Outcome

_SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - what every such secret begins with


@dataclass(frozen=True, slots=True)
class Receiver:
    """Where webhooks go and the secret that they are signed with."""

    url: str
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        """Raises errors.WebhooksMisconfigured when nothing could ever be delivered so."""
        parts = urlsplit(self.url)
        if parts.scheme != "http" or not parts.hostname or not self.key:
            raise errors.WebhooksMisconfigured

    @property
    def key(self) -> bytes:
        """The secret's bytes; none when it is not well-formed."""
        try:
            return base64.b64decode(self.secret.removeprefix(_SECRET_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            return b""

    def headers(self, event_id: str, body: bytes, now: int) -> dict[str, str]:
        """The signed headers of one delivery at ``now`` (seconds)."""
        signed = f"{event_id}.{now}.".encode() + body
        mac = base64.b64encode(hmac.new(self.key, signed, hashlib.sha256).digest()).decode()
        return {
            "Content-Type": "application/json",
            "webhook-id": event_id,
            "webhook-timestamp": str(now),
            "webhook-signature": f"v1,{mac}",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened, once: ``identity`` makes its id."""

    type: str
    identity: str
    reference: str
    operation_id: str
    data: dict[str, Any]


def event_of_outcome(outcome: Outcome) -> Event:
    """The event of an executed operation. A refused capture or void is told as a declined charge."""
    is_refused = outcome.status in {"declined", "failed"}
    if outcome.kind == "refund":
        kind = "refund.failed" if is_refused else "refund.succeeded"
        kind = f"refund.{outcome.status}" if outcome.status in {"requires_action", "pending"} else kind
    elif (outcome.kind, outcome.status) == ("authorize", "voided"):
        kind = "charge.expired"
    else:
        kind = "charge.declined" if is_refused else f"charge.{outcome.status}"
    data = {
        "operation_id": outcome.operation_id,
        "reference": outcome.reference,
        "provider_ref": outcome.provider_ref,
        "kind": outcome.kind,
        "status": outcome.status,
        "amount": outcome.amount,
        "currency": outcome.currency,
        "error_code": outcome.decline_code,
        "after_success": outcome.after_success,
        "redirect_url": outcome.redirect_url,
        "authorized_until_ms": outcome.authorized_until_ms,
    }
    if outcome.pending_reason is not None:
        data["pending_reason"] = outcome.pending_reason
    identity = f"{outcome.operation_id}:{kind}" + (":later" if outcome.after_success else "")
    return Event(
        type=kind, identity=identity, reference=outcome.reference, operation_id=outcome.operation_id, data=data
    )


def tell(connection: sqlite3.Connection, event: Event, mode: modes.Mode, now_ms: int) -> None:
    """Writes the deliveries of an event. Several copies are two events, as processors tell one thing in two ways."""
    for copy in range(mode.webhook_copies):
        identity = f"{event.identity}:again" if copy > mode.webhook_copies // 2 else event.identity
        event_id = "evt_" + hashlib.sha256(identity.encode()).hexdigest()[:24]
        content = {"id": event_id, "type": event.type, "created": now_ms // 1_000, "data": event.data}
        due_at_ms = now_ms + random.randint(0, mode.webhook_spread_ms)
        connection.execute(
            QUERIES["webhook_insert"],
            (event_id, event.reference, event.operation_id, json.dumps(content), due_at_ms, now_ms),
        )


@dataclass(frozen=True, slots=True)
class Deliveries:
    """A deed: what came of a round of deliveries."""

    ended: tuple[int, ...]  # taken by the receiver, or given up
    postponed: tuple[tuple[int, int], ...]  # (due_at_ms, sequence)

    def apply(self, connection: sqlite3.Connection) -> None:
        """Forgets the ended and puts the others off."""
        connection.executemany(QUERIES["webhook_delete"], [(sequence,) for sequence in self.ended])
        connection.executemany(QUERIES["webhook_postpone"], self.postponed)


@dataclass(frozen=True, slots=True)
class IsTelling:
    """A deed that only looks: whether deliveries about an operation are still to be made."""

    operation_id: str

    def apply(self, connection: sqlite3.Connection) -> bool:
        """True while there are."""
        return bool(connection.execute(QUERIES["webhook_is_waiting"], (self.operation_id,)).fetchone()[0])


@dataclass(frozen=True, slots=True)
class CountWaiting:
    """A deed that only looks: how many deliveries wait."""

    def apply(self, connection: sqlite3.Connection) -> int:
        """Their number."""
        return int(connection.execute(QUERIES["webhooks_waiting"]).fetchone()[0])


def now_ms() -> int:
    """The wall clock as the book writes it."""
    return time.time_ns() // 1_000_000


def backoff_ms(tries: int) -> int:
    """The wait after the ``tries``-th refusal (from 0): doubling, bounded, spread out."""
    ceiling = min(limits.SIMULATOR_WEBHOOK_BACKOFF_FIRST_MS << min(tries, 16), limits.SIMULATOR_WEBHOOK_BACKOFF_MAX_MS)
    return random.randint(ceiling // 2, ceiling)
