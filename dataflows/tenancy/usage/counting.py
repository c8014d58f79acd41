"""Counts usage: each identity once, the first content stays, the rest is the same again or a contradiction.

All of a batch is one transaction of the caller's, in which its position moves too. So a batch that is read again after
a kill counts nothing: every identity is there. One process at a time counts into a partition, and equal identities
share one; who was replaced fails at the position.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct

from schemas import identity
from schemas.tenancy.usage_event import UsageEvent
from sinks.postgres.arrays import Bigints, Blobs, Integers, OptionalTexts, Texts, Times
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sinks.postgres.owner_connection import OwnerConnection

SQL: Final = queries("sinks.postgres.queries.tenancy", "metering.sql")

Identity = tuple[str, str, str]  # tenant, source, id
Content = tuple[Any, ...]  # as ``UsageEvent.content``


class Metered(Struct, frozen=True, gc=False):
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


class Sorted(NamedTuple):
    """Batches by identities, in order."""

    firsts: list[Metered]
    partitions: list[int]  # of the first ones
    again: list[Metered]  # of those identities, too


def by_identity(batches: Mapping[int, Sequence[Metered]]) -> Sorted:
    """The first of each identity, and the others. ``batches``: by partition."""
    firsts: dict[Identity, Metered] = {}
    partitions: list[int] = []
    again: list[Metered] = []
    for partition, batch in sorted(batches.items()):
        before = len(firsts)
        again += [one for one in batch if firsts.setdefault(one.identity, one) is not one]
        partitions += [partition] * (len(firsts) - before)
    return Sorted(list(firsts.values()), partitions, again)


def contradictions(batch: Sorted, known: Mapping[Identity, Content]) -> list[Metered]:
    """Those that say something else than what counts of their identity; each contradiction once.

    ``known``: what counted before this batch. Of other identities, the first of the batch counts.
    """
    ours = {one.identity for one in batch.again} - known.keys()
    counts = {one.identity: one.event.content for one in batch.firsts if one.identity in ours} if ours else {}
    counts.update(known)
    asked = [one for one in batch.firsts if one.identity in known] if known else []
    found = {(one.identity, one.event.content): one for one in (*asked, *batch.again)}
    return [one for (identity, content), one in found.items() if counts[identity] != content]


def count(connection: OwnerConnection, batches: Mapping[int, Sequence[Metered]]) -> Counted:
    """Counts batches into their partitions, in the transaction that is open."""
    batch = by_identity(batches)
    # A statement of its own: it may wait, and only the next one sees what was committed meanwhile.
    connection.execute(SQL["counted_hold"].encode(), {"partitions": sorted(batches)})
    given = _columns(batch.firsts) | {"partitions": Integers(batch.partitions)}
    rows = connection.execute(SQL["usage_count"].encode(), given).fetchall()
    known = {batch.firsts[place].identity: tuple(content) for place, *content in rows}
    other = contradictions(batch, known)
    if other:
        connection.execute(SQL["conflicts_insert"].encode(), _columns(other) | _of_conflicts(other))
    counted = len(batch.firsts) - len(known)
    return Counted(counted, len(known) + len(batch.again) - len(other), len(other))


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
