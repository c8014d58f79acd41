"""Creates the topics of ``schemas.topics`` and refuses to run on ones with another partition count."""

from __future__ import annotations

from concurrent.futures import Future

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import KafkaException, NewTopic

from schemas import limits, topics
from schemas.errors import InvariantViolation
from sinks.kafka.connection import KafkaConnection


def ensure_topics(connection: KafkaConnection) -> list[str]:
    """Creates what is missing and returns its names.

    Raises InvariantViolation when a topic has another partition count: keys would move to other owners.
    """
    admin = AdminClient(connection.admin())
    existing = admin.list_topics(timeout=limits.KAFKA_ADMIN_TIMEOUT_S).topics
    for topic in topics.TOPICS:
        if topic.name in existing and len(existing[topic.name].partitions) != topic.partitions:
            raise InvariantViolation(
                f"topic {topic.name} has {len(existing[topic.name].partitions)} partitions, not {topic.partitions}"
            )
    missing = [t for t in topics.TOPICS if t.name not in existing]
    wanted = [
        NewTopic(
            t.name,
            t.partitions,
            config={"retention.ms": str(t.retention_ms), "message.timestamp.type": "CreateTime"},
        )
        for t in missing
    ]
    if wanted:
        for name, future in admin.create_topics(wanted, request_timeout=limits.KAFKA_ADMIN_TIMEOUT_S).items():
            _settle(name, future)
    return [t.name for t in missing]


def _settle(name: str, future: Future[None]) -> None:
    try:
        future.result(timeout=limits.KAFKA_ADMIN_TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].name() != "TOPIC_ALREADY_EXISTS":  # another process was faster
            raise RuntimeError(f"cannot create topic {name}: {error.args[0].str()}") from error
