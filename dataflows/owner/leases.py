"""Which partitions this process owns: taken and given back in Postgres, where the epoch decides who may write.

Rule: one owner. Kafka's assignment says who should own a partition; a lease here says who may. A second owner of the
same partition bumps the epoch, and the first one's next claim matches no row.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

from dataflows.owner.service import OwnedService, PartitionState
from sinks.postgres.owner_connection import OwnerConnection
from sinks.postgres.sql_files import queries

SQL: Final = queries("sinks.postgres.queries", "owner.sql")


@dataclass(slots=True)
class Lease:
    """One owned partition. ``last_seq`` and ``state`` move only after a commit."""

    partition: int
    epoch: int
    next_offset: int
    last_seq: int  # of the newest committed event
    published_seq: int  # as stored
    state: PartitionState


class Leases:
    """The leases of one process; the reader thread takes and releases them, the committing thread reads them."""

    def __init__(self, service: OwnedService, owner_id: str) -> None:
        self.service = service
        self.owner_id = owner_id
        self._held: dict[int, Lease] = {}
        self.halted: set[int] = set()  # assigned to us, and stopped by a broken invariant
        self._lock = threading.Lock()

    def acquire(self, connection: OwnerConnection, partition: int) -> Lease | None:
        """Takes a partition: from here on every other owner of it is fenced. None when it is halted.

        The position is read in a second statement: the first one may have waited for a commit of the owner before
        us, and its own snapshot would not see that commit.
        """
        topics = {"topic": self.service.commands_topic, "partition": partition}
        with connection.transaction():
            row = connection.execute(SQL["partition_acquire"], topics | {"owner_id": self.owner_id}).fetchone()
            position = connection.execute(
                SQL["partition_position"], {"topic": self.service.events_topic, "partition": partition}
            ).fetchone()
        if row is None or position is None:
            raise RuntimeError("an upsert and an aggregate always return a row")
        if row[3] is not None:
            self.halted.add(partition)
            return None
        state = self.service.open_partition(connection, partition)
        lease = Lease(partition, row[0], row[1], position[0], row[2], state)
        with self._lock:
            self._held[partition] = lease
        return lease

    def get(self, partition: int) -> Lease | None:
        """The lease of a partition, None when it is not ours (any more)."""
        return self._held.get(partition)

    def all(self) -> list[Lease]:
        """The leases held now."""
        with self._lock:
            return list(self._held.values())

    def forget(self, partition: int) -> Lease | None:
        """From here on batches of this partition are dropped."""
        self.halted.discard(partition)
        with self._lock:
            return self._held.pop(partition, None)

    def release(self, connection: OwnerConnection, lease: Lease, published_seq: int) -> None:
        """Says in the database that nobody owns the partition, with the position that is surely published."""
        connection.execute(SQL["partition_release"], self._row(lease, published_seq))

    def halt(self, connection: OwnerConnection, lease: Lease, reason: str) -> None:
        """Stops a partition for every owner until an operator clears it; nothing of the failed batch is kept."""
        self.forget(lease.partition)
        self.halted.add(lease.partition)
        place = {"topic": self.service.commands_topic, "partition": lease.partition, "epoch": lease.epoch}
        connection.execute(SQL["partition_halt"], place | {"reason": reason})

    def cleared(self, connection: OwnerConnection) -> list[int]:
        """Halted partitions of ours that an operator has let go on."""
        if not self.halted:
            return []
        parameters = {"topic": self.service.commands_topic, "partitions": sorted(self.halted)}
        return [row[0] for row in connection.execute(SQL["partitions_cleared"], parameters).fetchall()]

    def mark(self, connection: OwnerConnection, lease: Lease, published_seq: int) -> None:
        """Stores how far the events of a partition are published."""
        connection.execute(SQL["partition_mark"], self._row(lease, published_seq))
        lease.published_seq = max(lease.published_seq, published_seq)

    def _row(self, lease: Lease, published_seq: int) -> dict[str, object]:
        return {
            "topic": self.service.commands_topic,
            "partition": lease.partition,
            "epoch": lease.epoch,
            "published_seq": published_seq,
        }
