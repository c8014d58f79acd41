"""Everybody who writes a command topic picks the same partition: our function and librdkafka as we set it.

Java's producer is held to by Kafka's own test vectors in tests/unit/test_topics.py.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.cimpl import NewTopic, TopicPartition

from schemas import identity, topics
from sinks.kafka.admin import KafkaAdmin
from tests.eventually import patient

if TYPE_CHECKING:
    from tests.servers import World

pytestmark = pytest.mark.servers
PARTITIONS = 7  # not a power of two, so that every bit of the hash counts
KEYS = [identity.derived_id("pi", "m_1", "create", str(n)) for n in range(60)]
KEYS += ["x" * n for n in range(1, 10)] + ["é", "日本語", "\U0001f4b3", " ", "a b"]


def test_librdkafka_picks_the_same_partition(stack: World) -> None:
    """With the settings that every producer of ours has."""
    connection, topic = stack.addresses.kafka, f"keys.{uuid.uuid4().hex[:8]}"
    admin = KafkaAdmin(connection.admin())
    for future in admin.create_topics([NewTopic(topic, PARTITIONS)]).values():
        future.result(timeout=patient(30))
    producer = Producer(connection.producer("keys"))
    for key in KEYS:
        producer.produce(topic, b"", key)
    assert producer.flush(patient(30)) == 0
    consumer = Consumer(connection.consumer("keys", f"keys-{topic}"))
    consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    found: dict[str, int | None] = {}
    try:
        while len(found) < len(KEYS):
            for message in consumer.consume(100, 5):
                if message.error() is None:  # a broker that was slow to answer is told of among the records
                    found[(message.key() or b"").decode()] = message.partition()
    finally:
        consumer.close()
    assert found == {key: topics.partition_for(key, PARTITIONS) for key in KEYS}
