"""Blocks of decisions out of Kafka, each with its place; the positions live beside the effects."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from limiter.stream.blocks import Block, decisions_in, decode
from schemas import errors
from schemas.limiter import limits as limiter_limits
from sinks import limits as sinks_limits
from sinks.kafka.reading import next_messages
from sinks.streams.intake import Position

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sinks.clickhouse.ranges import Range
    from sinks.kafka.connection import KafkaConnection

_log = structlog.get_logger(__name__)


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
    """A consumer of the topic of decisions; one thread at a time may use it."""

    def __init__(self, kafka: KafkaConnection, *, topic: str, client_id: str) -> None:
        self._topic = kafka.topic(topic)
        fetch = {
            "fetch.min.bytes": sinks_limits.SINK_FETCH_BYTES_MIN,
            "fetch.wait.max.ms": sinks_limits.SINK_FETCH_WAIT_MS,
        }
        self._consumer = Consumer(kafka.consumer(client_id, "sink-limiter-decisions", **fetch))
        self._seqs: dict[int, int] = {}

    def close(self) -> None:
        """Leaves Kafka."""
        self._consumer.close()

    def assign(self, positions: Mapping[int, Position]) -> None:
        """Reads these partitions from these positions on, and no other."""
        self._seqs = {p: at.last_seq for p, at in positions.items()}
        self._consumer.assign([TopicPartition(self._topic, p, at.next_offset) for p, at in positions.items()])

    def read(self, timeout_s: float) -> list[Taken]:
        """The next records. Raises errors.Unavailable when Kafka is out for good."""
        found = []
        gather_s = sinks_limits.SINK_READ_TIMEOUT_MS / 1_000
        for message in next_messages(self._consumer, limiter_limits.LIMIT_SINK_MESSAGES_MAX, timeout_s, gather_s):
            if error := message.error():
                if error.fatal() or error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise errors.Unavailable(f"Kafka: {error.str()}")
                continue
            found.append(self._taken(message))
        return found

    def _taken(self, message: Any) -> Taken:
        partition, value = message.partition(), message.value() or b""
        self._seqs[partition] += 1
        block = None
        try:
            block = decode(value)
        except msgspec.DecodeError as error:
            _log.error("decisions_unreadable", partition=partition, offset=message.offset(), reason=str(error))
        return Taken(partition, message.offset(), self._seqs[partition], value, block)

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
            found += [taken for taken in self.read(wait_s) if taken.seq <= ends[taken.partition]]
        return sorted(found, key=lambda taken: taken[:2])

    def _begin(self, partition: int) -> int:
        where = TopicPartition(self._topic, partition)
        marks = self._consumer.get_watermark_offsets(where, timeout=sinks_limits.KAFKA_ADMIN_TIMEOUT_S)
        if marks is None:
            raise errors.Unavailable("Kafka does not answer: no watermarks in time")
        return int(marks[0])
