"""What tests do to a topic that is followed, and what they read of its followers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Consumer
from confluent_kafka.cimpl import TopicPartition

from sinks import limits
from sinks.kafka.admin import KafkaAdmin

if TYPE_CHECKING:
    import psycopg

    from sinks.kafka.connection import KafkaConnection


def stored(connection: psycopg.Connection, follower: str) -> dict[int, tuple[int, int]]:
    """Next offset and last seq by partition."""
    rows = connection.execute(
        "select partition, next_offset, last_seq from stream_position where follower = %s", (follower,)
    )
    return {partition: (offset, seq) for partition, offset, seq in rows.fetchall()}


def end_of(kafka: KafkaConnection, topic: str, partition: int) -> int:
    """The offset after the last record."""
    consumer = Consumer(kafka.consumer("test", "test-ends"))
    try:
        place = TopicPartition(kafka.topic(topic), partition)
        return int(consumer.get_watermark_offsets(place, timeout=limits.KAFKA_ADMIN_TIMEOUT_S)[1])
    finally:
        consumer.close()


def expire(kafka: KafkaConnection, topic: str, partition: int) -> None:
    """Kafka deletes every record of the partition, as when they were kept for long enough."""
    place = TopicPartition(kafka.topic(topic), partition, end_of(kafka, topic, partition))
    admin = KafkaAdmin(kafka.admin())  # its answers end with it
    for deleted in admin.delete_records([place]).values():
        deleted.result(limits.KAFKA_TOPICS_TIMEOUT_S)
