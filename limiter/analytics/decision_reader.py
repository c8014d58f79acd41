"""Blocks of decisions out of Kafka, each with its place; the positions live beside the effects."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from limiter.stream.blocks import Block, decisions_in, decode
from schemas import errors
from schemas.limiter import limits as limiter_limits
from sinks import limits as sinks_limits
from sinks.kafka.reading import next_messages
from sinks.streams.intake import Position, other_topic, standing_in_topic, undecodable
from sinks.streams.metrics import missed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sinks.clickhouse.ranges import Range
    from sinks.kafka.connection import KafkaConnection
    from sinks.kafka.topic_offsets import Held
    from sinks.streams.intake import Halt

SINK: Final = "limiter_decisions"
_ENDS_READING: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._AUTO_OFFSET_RESET)  # noqa: SLF001 - its name


class Taken(NamedTuple):
    """One record: ``seq`` counts the records of its partition that were ever taken; no block if it is unreadable."""

    partition: int
    offset: int
    seq: int
    value: bytes
    block: Block | None

    @property
    def decisions(self) -> int:
        """How many it accounts for."""
        return 0 if self.block is None else decisions_in(self.block)


class DecisionReader:
    """A consumer of the topic of decisions; one thread at a time may use it.

    A partition stands still before what cannot be read, and where the topic is not what it was. What Kafka has deleted
    nobody has any more: it is passed, and told.
    """

    def __init__(self, kafka: KafkaConnection, *, topic: str, client_id: str) -> None:
        self._topic = kafka.topic(topic)
        fetch = {
            "fetch.min.bytes": sinks_limits.SINK_FETCH_BYTES_MIN,
            "fetch.wait.max.ms": sinks_limits.SINK_FETCH_WAIT_MS,
            "auto.offset.reset": "error",  # reading begins again, and compares
        }
        self._consumer = Consumer(kafka.consumer(client_id, "sink-limiter-decisions", **fetch))
        self._seqs: dict[int, int] = {}
        #: the partitions that stand still, and why
        self.halts: dict[int, Halt] = {}

    def close(self) -> None:
        """Leaves Kafka."""
        self._consumer.close()

    def begin(self, positions: Mapping[int, Position], held: Mapping[int, Held], other: Collection[int]) -> None:
        """Reads these partitions on, but for ``other``: those of a topic that is gone."""
        self.halts = {partition: other_topic(partition) for partition in other}
        begins = dict(positions)
        for partition, at in positions.items():
            there = held[partition]
            halt = None if partition in other else standing_in_topic(partition, at, there.low, there.high)
            if halt is not None and halt.reason == "expired":
                missed(SINK, halt.reason, halt.words)
                begins[partition] = Position(there.low, at.last_seq)
            elif halt is not None:
                self.halts[partition] = halt
        self.assign({partition: at for partition, at in begins.items() if partition not in self.halts})

    def assign(self, positions: Mapping[int, Position]) -> None:
        """Reads these partitions from these positions on, and no other."""
        self._seqs = {p: at.last_seq for p, at in positions.items()}
        self._consumer.assign([TopicPartition(self._topic, p, at.next_offset) for p, at in positions.items()])

    def read(self, timeout_s: float, *, of_a_plan: bool = False) -> list[Taken]:
        """The next records. Raises errors.Unavailable when Kafka is out for good, and when a position is gone.

        In a plan of the release before this one there may be some that cannot be read.
        """
        found = []
        gather_s = sinks_limits.SINK_READ_TIMEOUT_MS / 1_000
        for message in next_messages(self._consumer, limiter_limits.LIMIT_SINK_MESSAGES_MAX, timeout_s, gather_s):
            if error := message.error():
                if error.fatal() or error.code() in _ENDS_READING:
                    raise errors.Unavailable(f"Kafka: {error.str()}")
                continue
            if (taken := self._taken(message, of_a_plan=of_a_plan)) is not None:
                found.append(taken)
        return found

    def _taken(self, message: Any, *, of_a_plan: bool) -> Taken | None:
        partition, offset, value = message.partition(), message.offset(), message.value() or b""
        if partition in self.halts and not of_a_plan:
            return None
        block = None
        try:
            block = decode(value)
        except msgspec.DecodeError as error:
            if not of_a_plan:
                self.halts[partition] = undecodable(partition, offset, str(error))
                self._consumer.pause([TopicPartition(self._topic, partition)])
                return None
        self._seqs[partition] += 1
        return Taken(partition, offset, self._seqs[partition], value, block)

    def read_again(self, ranges: Sequence[Range]) -> list[Taken] | None:
        """Exactly the records of a plan, by partition and offset; None when Kafka has let the first of them go.

        Raises errors.Unavailable when they do not come in time.
        """
        try:
            if any(self._begin(r.partition) > r.first_offset for r in ranges):
                return None
        except KafkaException as error:
            raise errors.Unavailable(f"Kafka does not answer: {error.args[0].str()}") from error
        self.assign({r.partition: Position(r.first_offset, r.first_seq - 1) for r in ranges})
        ends = {r.partition: r.last_seq for r in ranges}
        found: list[Taken] = []
        deadline = time.monotonic() + sinks_limits.SINK_RECOVERY_READ_TIMEOUT_S
        while any(self._seqs[p] < end for p, end in ends.items()):
            if time.monotonic() > deadline:
                raise errors.Unavailable("Kafka does not give the records of a plan in time")
            wait_s = sinks_limits.SINK_READ_TIMEOUT_MS / 1_000
            found += [taken for taken in self.read(wait_s, of_a_plan=True) if taken.seq <= ends[taken.partition]]
        return sorted(found, key=lambda taken: taken[:2])

    def _begin(self, partition: int) -> int:
        where = TopicPartition(self._topic, partition)
        marks = self._consumer.get_watermark_offsets(where, timeout=sinks_limits.KAFKA_ADMIN_TIMEOUT_S)
        if marks is None:
            raise errors.Unavailable("Kafka does not answer: no watermarks in time")
        return int(marks[0])
