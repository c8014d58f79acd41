"""Blocks of decisions to Kafka: sent in the background; what cannot be taken is given back as lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Producer

from schemas import limits, topics

if TYPE_CHECKING:
    from sinks.kafka.connection import KafkaConnection


class KafkaBlocks:
    """A producer of its own: the queue of decisions must never delay anything else."""

    def __init__(self, kafka: KafkaConnection, client_id: str) -> None:
        settings = {"compression.type": "lz4", "linger.ms": 5, "queue.buffering.max.messages": limits.LIMIT_BLOCKS_MAX}
        self._producer = Producer(kafka.producer(client_id, **settings))

    @property
    def under_way(self) -> int:
        """Blocks that Kafka has not acknowledged."""
        self._producer.poll(0)
        return len(self._producer)

    def send(self, partition: int, block: bytes) -> bool:
        """Takes a block without waiting; False when the queue is full."""
        self._producer.poll(0)
        try:
            self._producer.produce(topics.DECISIONS, block, partition=partition)
        except BufferError:
            return False
        return True

    def close(self) -> None:
        """Waits a bounded time for what is under way."""
        self._producer.flush(limits.PUBLISH_DRAIN_TIMEOUT_S)
