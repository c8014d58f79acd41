"""Partition leases of this process: taken and given back in Postgres, where the epoch decides who may write.

Rule: one owner. Kafka's assignment says who should own a partition; a lease says who may. A second owner of the same
partition raises the epoch, so the first owner's next claim matches no row.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from dataflows.owner.batch import Record
from dataflows.owner.metrics import INVARIANT_VIOLATED
from dataflows.owner.partition.next_offset import Place
from dataflows.owner.partition.progress import Progress, ahead_of
from dataflows.owner.service import OwnedService, PartitionState
from schemas.errors import InvariantViolation
from sinks.postgres.owner_connection import OwnerConnection
from sinks.postgres.sql_files import queries

SQL: Final = queries("sinks.postgres.queries", "owner.sql")
log = structlog.get_logger()


@dataclass(slots=True)
class Lease:
    """One owned partition. Its progress moves only after a commit."""

    partition: int
    epoch: int
    next_offset: int
    last_seq: int  # of the newest committed event
    published_seq: int  # as stored
    state: PartitionState
    topic_id: str | None  # of the topic that was read; None until the first take of a partition
    offset_base: int  # next_offset less Kafka's offset
    leader_epoch: int | None  # of the leader that took the command before next_offset; None: unknown
    decided_at: int  # the time of the newest decision, in microseconds
    signed_from: int | None  # records from this offset on are signed; None until the first take by a release that signs
    has_witness: bool = (
        False  # at the take Kafka still held the command before next_offset: it must be the one that was read
    )
    ahead: Mapping[int, int | None] = field(default_factory=dict)  # decided above next_offset, with leader epochs
    claimed_at_s: float = 0.0  # when a round last committed, by the monotonic clock

    @property
    def progress(self) -> Progress:
        """Which commands are decided."""
        return Progress(self.next_offset, self.leader_epoch, self.ahead)

    def decided(self, records: Sequence[Record]) -> None:
        """Records after a commit that these are decided, too."""
        after = self.progress.after(records)
        self.leader_epoch, self.ahead, self.next_offset = after.leader_epoch, after.ahead, after.next_offset

    @property
    def place(self) -> Place:
        """Where Kafka has the next command."""
        return Place(self.topic_id, self.next_offset - self.offset_base)

    def time_of_batch(self, clock: int) -> int:
        """The time of the next batch's first command: the clock's time, but always after the newest decision.

        So times never go back in a partition, even if this clock does or the next owner's is slower.
        """
        return max(clock, self.decided_at + 1)


class Leases:
    """The leases of one process; the reader thread takes and releases them, the committing thread reads them."""

    def __init__(self, service: OwnedService, owner_id: str) -> None:
        self.service = service
        self.owner_id = owner_id
        self._held: dict[int, Lease] = {}
        self._halted: set[int] = set()  # assigned to us, and stopped by a broken invariant
        self._lock = threading.Lock()

    def acquire(self, connection: OwnerConnection, partition: int) -> Lease | None:
        """Takes a partition, which fences every other owner of it. None when it is halted.

        The position is read in a second statement: the first may have waited for the previous owner's commit, which
        its own snapshot would not see.
        """
        topics = {"topic": self.service.commands_topic, "partition": partition}
        with connection.transaction():
            row = connection.execute(SQL["partition_acquire"], topics | {"owner_id": self.owner_id}).fetchone()
            newest = connection.execute(
                SQL["partition_position"], {"topic": self.service.events_topic, "partition": partition}
            ).fetchone()
        if row is None:
            raise RuntimeError("an upsert always returns a row")
        *place, leader_epoch, decided_at, signed_from, ahead = row
        epoch, next_offset, published_seq, halted, topic_id, offset_base = place
        if halted is not None:
            with self._lock:
                self._halted.add(partition)
            return None
        last_seq, occurred_at = newest or (0, 0)
        lease = Lease(
            partition=partition,
            epoch=epoch,
            next_offset=next_offset,
            last_seq=last_seq,
            published_seq=published_seq,
            state=self.service.open_partition(connection, partition),
            topic_id=topic_id,
            offset_base=offset_base,
            leader_epoch=leader_epoch,
            decided_at=max(decided_at, occurred_at),
            signed_from=signed_from,
            ahead=ahead_of(next_offset, ahead),
        )
        with self._lock:
            self._held[partition] = lease
        return lease

    def get(self, partition: int) -> Lease | None:
        """The lease of a partition; None when we do not own it."""
        return self._held.get(partition)

    def all(self) -> list[Lease]:
        """The leases held now."""
        with self._lock:
            return list(self._held.values())

    @property
    def halted(self) -> list[int]:
        """Our partitions that are halted until an operator clears them."""
        with self._lock:
            return sorted(self._halted)

    def forget(self, partition: int) -> Lease | None:
        """Forgets the lease: batches of this partition are dropped from now on."""
        with self._lock:
            self._halted.discard(partition)
            return self._held.pop(partition, None)

    def keep_topic(self, connection: OwnerConnection, lease: Lease, topic_id: str) -> None:
        """Stores the id of the topic to which the partition's offsets belong, unless one is stored."""
        if lease.topic_id is None:
            connection.execute(SQL["partition_keep_topic"], self._row(lease, 0) | {"topic_id": topic_id})
            lease.topic_id = topic_id

    def keep_signed_from(self, connection: OwnerConnection, lease: Lease, high: int) -> None:
        """Stores the end of the unsigned records: what lay in the topic when a release that signs first owned it."""
        if lease.signed_from is None:
            lease.signed_from = high + lease.offset_base
            connection.execute(
                SQL["partition_keep_signed_from"], self._row(lease, 0) | {"signed_from": lease.signed_from}
            )

    def release(self, connection: OwnerConnection, lease: Lease, published_seq: int) -> None:
        """Stores that nobody owns the partition, and the position up to which events are surely published."""
        connection.execute(SQL["partition_release"], self._row(lease, published_seq))

    def halt(self, connection: OwnerConnection, lease: Lease, error: InvariantViolation) -> None:
        """Stops a partition for every owner until an operator clears it; nothing of the failed batch is kept."""
        INVARIANT_VIOLATED.inc()
        log.critical("partition_halted", partition=lease.partition, code=error.code, context=error.context)
        with self._lock:
            self._held.pop(lease.partition, None)
            self._halted.add(lease.partition)
        reason = f"{error.code}: {error.public} {error.context or ''}".strip()
        place = {"topic": self.service.commands_topic, "partition": lease.partition, "epoch": lease.epoch}
        connection.execute(SQL["partition_halt"], place | {"reason": reason})

    def cleared(self, connection: OwnerConnection) -> list[int]:
        """Our halted partitions that an operator has cleared."""
        parameters = {"topic": self.service.commands_topic, "partitions": self.halted}
        return [row[0] for row in connection.execute(SQL["partitions_cleared"], parameters).fetchall()]

    def mark(self, connection: OwnerConnection, lease: Lease, published_seq: int) -> None:
        """Stores the position up to which a partition's events are published."""
        connection.execute(SQL["partition_mark"], self._row(lease, published_seq))
        lease.published_seq = max(lease.published_seq, published_seq)

    def _row(self, lease: Lease, published_seq: int) -> dict[str, object]:
        return {
            "topic": self.service.commands_topic,
            "partition": lease.partition,
            "epoch": lease.epoch,
            "published_seq": published_seq,
        }
