"""Takes partitions: gets the lease, compares it with the topics in Kafka, and publishes what was not published.

A partition that may not be read stands still, and the others go on. If Kafka does not hold what comes next, or was told
more than the database has, it is halted until an operator clears it. If Kafka refused an event, it waits a moment, and
its events are published again.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterable
from typing import Final

import structlog

from dataflows import limits
from dataflows.owner.partition.leases import Lease, Leases
from dataflows.owner.partition.next_offset import place_fault, told_fault
from dataflows.owner.partition.topic_watch import TopicWatch
from dataflows.owner.publisher import Publisher
from schemas.errors import InvariantViolation
from sinks.kafka.topic_offsets import TopicOffsets
from sinks.postgres.owner_connection import OwnerConnection
from sinks.streams.newest_events import NewestEvents

log: Final = structlog.get_logger()


class Takes:
    """Takes and halts the partitions that Kafka assigns; the reading thread uses it."""

    def __init__(
        self,
        connection: OwnerConnection,
        leases: Leases,
        publisher: Publisher,
        command_topic: TopicOffsets,
        events: NewestEvents,
    ) -> None:
        self._connection = connection
        self._leases = leases
        self._publisher = publisher
        self._topic = command_topic
        self._events = events
        self._clearing_due = 0.0
        self._refused: dict[int, float] = {}  # a partition that stands still -> when it is taken again
        self.watch: Final = TopicWatch(command_topic)

    def take(self, partitions: Iterable[int]) -> dict[int, Lease]:
        """The leases of the partitions that may be read. Raises KafkaException if Kafka does not answer."""
        leases = [lease for p in partitions if (lease := self._acquire(p)) is not None]
        if not leases:
            return {}
        partitions = [lease.partition for lease in leases]
        held, told = self._topic.ask(partitions).answer(), self._events.seqs(partitions)
        taken = {}
        for lease in leases:
            found = held[lease.partition]
            fault = told_fault(lease.last_seq, told.get(lease.partition)) or place_fault(lease.place, found)
            if fault is not None:
                self.halt(lease, fault)
                continue
            lease.has_witness = lease.leader_epoch is not None and lease.place.offset > found.low
            self._leases.keep_topic(self._connection, lease, found.topic_id)
            self._leases.keep_signed_from(self._connection, lease, found.high)
            self._publisher.resume(self._connection, lease)
            log.info("partition_acquired", partition=lease.partition, epoch=lease.epoch, offset=lease.next_offset)
            taken[lease.partition] = lease
        return taken

    def _acquire(self, partition: int) -> Lease | None:
        lease = self._leases.acquire(self._connection, partition)
        if lease is None:
            log.critical("partition_stays_halted", partition=partition)
        return lease

    def halt(self, lease: Lease, error: InvariantViolation) -> None:
        """Halts this partition: nobody reads on in it until an operator clears it."""
        self._leases.halt(self._connection, lease, error)
        self._publisher.forget(lease.partition)

    def again(self, busy: Container[int]) -> dict[int, Lease]:
        """Takes again partitions that stood still and may go on, unless a lane still works on them."""
        now = time.monotonic()
        for partition, reason in self._publisher.refusals().items():
            if partition in self._refused:
                continue
            if self._leases.get(partition) is None:  # halted: all is published again when it goes on
                self._publisher.forget(partition)
                continue
            log.warning("partition_stands_still", partition=partition, refused=reason)
            self._leases.forget(partition)
            self._refused[partition] = now + limits.PUBLISH_AGAIN_INTERVAL_S
        due = [p for p, at in self._refused.items() if at <= now and p not in busy]
        if now >= self._clearing_due and self._leases.halted:
            self._clearing_due = now + limits.HALTED_POLL_INTERVAL_S
            due += self._leases.cleared(self._connection)
        for partition in due:
            self.drop(partition)
        return self.take(due)

    def drop(self, partition: int) -> Lease | None:
        """Drops a partition that we no longer own, or are about to take again."""
        self._refused.pop(partition, None)
        self.watch.forget(partition)
        return self._leases.forget(partition)
