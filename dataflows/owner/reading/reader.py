"""Reads commands: one consumer over all assigned partitions, decoding the next batch while Postgres works on this one.

Kafka assigns partitions to group members. The reader takes them (``takes.py``), starts at the offset that Postgres
holds, and hands on every offset from there once and without a gap (``positions.py``); where it cannot, the partition
halts.
On revocation it waits for the batch in work, then gives the lease back.
Measured: ``poll(t)`` then ``consume(n - 1, 0)`` answers in 1.3 ms where ``consume(n, t)`` takes 12.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, defaultdict
from typing import Final

import psycopg
import structlog
from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Message, TopicPartition

from dataflows import limits as dataflows_limits
from dataflows.owner.batch import PartitionBatch, Record
from dataflows.owner.partition.leases import Lease, Leases
from dataflows.owner.partition.next_offset import OUT_OF_RANGE
from dataflows.owner.publisher import Publisher
from dataflows.owner.reading.positions import Positions
from dataflows.owner.reading.rounds import Rounds
from dataflows.owner.reading.takes import Takes
from dataflows.owner.senders import Senders
from schemas import limits
from sinks import limits as sinks_limits
from sinks.kafka.connection import KafkaConnection
from sinks.kafka.topic_offsets import TopicOffsets
from sinks.kafka.unreadable import UnreadableBatches, begins_unreadable
from sinks.postgres.owner_connection import OwnerConnection
from sinks.streams.newest_events import NewestEvents

_POLL_S: Final = dataflows_limits.BATCH_POLL_TIMEOUT_MS / 1_000
_IDLE_S: Final = dataflows_limits.OWNER_IDLE_WAIT_MS / 1_000
_GAP_OF_FEW_S: Final = dataflows_limits.OWNER_READ_GAP_OF_FEW_MS / 1_000
log = structlog.get_logger()


class Reader:
    """The reading half of an owner process: a thread that decodes batches ahead of the lanes (``rounds``)."""

    def __init__(
        self,
        kafka: KafkaConnection,
        connection: OwnerConnection,
        leases: Leases,
        publisher: Publisher,
        group: str,
        senders: Senders,
        stop: threading.Event,
    ) -> None:
        """``stop``: the owner is to drain; heard within one poll, and told to all lanes."""
        self._stop = stop
        self._connection = connection
        self._leases = leases
        self._publisher = publisher
        self._topic = kafka.topic(leases.service.commands_topic)
        self._senders = senders
        events = NewestEvents(kafka, leases.service.events_topic, leases.owner_id, group)
        commands = TopicOffsets(kafka, leases.service.commands_topic)
        self._takes = Takes(connection, leases, publisher, commands, events)
        self._stopping = threading.Event()
        takes_turns = leases.service.takes_turns
        self.rounds = Rounds(self._stopping, takes_turns=takes_turns)
        gap_ms = dataflows_limits.TURNS_READ_GAP_MS if takes_turns else dataflows_limits.OWNER_READ_GAP_MS
        self._gap_s: Final = gap_ms / 1_000
        self._few: Final = 0 if takes_turns else dataflows_limits.READ_FEW
        self._positions = Positions(leases, senders)
        self._read_at_s = -math.inf  # when commands were last read, and how many
        self._found = 0
        self._assignments = 0  # grows with every change of what is assigned
        self.joined = False  # from the first assignment, also an empty one, until the group excludes us
        self._join_by = 0.0
        self.failure: Exception | None = None
        self._left_with: Exception | None = None
        self._consumer = Consumer(
            kafka.consumer(
                leases.owner_id,
                group,
                **{
                    "partition.assignment.strategy": "cooperative-sticky",
                    "auto.offset.reset": "error",
                    "session.timeout.ms": sinks_limits.OWNER_SESSION_TIMEOUT_MS,
                    "heartbeat.interval.ms": sinks_limits.OWNER_HEARTBEAT_MS,
                },
            )
        )
        self._unreadable = UnreadableBatches(kafka, self._topic, leases.owner_id)
        self._thread = threading.Thread(target=self._run, name="owner-reader", daemon=True)

    def start(self) -> None:
        """Joins the group and begins to read."""
        self._expect_to_join()
        self._consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        self._thread.start()

    def next_round(self, timeout_s: float) -> list[PartitionBatch]:
        """As ``Rounds.next``. Raises what the reading thread died of."""
        if self.failure is not None:
            raise self.failure
        return self.rounds.next(timeout_s)

    def stop_reading(self) -> None:
        """Stops reading; what was read is still handed out, and lanes that rest hear of it."""
        if not self._stopping.is_set():
            self._stopping.set()
            self.rounds.wake()

    @property
    def drained(self) -> bool:
        """Whether reading has ended and all was taken. Raises the error that ended the reading thread."""
        if self.failure is not None:
            raise self.failure
        return self._stopping.is_set() and not self._thread.is_alive() and self.rounds.is_empty

    def close(self) -> None:
        """Leaves the group; its other members get the partitions at once.

        While the group settles, or Kafka says nothing, that takes longer than anybody waits for: the broker holds back
        what a member says until it has answered what the member said before. Whoever is gone is excluded soon.
        """
        self._stopping.set()
        while self._thread.is_alive():  # it may be waiting for room in the queue
            self.rounds.discard()
            self._thread.join(_POLL_S)
        self.rounds.discard()
        leaving = threading.Thread(target=self._leave, name="owner-leaves", daemon=True)
        leaving.start()
        leaving.join(dataflows_limits.OWNER_LEAVE_TIMEOUT_S)
        if leaving.is_alive():
            log.warning("group_not_left", partitions=sorted(lease.partition for lease in self._leases.all()))
        elif self._left_with is not None:
            raise self._left_with

    def _leave(self) -> None:
        try:
            self._consumer.close()
        except Exception as error:  # noqa: BLE001 - handed to the closing thread, which raises it
            self._left_with = error

    def _run(self) -> None:
        try:
            while not (self._stopping.is_set() or self._stop.is_set()):
                self._check_joined()
                self._publisher.serve()
                self._senders.look()
                self._read_again()
                self._watch()
                self._halt_faulty()
                if self._publisher.backlog() > dataflows_limits.PUBLISH_BACKLOG_MAX:
                    self._stopping.wait(_POLL_S)
                    continue
                found = [batch for batch in self._read() if self._leases.get(batch.partition) is not None]
                if found:
                    self.rounds.put(found)
        except Exception as error:  # noqa: BLE001 - handed to the committing thread, which raises it
            self.failure = error
        finally:
            self.stop_reading()

    def _expect_to_join(self) -> None:
        self.joined = False
        self._join_by = time.monotonic() + dataflows_limits.OWNER_JOIN_TIMEOUT_S

    def _check_joined(self) -> None:
        """Raises if the consumer got no assignment in time: it says nothing by itself, so a new one is made."""
        if not self.joined and time.monotonic() > self._join_by:
            waited = f"Not in the consumer group for {dataflows_limits.OWNER_JOIN_TIMEOUT_S:.0f} s."
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, waited))  # noqa: SLF001 - the library's name for it

    def _gathered(self, first: Message) -> list[Message]:
        """A message with what comes behind it until the reads are far enough apart.

        Few commands wait longer for others, but not where a command was read alone: then hardly anybody sends any.
        """
        most = dataflows_limits.BATCH_MESSAGES_MAX
        messages = [first, *self._consumer.consume(most - 1, self._left_s(self._gap_s))]
        missing = min(self._few, most) - len(messages)
        if self._found > 1 and missing > 0:
            messages += self._consumer.consume(missing, self._left_s(_GAP_OF_FEW_S))
        self._read_at_s, self._found = time.monotonic(), len(messages)
        return messages

    def _left_s(self, gap_s: float) -> float:
        return max(0.0, self._read_at_s + gap_s - time.monotonic())

    def _read(self) -> list[PartitionBatch]:
        assignments = self._assignments
        first = self._consumer.poll(_IDLE_S)
        if first is None:
            return []
        messages = self._gathered(first)
        if self._assignments != assignments:  # some may belong to an assignment that ended: read them again
            self._rewind({_number(message.partition()) for message in messages})
            return []
        by_partition: dict[int, list[Record]] = defaultdict(list)
        batches = []
        size: Counter[int] = Counter()
        for message in messages:
            if begins_unreadable(message):
                partition = _number(message.partition())
                by_partition[partition] += self._refused_unread(partition, _number(message.offset()))
                continue
            if error := message.error():
                self._told(error, message.partition())
                continue
            partition = _number(message.partition())
            record = self._positions.next_record(message, partition, _number(message.offset()))
            if record is None:
                continue
            if size[partition] and size[partition] + len(record.value) > dataflows_limits.BATCH_BYTES_MAX:
                batches.append(self._batch(partition, by_partition.pop(partition), size.pop(partition)))
            by_partition[partition].append(record)
            size[partition] += len(record.value)
        batches += [
            self._batch(partition, found, size[partition]) for partition, found in by_partition.items() if found
        ]
        return batches

    def _batch(self, partition: int, records: list[Record], size: int) -> PartitionBatch:
        return PartitionBatch(partition, records, self._positions.epoch(partition), size)

    def _refused_unread(self, partition: int, begins: int) -> list[Record]:
        """Records that nobody can decompress, some at a time; reading goes on behind them."""
        if not self._positions.may_read(partition):
            return []
        end = self._unreadable.end_of(partition, begins)
        passed = self._positions.pass_over(partition, end, "batch_unreadable")
        self._rewind({partition})
        return passed

    def _told(self, error: KafkaError, partition: int | None) -> None:
        """Handles an error that came in place of a message. Raises KafkaException if a new start may mend it."""
        if error.code() not in OUT_OF_RANGE or partition is None:
            raise KafkaException(error)
        if place := self._positions.place(partition):
            self._positions.found(partition, self._takes.watch.why_out_of_range(partition, place, error.str()))

    def _watch(self) -> None:
        for partition, fault in self._takes.watch.look(self._positions.places()).items():
            self._positions.found(partition, fault)

    def _halt_faulty(self) -> None:
        """Halts partitions that cannot be read on, once all that was read of them is decided."""
        for lease, fault in self._positions.faulty():
            self._takes.halt(lease, fault)

    def _rewind(self, partitions: set[int]) -> None:
        """Kafka goes on where these were read to."""
        for partition, offset in self._positions.offsets(partitions).items():
            self._consumer.seek(TopicPartition(self._topic, partition, offset))

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.joined = True
        self._assignments += 1
        places = self._places(self._positions.begin(self._takes.take([p.partition for p in partitions])))
        # Nothing is read of a partition that stands still, though it is assigned.
        read = {place.partition for place in places}
        still = [TopicPartition(self._topic, p.partition, OFFSET_END) for p in partitions if p.partition not in read]
        consumer.incremental_assign([*places, *still])
        self.rounds.wake()  # some of their events may have been published again

    def _places(self, offsets: dict[int, int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, partition, offset) for partition, offset in offsets.items()]

    def _read_again(self) -> None:
        """Resumes partitions that stood still. After "out of range" a consumer cannot seek, so it is reassigned."""
        places = self._places(self._positions.begin(self._takes.again(busy=self.rounds.taken)))
        if places:
            self._consumer.incremental_unassign(places)
            self._consumer.incremental_assign(places)
            self.rounds.wake()

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Drains: waits until the batch in work commits and its events are acknowledged, then frees the lease."""
        self._unassigned(partitions)
        self.rounds.wait_until_idle({p.partition for p in partitions})
        leases = [lease for p in partitions if (lease := self._takes.drop(p.partition))]
        if leases:
            self._publisher.drain(limits.PUBLISH_DRAIN_TIMEOUT_S)
        for lease in leases:
            self._give_back(lease)
        for place in partitions:
            self._publisher.forget(place.partition)
        consumer.incremental_unassign(partitions)

    def _give_back(self, lease: Lease) -> None:
        published = self._publisher.published_seq(lease.partition)
        try:
            self._leases.release(self._connection, lease, published)
        except psycopg.Error as error:  # the next owner raises the epoch anyway and only repeats some events
            log.warning("partition_not_released", partition=lease.partition, error=str(error).strip())
        else:
            log.info("partition_released", partition=lease.partition, epoch=lease.epoch)

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Drops partitions that another owner already has: batches in work will be fenced."""
        self._expect_to_join()
        self._unassigned(partitions)
        for place in partitions:
            self._takes.drop(place.partition)
            self._publisher.forget(place.partition)
        log.warning("partitions_lost", partitions=[p.partition for p in partitions])
        consumer.incremental_unassign(partitions)

    def _unassigned(self, partitions: list[TopicPartition]) -> None:
        self._assignments += 1
        self._positions.drop(place.partition for place in partitions)


def _number(place: int | None) -> int:
    """The partition or offset, which every message from a broker has."""
    if place is None:
        raise ValueError("a consumed message has a place")
    return place
