"""All that Kafka holds of a topic."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, TopicPartition

if TYPE_CHECKING:
    from sinks.kafka.connection import KafkaConnection


def topic_bytes(kafka: KafkaConnection, name: str) -> bytes:
    """The values of all its records, one after another."""
    topic = kafka.topic(name)
    with closing(Consumer(kafka.consumer("test", "test"))) as consumer:
        places = [TopicPartition(topic, part, 0) for part in consumer.list_topics(topic).topics[topic].partitions]
        ends = [consumer.get_watermark_offsets(place, timeout=10) or (0, 0) for place in places]
        consumer.assign(places)
        values: list[bytes] = []
        while len(values) < sum(last - first for first, last in ends):
            values += [m.value() or b"" for m in consumer.consume(1_000, 0.2) if not m.error()]
    return b"".join(values)
