"""Reads named partitions of a topic of events from given positions, each event once and in order; stores nothing.

For callers that keep positions in their own way, and for tools that read a topic once.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Literal

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.cimpl import KafkaException

from schemas import errors
from sinks import limits
from sinks.kafka.reading import gathering, next_messages
from sinks.kafka.topic_offsets import Held, TopicOffsets
from sinks.streams.intake import Accepted, Intake, Position, other_topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sinks.kafka.connection import KafkaConnection


#: a fetch for each event would cost the broker more than all other readers together
_GATHERED: Final[dict[str, object]] = {
    "fetch.min.bytes": limits.SINK_FETCH_BYTES_MIN,
    "fetch.wait.max.ms": limits.SINK_FETCH_WAIT_MS,
}
_AT_ONCE: Final[dict[str, object]] = {"fetch.wait.max.ms": limits.KAFKA_FETCH_WAIT_ASSIGNED_MS}


class EventReader:
    """A consumer of one topic that keeps its own positions, for one thread at a time.

    A position that Kafka does not hold halts its partition. With ``expired="passed"`` it reads from the oldest record.

    With ``gather_ms`` the first event after a quiet time is read at once, and those behind it gather for so long: an
    idle reader waits at the broker for long. Without it the broker lets events gather, up to ``SINK_FETCH_WAIT_MS``.
    """

    def __init__(
        self,
        kafka: KafkaConnection,
        *,
        topic: str,
        client_id: str,
        group: str,
        expired: Literal["halts", "passed"] = "halts",
        gather_ms: int = 0,
    ) -> None:
        self._topic = kafka.topic(topic)
        self._offsets = TopicOffsets(kafka, topic)
        self.intake = Intake()
        #: by partition the offset after the last record that was read, taken or not
        self.seen: dict[int, int] = {}
        self._consumer = Consumer(
            kafka.consumer(
                client_id,
                group,
                **(_AT_ONCE | gathering(gather_ms) if gather_ms else _GATHERED),
                **{"auto.offset.reset": "error" if expired == "halts" else "earliest"},
            )
        )

    @property
    def positions(self) -> dict[int, Position]:
        """How far every assigned partition was taken."""
        return self.intake.positions

    def close(self) -> None:
        """Closes the consumer."""
        self._consumer.close()

    def assign(self, positions: Mapping[int, Position]) -> None:
        """Reads only these partitions from now on, from these positions."""
        self.intake.forget(list(self.intake.positions))
        self.intake.begin(positions)
        self.seen = {p: at.next_offset for p, at in positions.items()}
        self._consumer.assign([TopicPartition(self._topic, p, at.next_offset) for p, at in positions.items()])

    def halt_what_is_not_there(self, other: Iterable[int]) -> None:
        """Halts assigned partitions whose positions the topic does not hold, and ``other``, those of another topic.

        Raises errors.Unavailable.
        """
        for partition in other:
            self.intake.halts[partition] = other_topic(partition)
        self._begin(self.positions.keys() - self.intake.halts.keys())

    def ends(self, partitions: Iterable[int]) -> dict[int, int]:
        """The offset after the last record of each partition. Raises errors.Unavailable."""
        return {partition: held.high for partition, held in self._held(partitions).items()}

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
        """The next events, at most as many as asked for. Raises errors.Unavailable if Kafka is out for good."""
        accepted = []
        lost: set[int] = set()
        for message in next_messages(self._consumer, messages_max, timeout_s, limits.SINK_READ_TIMEOUT_MS / 1_000):
            partition, offset = message.partition(), message.offset()
            if error := message.error():
                if partition is not None and self._is_lost(partition, error):
                    lost.add(partition)
                continue
            if partition is None or offset is None:  # every sent message has both
                continue
            taken = self.intake.take(partition, offset, message.value() or b"")
            if taken is not None:
                accepted.append(taken)
            if self.intake.is_halted(partition):
                self._pause([partition])
            else:
                self.seen[partition] = offset + 1
        if lost:
            self._begin(lost)
        return accepted

    def _is_lost(self, partition: int, error: KafkaError) -> bool:
        """Whether the topic does not hold our position: then nothing more is fetched, and a seek has no effect.

        Ignores errors that the library mends by itself. Raises errors.Unavailable for all others.
        """
        if partition in self.positions and error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - its name
            return True
        if error.fatal() or error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED):
            raise errors.Unavailable(f"Kafka: {error.str()}")
        return False

    def _begin(self, partitions: Iterable[int]) -> None:
        """Reads on in these partitions where the topic can be read; halts those whose positions it does not hold."""
        for partition, held in self._held(partitions).items():
            self.seen[partition] = self._begin_of(partition, held)
        self._consumer.assign([TopicPartition(self._topic, p, offset) for p, offset in self.seen.items()])
        self._pause(partition for partition in self.intake.halts if self.intake.is_halted(partition))

    def _held(self, partitions: Iterable[int]) -> dict[int, Held]:
        try:
            return self._offsets.ask(partitions).answer()
        except KafkaException as error:
            raise errors.Unavailable(f"Kafka does not answer: {error.args[0].str()}") from error

    def _begin_of(self, partition: int, held: Held) -> int:
        """The place to read the partition from. If there is none, it stands still at its position."""
        begin = self.intake.compare(partition, held.low, held.high)
        return self.positions[partition].next_offset if begin is None else begin

    def _pause(self, partitions: Iterable[int]) -> None:
        places: list[Any] = [TopicPartition(self._topic, partition) for partition in partitions]
        self._consumer.pause(places)


def read_until(reader: EventReader, last_seqs: Mapping[int, int], timeout_s: float) -> Iterator[list[Accepted]]:
    """Reads the assigned partitions up to and including these seqs, in lists of events; the next read goes on there.

    Raises errors.Unavailable if a partition stands still before its end, or nothing new came for ``timeout_s``.
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
        if halted := [p for p in sorted(waiting) if reader.intake.is_halted(p)]:
            raise errors.Unavailable(reader.intake.halts[halted[0]].words)
        if waiting and time.monotonic() > deadline:
            missing = {p: (reached[p].last_seq + 1, last_seqs[p]) for p in sorted(waiting)}
            raise errors.Unavailable(f"Kafka lacks events {missing} (partition: first and last seq)", missing=missing)
    reader.assign(reached)  # what was read past the end comes again
