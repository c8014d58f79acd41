"""Creates the topics of ``schemas.topics`` and refuses to run on ones with another partition count.

Their messages have the broker's time: what is kept, and until when, no producer's clock decides.
"""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Final

import structlog
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import KafkaException, NewTopic

from schemas import services, topics
from schemas.errors import InvariantViolation
from sinks import limits
from sinks.kafka.connection import KafkaConnection

_log: Final = structlog.get_logger(__name__)
_TIMES: Final = "message.timestamp.type"
_APPENDED: Final = "LogAppendTime"
_NO_LEADER: Final = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,  # it has not heard yet that it is leader
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._TIMED_OUT,  # noqa: SLF001 - the library's name for no answer to one try
        KafkaError._NOENT,  # noqa: SLF001 - the library's name for "No leaders found"
    }
)


def ensure_topics(connection: KafkaConnection) -> list[str]:
    """Creates what is missing, waits until it can be written and read, and returns its names.

    Raises InvariantViolation when a topic has another partition count: keys would move to other owners.
    """
    admin = AdminClient(connection.admin())
    existing = admin.list_topics(timeout=limits.KAFKA_TOPICS_TIMEOUT_S).topics
    wanted_topics = {connection.topic(t.name): t for t in services.TOPICS}
    for name, topic in wanted_topics.items():
        if name in existing and len(existing[name].partitions) != topic.partitions:
            raise InvariantViolation(
                f"topic {name} has {len(existing[name].partitions)} partitions, not {topic.partitions}"
            )
    _append_times(admin, [name for name in wanted_topics if name in existing])
    missing = {name: topic for name, topic in wanted_topics.items() if name not in existing}
    wanted = [NewTopic(name, t.partitions, config=configuration(t)) for name, t in missing.items()]
    if wanted:
        for name, future in admin.create_topics(wanted, request_timeout=limits.KAFKA_TOPICS_TIMEOUT_S).items():
            _settle(name, future)
        _await_leaders(connection, missing)
    return list(missing)


def configuration(topic: topics.Topic) -> dict[str, str]:
    """What is said of a new topic, so that no default of a cluster deletes what nobody has read."""
    return {
        "cleanup.policy": "delete",  # compaction keeps the newest record of an aggregate alone
        "retention.ms": str(topic.retention_ms),
        "retention.bytes": "-1",
        # a producer's clock that is wrong would be refused, or would have what it wrote deleted too early
        _TIMES: _APPENDED,
    }


def _append_times(admin: AdminClient, names: list[str]) -> None:
    """Topics that an older release made have the broker's times from now on. A user who may not say so is told."""
    entry = ConfigEntry(_TIMES, _APPENDED, incremental_operation=AlterConfigOpType.SET)
    wanted = [ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry]) for name in names]
    for resource, future in admin.incremental_alter_configs(wanted).items() if wanted else ():
        try:
            future.result(timeout=limits.KAFKA_TOPICS_TIMEOUT_S)
        except KafkaException as error:
            _log.warning("topic_keeps_producers_times", topic=resource.name, reason=str(error))


def _is_passing(error: KafkaException) -> bool:
    return bool(error.args[0].retriable() or error.args[0].code() in _NO_LEADER)


def _await_leaders(connection: KafkaConnection, created: dict[str, topics.Topic]) -> None:
    """A broker names itself leader of a new partition a moment before it is one: offsets are asked of the leader.

    A client that once found no leader may go on saying so: every try is a short one of a new client.
    """
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the wheel's types stop short of it
    wanted = {TopicPartition(name, p): latest for name, t in created.items() for p in range(t.partitions)}
    deadline = time.monotonic() + limits.KAFKA_TOPICS_TIMEOUT_S
    while True:
        try:
            admin = AdminClient(connection.admin())
            for future in admin.list_offsets(wanted, request_timeout=limits.KAFKA_ADMIN_TIMEOUT_S).values():
                future.result(timeout=limits.KAFKA_TOPICS_TIMEOUT_S)
        except KafkaException as error:
            if not _is_passing(error) or time.monotonic() > deadline:
                raise
            time.sleep(limits.HEALTH_POLL_INTERVAL_S)
        else:
            return


def _settle(name: str, future: Future[None]) -> None:
    try:
        future.result(timeout=limits.KAFKA_TOPICS_TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].name() != "TOPIC_ALREADY_EXISTS":  # another process was faster
            raise RuntimeError(f"cannot create topic {name}: {error.args[0].str()}") from error
