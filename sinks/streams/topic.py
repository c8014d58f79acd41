"""What Kafka says of a topic that is followed: which one it is, and whether a position lies in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import TopicPartition

from schemas import errors, limits
from sinks.streams.intake import Halt, standing_in_topic

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from sinks.kafka.connection import KafkaConnection
    from sinks.streams.intake import Position


def topic_id(kafka: KafkaConnection, topic: str) -> str:
    """Kafka's identity of a topic: another one when it was deleted and made again.

    Raises errors.Unavailable or KafkaException.
    """
    name = kafka.topic(topic)
    admin = AdminClient(kafka.admin())  # its answers end with it
    asked = admin.describe_topics(TopicCollection([name]))
    try:
        return str(asked[name].result(timeout=limits.KAFKA_ADMIN_TIMEOUT_S).topic_id)
    except TimeoutError as error:
        raise errors.Unavailable("Kafka does not answer: no description of the topic in time") from error


def offsets(consumer: Consumer, name: str, partition: int) -> tuple[int, int]:
    """The first offset that Kafka has, and the one after the last. Raises errors.Unavailable or KafkaException."""
    marks = consumer.get_watermark_offsets(TopicPartition(name, partition), timeout=limits.KAFKA_ADMIN_TIMEOUT_S)
    if marks is None:
        raise errors.Unavailable("Kafka does not answer: no watermarks in time")
    return int(marks[0]), int(marks[1])


def why_not_from(consumer: Consumer, name: str, partition: int, position: Position) -> Halt | None:
    """None when the partition can be read from this position. Raises errors.Unavailable or KafkaException."""
    return standing_in_topic(partition, position, *offsets(consumer, name, partition))
