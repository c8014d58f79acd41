"""Reads charges under identities from the positions in Postgres, with the broker's time of each block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from confluent_kafka import Consumer, TopicPartition

from dataflows.streams.positioned_stream import raise_unless_passing
from limiter.stream.charges import ChargeBlock, decode
from schemas.limiter import limits, topics
from sinks import limits as sinks_limits
from sinks.kafka.reading import next_messages
from sinks.streams.intake import undecodable
from sinks.streams.metrics import missed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import Message

    from sinks.kafka.connection import KafkaConnection

_US_PER_MS: Final = 1_000
FOLLOWER: Final = "limiter_identities"
_GROUP: Final = "limiter-identities"  # named by librdkafka's rules; positions are in Postgres


class Arrived(NamedTuple):
    """A block in Kafka."""

    offset: int
    at_us: int
    block: ChargeBlock


class ChargeBatch(NamedTuple):
    """What is new in one partition; nothing now and then, so that what is due is looked at."""

    partition: int
    blocks: list[Arrived]
    next_offset: int


class ChargeReader:
    """A consumer of all partitions. Kafka keeps no position."""

    def __init__(self, kafka: KafkaConnection, client_id: str, positions: Mapping[int, int]) -> None:
        fetch = {"fetch.wait.max.ms": sinks_limits.KAFKA_FETCH_WAIT_ASSIGNED_MS, "auto.offset.reset": "error"}
        self._consumer = Consumer(kafka.consumer(client_id, _GROUP, **fetch))
        self._next = dict(positions)
        topic = kafka.topic(topics.IDENTITIES)
        self._consumer.assign([TopicPartition(topic, p, offset) for p, offset in positions.items()])

    def read(self) -> list[ChargeBatch]:
        """One batch of every partition that has something new, and at least one. Raises KafkaException."""
        found: dict[int, list[Arrived]] = {}
        idle_s, gather_s = sinks_limits.KAFKA_IDLE_WAIT_S, limits.LIMIT_REFUND_POLL_S
        for message in next_messages(self._consumer, limits.LIMIT_REFUND_BLOCKS_MAX, idle_s, gather_s):
            if error := message.error():
                raise_unless_passing(error, "identities")
                continue
            partition, offset = message.partition() or 0, message.offset() or 0
            self._next[partition] = offset + 1
            arrived = found.setdefault(partition, [])
            if block := _block(message):
                arrived.append(Arrived(offset, message.timestamp()[1] * _US_PER_MS, block))
        if not found:
            found[0] = []
        return [ChargeBatch(partition, blocks, self._next[partition]) for partition, blocks in found.items()]

    def close(self) -> None:
        """Leaves Kafka."""
        self._consumer.close()


def _block(message: Message) -> ChargeBlock | None:
    try:
        block = decode(message.value() or b"")
        block.columns()
    except (msgspec.DecodeError, ValueError) as error:
        # What is charged twice stays so, of these alone; standing still, no retry would be given back.
        halt = undecodable(message.partition() or 0, message.offset() or 0, str(error))
        missed(FOLLOWER, halt.reason, halt.words)
        return None
    return block
