"""Reads commands: one consumer over all assigned partitions, decoding the next batch while Postgres works on this one.

Kafka assigns partitions to group members; on assignment the reader takes the lease, has unpublished events sent again
and starts at the offset that Postgres holds. On revocation it waits for the batch in work, then gives the lease back.
Measured: ``poll(t)`` then ``consume(n - 1, 0)`` answers in 1.3 ms where ``consume(n, t)`` takes 12.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict, deque
from typing import Final

import psycopg
import structlog
from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Message, TopicPartition

from dataflows.owner.batch import PartitionBatch, Record
from dataflows.owner.fold import envelope_fault
from dataflows.owner.leases import Lease, Leases
from dataflows.owner.publisher import Publisher
from schemas import codec, limits
from schemas.errors import Corrupt, UndecodableRecord
from sinks.kafka.connection import KafkaConnection
from sinks.postgres.owner_connection import OwnerConnection

_POLL_S: Final = limits.BATCH_POLL_TIMEOUT_MS / 1_000
_IDLE_S: Final = limits.OWNER_IDLE_WAIT_MS / 1_000
log = structlog.get_logger()


class Reader:
    """The reading half of an owner process: a thread that fills a bounded queue of decoded batches."""

    def __init__(
        self,
        kafka: KafkaConnection,
        connection: OwnerConnection,
        leases: Leases,
        publisher: Publisher,
        group: str,
    ) -> None:
        self._connection = connection
        self._leases = leases
        self._publisher = publisher
        self._topic = kafka.topic(leases.service.commands_topic)
        self._stopping = threading.Event()
        lock = threading.Lock()  # guards the three below
        self._offered = threading.Condition(lock)  # lanes wait here: one more batch is worth one of them
        self._changed = threading.Condition(lock)  # for room, and for a partition to be idle
        self._ready: deque[PartitionBatch] = deque()  # decoded, in the order of reading
        self._taken: set[int] = set()  # partitions of which a lane has a batch in work
        self._in_work: Counter[int] = Counter()  # batches ready or taken, per partition
        self._clearing_due = 0.0
        self._positions: dict[int, int] = {}  # assigned partition -> the offset after the last one read
        self._assignments = 0  # grows with every change of what is assigned
        self.joined = False  # true from the first assignment, also an empty one, until the group has thrown us out
        self._join_by = 0.0
        self.failure: Exception | None = None
        self._consumer = Consumer(
            kafka.consumer(
                leases.owner_id,
                group,
                **{
                    "partition.assignment.strategy": "cooperative-sticky",
                    "session.timeout.ms": limits.OWNER_SESSION_TIMEOUT_MS,
                    "heartbeat.interval.ms": limits.OWNER_HEARTBEAT_MS,
                },
            )
        )
        self._thread = threading.Thread(target=self._run, name="owner-reader", daemon=True)

    def start(self) -> None:
        """Joins the group and begins to read."""
        self._expect_to_join()
        self._consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        self._thread.start()

    def next_batch(self, timeout_s: float) -> PartitionBatch | None:
        """The oldest batch of a partition that no lane has in work, None when none came in time.

        Until ``done`` nobody gets another batch of that partition. Raises what the reading thread died of.
        """
        if self.failure is not None:
            raise self.failure
        with self._offered:
            batch = self._oldest_free()
            if batch is None and self._offered.wait(timeout_s):
                batch = self._oldest_free()
            return batch

    def _oldest_free(self) -> PartitionBatch | None:
        for place, batch in enumerate(self._ready):
            if batch.partition not in self._taken:
                del self._ready[place]
                self._taken.add(batch.partition)
                self._changed.notify_all()
                return batch
        return None

    def done(self, partition: int) -> None:
        """The batch that was taken is committed and published, or dropped; a lane or a revocation may wait for that."""
        with self._changed:
            self._taken.discard(partition)
            self._in_work[partition] -= 1
            if self._ready:  # it may be of this partition
                self._offered.notify()
            self._changed.notify_all()

    def in_work(self, partition: int) -> bool:
        """True while a lane has a batch of the partition."""
        return partition in self._taken

    def stop_reading(self) -> None:
        """Reads no further; what was read is still handed out."""
        self._stopping.set()

    @property
    def drained(self) -> bool:
        """True when reading has ended and everything read was taken. Raises what the reading thread died of."""
        if self.failure is not None:
            raise self.failure
        return self._stopping.is_set() and not self._thread.is_alive() and not self._ready

    def close(self) -> None:
        """Leaves the group; its other members get the partitions at once."""
        self._stopping.set()
        while self._thread.is_alive():  # it may be waiting for room in the queue
            self._discard_queued()
            self._thread.join(_POLL_S)
        self._discard_queued()
        self._consumer.close()

    def _discard_queued(self) -> None:
        with self._changed:
            for batch in self._ready:
                self._in_work[batch.partition] -= 1
            self._ready.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._check_joined()
                self._resume_cleared()
                if self._publisher.backlog() > limits.PUBLISH_BACKLOG_MAX:
                    self._stopping.wait(_POLL_S)
                    continue
                for batch in self._read():
                    self._put(batch)
        except Exception as error:  # noqa: BLE001 - handed to the committing thread, which raises it
            self.failure = error
            self._stopping.set()

    def _expect_to_join(self) -> None:
        self.joined = False
        self._join_by = time.monotonic() + limits.OWNER_JOIN_TIMEOUT_S

    def _check_joined(self) -> None:
        """A consumer that does not get into its group serves nobody and says nothing: a new one is made."""
        if not self.joined and time.monotonic() > self._join_by:
            waited = f"Not in the consumer group for {limits.OWNER_JOIN_TIMEOUT_S:.0f} s."
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, waited))  # noqa: SLF001 - the library's name for it

    def _put(self, batch: PartitionBatch) -> None:
        if self._leases.get(batch.partition) is None:
            return
        with self._changed:
            while len(self._ready) >= limits.BATCHES_AHEAD_MAX and not self._stopping.is_set():
                self._changed.wait(_POLL_S)
            if not self._stopping.is_set():
                self._in_work[batch.partition] += 1
                self._ready.append(batch)
                self._offered.notify()

    def _read(self) -> list[PartitionBatch]:
        assignments = self._assignments
        first = self._consumer.poll(_IDLE_S)
        if first is None:
            return []
        messages = [first, *self._consumer.consume(limits.BATCH_MESSAGES_MAX - 1, 0)]
        if self._assignments != assignments:  # some may be of an assignment that ended: read them again
            self._rewind({_number(message.partition()) for message in messages})
            return []
        by_partition: dict[int, list[Record]] = defaultdict(list)
        batches = []
        size: Counter[int] = Counter()
        for message in messages:
            record = _record(message)
            partition = _number(message.partition())
            if size[partition] and size[partition] + len(record.value) > limits.BATCH_BYTES_MAX:
                batches.append(self._batch(partition, by_partition.pop(partition)))
                size[partition] = 0
            by_partition[partition].append(record)
            size[partition] += len(record.value)
        return batches + [self._batch(p, records) for p, records in by_partition.items()]

    def _batch(self, partition: int, records: list[Record]) -> PartitionBatch:
        follows = self._positions.get(partition, records[0].offset)
        self._positions[partition] = records[-1].offset + 1
        return PartitionBatch(partition, records, follows)

    def _rewind(self, partitions: set[int]) -> None:
        for partition in partitions & self._positions.keys():
            self._consumer.seek(TopicPartition(self._topic, partition, self._positions[partition]))

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.joined = True
        self._assignments += 1
        places = []
        for place in partitions:
            lease = self._acquire(place.partition)
            places.append(TopicPartition(self._topic, place.partition, lease.next_offset if lease else OFFSET_END))
        consumer.incremental_assign(places)

    def _acquire(self, partition: int) -> Lease | None:
        lease = self._leases.acquire(self._connection, partition)
        if lease is None:
            log.critical("partition_halted", partition=partition)
            return None
        self._publisher.resume(self._connection, lease)
        self._positions[partition] = lease.next_offset
        log.info("partition_acquired", partition=partition, epoch=lease.epoch, offset=lease.next_offset)
        return lease

    def _resume_cleared(self) -> None:
        """Goes on with halted partitions that an operator has cleared."""
        if not self._leases.halted or time.monotonic() < self._clearing_due:
            return
        self._clearing_due = time.monotonic() + limits.HALTED_POLL_INTERVAL_S
        for partition in self._leases.cleared(self._connection):
            self._leases.forget(partition)
            if lease := self._acquire(partition):
                self._consumer.seek(TopicPartition(self._topic, partition, lease.next_offset))

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """A drain: the batch in work commits, its events are acknowledged, then the lease is free."""
        self._unassigned(partitions)
        self._wait_until_idle({p.partition for p in partitions})
        leases = [lease for p in partitions if (lease := self._leases.forget(p.partition))]
        if leases:
            self._publisher.drain(limits.PUBLISH_DRAIN_TIMEOUT_S)
        for lease in leases:
            self._give_back(lease)
        consumer.incremental_unassign(partitions)

    def _give_back(self, lease: Lease) -> None:
        published = self._publisher.published_seq(lease.partition)
        self._publisher.forget(lease.partition)
        try:
            self._leases.release(self._connection, lease, published)
        except psycopg.Error as error:  # the next owner bumps the epoch anyway; it only repeats some events
            log.warning("partition_not_released", partition=lease.partition, error=str(error).strip())
        else:
            log.info("partition_released", partition=lease.partition, epoch=lease.epoch)

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Somebody else has them already: nothing to give back, batches in work will be fenced."""
        self._expect_to_join()
        self._unassigned(partitions)
        for place in partitions:
            self._leases.forget(place.partition)
            self._publisher.forget(place.partition)
        log.warning("partitions_lost", partitions=[p.partition for p in partitions])
        consumer.incremental_unassign(partitions)

    def _unassigned(self, partitions: list[TopicPartition]) -> None:
        self._assignments += 1
        for place in partitions:
            self._positions.pop(place.partition, None)

    def _wait_until_idle(self, partitions: set[int]) -> None:
        deadline = time.monotonic() + limits.OWNER_DRAIN_TIMEOUT_S
        with self._changed:
            while any(self._in_work[p] > 0 for p in partitions) and time.monotonic() < deadline:
                self._changed.wait(_POLL_S)


def _record(message: Message) -> Record:
    """A message as a record; raises KafkaException for an error event, never for the content."""
    if message.error():
        raise KafkaException(message.error())
    value = message.value() or b""
    record = Record(_number(message.offset()), value)
    try:
        command = codec.decode_command(value)
    except Corrupt as fault:
        record.fault = fault
        return record
    if reason := envelope_fault(command):
        record.fault = UndecodableRecord(f"The envelope cannot be kept: {reason}.")
    else:
        record.command = command
    return record


def _number(place: int | None) -> int:
    """A partition or offset; every message that came from a broker has one."""
    if place is None:
        raise ValueError("a consumed message has a place")
    return place
