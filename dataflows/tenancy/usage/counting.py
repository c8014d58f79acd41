"""Counts usage: each identity once, the first content stays, the rest is the same again or a contradiction.

All of a batch is one transaction of the caller's, in which its position moves too. So a batch that is read again after
a kill counts nothing: every identity is there. One process at a time counts into a partition, and equal identities
share one; who was replaced fails at the position.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from schemas import identity
from schemas.tenancy.usage_event import UsageEvent
from sinks.postgres.arrays import Bigints, Blobs, OptionalTexts, Texts, Times
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sinks.postgres.owner_connection import OwnerConnection

SQL: Final = queries("sinks.postgres.queries.tenancy", "metering.sql")

Identity = tuple[str, str, str]  # tenant, source, id


class Metered(NamedTuple):
    """An event of usage, and whose it is."""

    tenant_id: str
    event: UsageEvent

    @property
    def identity(self) -> Identity:
        """What makes two events one."""
        return self.tenant_id, self.event.source, self.event.event_id


class Counted(NamedTuple):
    """What became of a batch."""

    counted: int
    repeated: int
    contradicted: int


def firsts(batch: Sequence[Metered]) -> list[Metered]:
    """The first of each identity, in order."""
    found: dict[Identity, Metered] = {}
    for one in batch:
        found.setdefault(one.identity, one)
    return list(found.values())


def contradictions(batch: Sequence[Metered], counts: dict[Identity, tuple[Any, ...]]) -> list[Metered]:
    """Those that say something else than what counts of their identity; each contradiction once."""
    found = {(one.identity, one.event.content): one for one in batch if counts[one.identity] != one.event.content}
    return list(found.values())


def count(connection: OwnerConnection, partition: int, batch: Sequence[Metered]) -> Counted:
    """Counts a batch into a partition, in the transaction that is open."""
    (held,) = connection.execute(SQL["counted_hold"].encode(), {"partition": partition}).fetchall()
    last_seq: int = held[0]
    new = firsts(batch)
    place = {"partition": partition, "last_seq": last_seq}
    counted = connection.execute(SQL["usage_insert"].encode(), place | _columns(new)).rowcount
    if counted:
        moved = {"partition": partition, "last_seq": last_seq + counted}
        connection.execute(SQL["counted_advance"].encode(), moved)
    other = [] if counted == len(batch) else contradictions(batch, _stored(connection, new))
    if other:
        connection.execute(SQL["conflicts_insert"].encode(), _columns(other) | _of_conflicts(other))
    return Counted(counted, len(batch) - counted - len(other), len(other))


def _stored(connection: OwnerConnection, new: Sequence[Metered]) -> dict[Identity, tuple[Any, ...]]:
    names = _identities(new)
    rows = connection.execute(SQL["usage_stored"].encode(), names).fetchall()
    return {new[place].identity: tuple(content) for place, *content in rows}


def _identities(batch: Sequence[Metered]) -> dict[str, Any]:
    return {
        "tenants": Texts([one.tenant_id for one in batch]),
        "sources": Texts([one.event.source for one in batch]),
        "event_ids": Texts([one.event.event_id for one in batch]),
    }


def _columns(batch: Sequence[Metered]) -> dict[str, Any]:
    events = [one.event for one in batch]
    return _identities(batch) | {
        "dimensions": Texts([event.dimension for event in events]),
        "quantities": Bigints([event.quantity for event in events]),
        "subjects": OptionalTexts([event.subject for event in events]),
        "times": Times([event.occurred_at for event in events]),
    }


def _of_conflicts(batch: Sequence[Metered]) -> dict[str, Any]:
    digests = [hashlib.sha256(repr(one.event.content).encode()).digest() for one in batch]
    ids = [
        identity.derived_id("uc", "\x1f".join(one.identity), "conflict", digest.hex())
        for one, digest in zip(batch, digests, strict=True)
    ]
    return {"digests": Blobs(digests), "conflict_ids": Texts(ids)}
