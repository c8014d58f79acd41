"""Reads the event stream of Kafka, each event exactly once and in order.

Events are published again after a crash, so a consumer takes exactly seq == last + 1 and drops everything else: a
lower one is a repetition, a higher one is a gap that the owner fills by publishing from the gap on.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.cimpl import KafkaException

from schemas import codec, errors, limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from schemas.records import Event
    from sinks.kafka.connection import KafkaConnection


#: a position given by offset or time alone: the first event found there is taken, whatever its seq
UNKNOWN_SEQ: Final = -1


@dataclass(slots=True)
class Position:
    """How far one partition was read: the next Kafka offset, and the seq of the last event taken."""

    next_offset: int = 0
    last_seq: int = 0


@dataclass(frozen=True, slots=True)
class Accepted:
    """One event taken from the stream, with its place and its bytes."""

    partition: int
    offset: int
    value: bytes
    event: Event


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that is no event of ours; reported once and passed over, for it carries no seq."""

    partition: int
    offset: int
    reason: str


class Intake:
    """Decides which records of a stream are taken, by seq; no I/O."""

    def __init__(self) -> None:
        self.positions: dict[int, Position] = {}
        self.unreadable: list[Unreadable] = []
        #: per partition the seq seen past a gap, while the owner has not filled it
        self.gaps: dict[int, int] = {}

    def begin(self, positions: Mapping[int, Position]) -> None:
        """Goes on from these positions."""
        self.positions = {p: Position(at.next_offset, at.last_seq) for p, at in positions.items()}
        self.gaps.clear()

    def take(self, partition: int, offset: int, value: bytes) -> Accepted | None:
        """The event of this record when it is the next one of its partition, otherwise None."""
        position = self.positions[partition]
        position.next_offset = offset + 1
        try:
            event = codec.decode_event(value)
        except errors.Corrupt as error:
            self.unreadable.append(Unreadable(partition, offset, error.public))
            return None
        if event.seq != position.last_seq + 1 and position.last_seq != UNKNOWN_SEQ:
            if event.seq > position.last_seq:
                self.gaps[partition] = event.seq
            return None
        position.last_seq = event.seq
        self.gaps.pop(partition, None)
        return Accepted(partition, offset, value, event)


class EventReader:
    """A consumer of one topic that keeps its own positions; one thread at a time may use it."""

    def __init__(self, kafka: KafkaConnection, *, topic: str, client_id: str, group: str) -> None:
        self._topic = kafka.topic(topic)
        self.intake = Intake()
        self._consumer = Consumer(
            kafka.consumer(
                client_id,
                group,
                **{  # a fetch for every single event would cost the broker more than all other readers together
                    "fetch.min.bytes": limits.SINK_FETCH_BYTES_MIN,
                    "fetch.wait.max.ms": limits.SINK_BLOCK_INTERVAL_MS,
                },
            )
        )

    @property
    def positions(self) -> dict[int, Position]:
        """How far every assigned partition was read."""
        return self.intake.positions

    def close(self) -> None:
        """Leaves Kafka."""
        self._consumer.close()

    def assign(self, positions: Mapping[int, Position]) -> None:
        """Reads these partitions from these positions on, and no other."""
        self.intake.begin(positions)
        self._consumer.assign([TopicPartition(self._topic, p, at.next_offset) for p, at in positions.items()])

    def ends(self, partitions: Iterable[int]) -> dict[int, int]:
        """The offset after the last record of each partition. Raises errors.Unavailable."""
        try:
            return {p: self._end(p) for p in partitions}
        except KafkaException as error:
            raise errors.Unavailable(f"Kafka does not answer: {error.args[0].str()}") from error

    def offsets_at(self, partitions: range, time_ms: int) -> dict[int, int]:
        """The first offset at or after a time (milliseconds since the epoch), or the end. Raises errors.Unavailable."""
        wanted = [TopicPartition(self._topic, p, time_ms) for p in partitions]
        try:
            found = self._consumer.offsets_for_times(wanted, timeout=limits.KAFKA_ADMIN_TIMEOUT_S)
        except KafkaException as error:
            raise errors.Unavailable(f"Kafka does not answer: {error.args[0].str()}") from error
        ends = self.ends(partitions)
        return {at.partition: at.offset if at.offset >= 0 else ends[at.partition] for at in found}

    def read(self, messages_max: int, timeout_s: float) -> list[Accepted]:
        """The next events, at most as many as asked for. Raises errors.Unavailable when Kafka is out for good."""
        accepted = []
        for message in self._consumer.consume(messages_max, timeout_s):
            if error := message.error():
                _judge(error)
                continue
            partition, offset = message.partition(), message.offset()
            if partition is None or offset is None:  # only a message that was never sent has no place
                continue
            taken = self.intake.take(partition, offset, message.value() or b"")
            if taken is not None:
                accepted.append(taken)
        return accepted

    def _end(self, partition: int) -> int:
        where = TopicPartition(self._topic, partition)
        marks = self._consumer.get_watermark_offsets(where, timeout=limits.KAFKA_ADMIN_TIMEOUT_S)
        if marks is None:
            raise errors.Unavailable("Kafka does not answer: no watermarks in time")
        return int(marks[1])


def read_until(reader: EventReader, last_seqs: Mapping[int, int], timeout_s: float) -> Iterator[list[Accepted]]:
    """Reads the assigned partitions up to and including these seqs, in lists of events; the next reading goes on there.

    Raises errors.Unavailable when nothing new came for ``timeout_s`` before the end was reached.
    """
    reached = {p: Position(at.next_offset, at.last_seq) for p, at in reader.positions.items()}
    waiting = {p for p, at in reached.items() if at.last_seq < last_seqs[p]}
    deadline = time.monotonic() + timeout_s
    while waiting:
        events = [
            taken
            for taken in reader.read(limits.SINK_READ_MESSAGES_MAX, limits.SINK_READ_TIMEOUT_MS / 1_000)
            if taken.event.seq <= last_seqs[taken.partition]
        ]
        for taken in events:
            reached[taken.partition] = Position(taken.offset + 1, taken.event.seq)
        if events:
            deadline = time.monotonic() + timeout_s
            yield events
        waiting = {p for p in waiting if reader.positions[p].last_seq < last_seqs[p]}
        if waiting and time.monotonic() > deadline:
            missing = {p: (reached[p].last_seq + 1, last_seqs[p]) for p in sorted(waiting)}
            raise errors.Unavailable(f"Kafka lacks events {missing} (partition: first and last seq)", missing=missing)
    reader.assign(reached)  # what was read past the end comes again


def _judge(error: KafkaError) -> None:
    """Passes over what the client library mends by itself; the rest is an outage."""
    if error.fatal() or error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED):
        raise errors.Unavailable(f"Kafka: {error.str()}")
