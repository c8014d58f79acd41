"""Creates the topics of ``schemas.topics``, and refuses ones with another partition count or too few replicas.

Their messages have the broker's time: what is kept, and until when, no producer's clock decides.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import structlog
from confluent_kafka import KafkaError, TopicCollection, TopicPartition
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import KafkaException, NewTopic

from schemas import services, topics
from schemas.errors import InvariantViolation, Unavailable
from sinks import limits
from sinks.kafka.admin import KafkaAdmin
from sinks.kafka.connection import KafkaConnection
from sinks.kafka.copies import AS_THE_CLUSTER, Copies

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

_log: Final = structlog.get_logger(__name__)
_TIMES: Final = "message.timestamp.type"
_IN_SYNC: Final = "min.insync.replicas"
_APPENDED: Final = "LogAppendTime"
_DEFAULT: Final = -1
_NO_LEADER: Final = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,  # it has not heard yet that it is leader
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._TIMED_OUT,  # noqa: SLF001 - the library's name for no answer to one try
        KafkaError._NOENT,  # noqa: SLF001 - the library's name for "No leaders found"
        KafkaError.NOT_CONTROLLER,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._TRANSPORT,  # noqa: SLF001 - the library's name for a line that was cut
    }
)


def ensure_topics(connection: KafkaConnection, copies: Copies = AS_THE_CLUSTER) -> list[str]:
    """Creates what is missing, waits until it can be written and read, and returns its names.

    Raises InvariantViolation when a topic has another partition count (keys would move to other owners), or when there
    are fewer brokers or replicas than asked for; Unavailable when Kafka refuses one, or makes none within
    ``KAFKA_TOPICS_TIMEOUT_S``.
    """
    admin = KafkaAdmin(connection.admin())
    cluster = admin.list_topics(timeout=limits.KAFKA_TOPICS_TIMEOUT_S)
    existing = cluster.topics
    wanted_topics = {connection.topic(t.name): t for t in services.TOPICS}
    for name, topic in wanted_topics.items():
        if name in existing and len(existing[name].partitions) != topic.partitions:
            raise InvariantViolation(
                f"topic {name} has {len(existing[name].partitions)} partitions, not {topic.partitions}"
            )
    there = [name for name in wanted_topics if name in existing]
    replicas = {name: min(len(p.replicas) for p in existing[name].partitions.values()) for name in there}
    if fault := copies.fault(len(cluster.brokers), replicas):
        raise InvariantViolation(fault)
    _set_anew(admin, there, {_TIMES: _APPENDED} | _in_sync(copies))
    missing = {name: topic for name, topic in wanted_topics.items() if name not in existing}
    wanted = {
        name: NewTopic(
            name,
            t.partitions,
            replication_factor=copies.replicas or _DEFAULT,
            config=configuration(t) | _in_sync(copies),
        )
        for name, t in missing.items()
    }
    if wanted:
        create_all(
            lambda names: admin.create_topics([wanted[n] for n in names], request_timeout=limits.KAFKA_ADMIN_TIMEOUT_S),
            [*wanted],
        )
        _await_leaders(connection, admin, missing)
    return list(missing)


def create_all(create: Callable[[Sequence[str]], Mapping[str, Future[None]]], names: Sequence[str]) -> None:
    """Asks for topics until each is there: a busy broker has no controller at times, and refuses what it makes later.

    One that another process made meanwhile is there. Raises Unavailable when Kafka refuses one for good, and when
    ``KAFKA_TOPICS_TIMEOUT_S`` have passed.
    """
    left, deadline = list(names), time.monotonic() + limits.KAFKA_TOPICS_TIMEOUT_S
    while left:
        failed = {name: error for name, future in create(left).items() if (error := _failure(future)) is not None}
        for name, error in failed.items():
            if not _is_passing(error) or time.monotonic() > deadline:
                raise Unavailable(f"Kafka does not create topic {name}: {error.args[0].str()}.") from error
        if failed:
            time.sleep(limits.HEALTH_POLL_INTERVAL_S)
        left = list(failed)


def configuration(topic: topics.Topic) -> dict[str, str]:
    """What is said of a new topic, so that no default of a cluster deletes what nobody has read."""
    return {
        "cleanup.policy": "delete",  # compaction keeps the newest record of an aggregate alone
        "retention.ms": str(topic.retention_ms),
        "retention.bytes": "-1",
        # a producer's clock that is wrong would be refused, or would have what it wrote deleted too early
        _TIMES: _APPENDED,
    }


def _in_sync(copies: Copies) -> dict[str, str]:
    return {} if copies.in_sync is None else {_IN_SYNC: str(copies.in_sync)}


def _set_anew(admin: KafkaAdmin, names: list[str], settings: dict[str, str]) -> None:
    """Of topics that are there: an older release made them, or other settings. A user who may not say so is told."""
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
    ]
    wanted = [ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries) for name in names]
    for resource, future in admin.incremental_alter_configs(wanted).items() if wanted else ():
        try:
            future.result(timeout=limits.KAFKA_TOPICS_TIMEOUT_S)
        except KafkaException as error:
            _log.warning("topic_keeps_its_settings", topic=resource.name, settings=[*settings], reason=str(error))


def _is_passing(error: KafkaException) -> bool:
    return bool(error.args[0].retriable() or error.args[0].code() in _NO_LEADER)


def _await_leaders(connection: KafkaConnection, admin: KafkaAdmin, created: dict[str, topics.Topic]) -> None:
    """A broker names itself leader of a new partition a moment before it is one: offsets are asked of the leader.

    A client that once found no leader may go on saying so: every try is a short one of a new client. One that is asked
    for offsets before it has a session looks for leaders three seconds later: it is asked for topics first.
    """
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the wheel's types stop short of it
    names = TopicCollection([*created])
    wanted = {TopicPartition(name, p): latest for name, t in created.items() for p in range(t.partitions)}
    deadline = time.monotonic() + limits.KAFKA_TOPICS_TIMEOUT_S
    while True:
        try:
            for future in admin.describe_topics(names, request_timeout=limits.KAFKA_ADMIN_TIMEOUT_S).values():
                future.result(timeout=limits.KAFKA_TOPICS_TIMEOUT_S)
            for future in admin.list_offsets(wanted, request_timeout=limits.KAFKA_ADMIN_TIMEOUT_S).values():
                future.result(timeout=limits.KAFKA_TOPICS_TIMEOUT_S)
        except KafkaException as error:
            if not _is_passing(error) or time.monotonic() > deadline:
                raise Unavailable(f"New topics of Kafka have no leader: {error.args[0].str()}.") from error
            time.sleep(limits.HEALTH_POLL_INTERVAL_S)
            admin = KafkaAdmin(connection.admin())
        else:
            return


def _failure(future: Future[None]) -> KafkaException | None:
    try:
        future.result(timeout=limits.KAFKA_TOPICS_TIMEOUT_S)
    except KafkaException as error:
        return None if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS else error
    return None
