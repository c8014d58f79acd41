"""Blocks of decisions to Kafka: sent in the background; what cannot be taken is given back as lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog
from confluent_kafka import Producer

from limiter.stream.blocks import decisions_in, decode
from schemas import limits
from schemas.limiter import limits as limiter_limits
from schemas.limiter import topics

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import KafkaError, Message

    from sinks.kafka.connection import KafkaConnection


_log: Final = structlog.get_logger(__name__)


class KafkaBlocks:
    """A producer of its own: the queue of decisions must never delay anything else.

    A block that was taken is never given up for its age: one that was under way when a broker fell silent may stand in
    the log all the same, and would be counted as lost and as arrived. What is bounded is the queue, in blocks and in
    bytes; a block that finds no room is the only loss, and is known at once.
    """

    def __init__(self, kafka: KafkaConnection, client_id: str) -> None:
        settings = {
            "compression.type": "lz4",
            "linger.ms": 5,
            "queue.buffering.max.messages": limiter_limits.LIMIT_BLOCKS_MAX,
            "queue.buffering.max.kbytes": limiter_limits.LIMIT_BLOCKS_KBYTES_MAX,
            "delivery.timeout.ms": 0,  # none
            "delivery.report.only.error": True,  # a queue that empties at once must not call back for every block
        }
        self._producer = Producer(kafka.producer(client_id, **settings))
        self._topic = kafka.topic(topics.DECISIONS)
        self.failed = 0  # blocks that Kafka refused for good: their decisions are in no total
        self.lost = 0  # the decisions in them

    @property
    def under_way(self) -> int:
        """Blocks that Kafka has not acknowledged."""
        self._producer.poll(0)
        return len(self._producer)

    def send(self, partition: int, block: bytes) -> bool:
        """Takes a block without waiting; False when the queue is full."""
        self._producer.poll(0)
        try:
            self._producer.produce(self._topic, block, partition=partition, on_delivery=self._told)
        except BufferError:
            return False
        return True

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed += 1
            self.lost += decisions_in(decode(message.value() or b""))
            _log.error("decisions_lost", reason=error.str(), partition=message.partition())

    def close(self) -> None:
        """Waits a bounded time for what is under way."""
        self._producer.flush(limits.PUBLISH_DRAIN_TIMEOUT_S)


class KafkaReports:
    """A producer of its own for reports of leases: what is held back waits for its acknowledgements.

    And one more for charges under identities (``topic``).
    """

    def __init__(self, kafka: KafkaConnection, client_id: str, topic: str = topics.LEASES) -> None:
        self._topic = kafka.topic(topic)
        settings = {"linger.ms": 0, "queue.buffering.max.messages": limiter_limits.LIMIT_REPORTS_MAX}
        self._producer = Producer(kafka.producer(client_id, **settings))

    def poll(self) -> None:
        """Says of messages that they arrived, or did not."""
        self._producer.poll(0)

    def send(self, partition: int, message: bytes, told: Callable[[bool], None]) -> bool:
        """Takes a message without waiting; False when the queue is full."""
        try:
            self._producer.produce(
                self._topic, message, partition=partition, on_delivery=lambda error, _: told(error is None)
            )
        except BufferError:
            return False
        return True

    def close(self) -> None:
        """Waits a bounded time for what is under way."""
        self._producer.flush(limits.PUBLISH_DRAIN_TIMEOUT_S)
