"""Reads the newest record of each partition of a topic, without a position that anybody keeps."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from sinks import limits
from sinks.kafka.connection import KafkaConnection

_NEWEST: Final = -2_001  # librdkafka's RD_KAFKA_OFFSET_TAIL(1): one before the end
_NOT_GIVEN: Final = "Kafka does not give the newest records of a topic."
#: nothing is there: never was, has been deleted, or is no record but a transaction's mark
_NOTHING: Final = frozenset({KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET})  # noqa: SLF001 - the library's names


class NewestRecords:
    """Of one topic; ``group`` is one that this process may name, and is not joined."""

    def __init__(self, kafka: KafkaConnection, name: str, client_id: str, group: str) -> None:
        self._topic = kafka.topic(name)
        self._settings = kafka.consumer(
            client_id, group, **{"auto.offset.reset": "error", "enable.partition.eof": True}
        )

    def read(self, partitions: Iterable[int]) -> dict[int, bytes]:
        """The values by partition, of those that hold a record. Raises KafkaException when Kafka gives none in time."""
        waiting = set(partitions)
        consumer = Consumer(self._settings)  # for this once: it costs something while it lives
        try:
            consumer.assign([TopicPartition(self._topic, partition, _NEWEST) for partition in waiting])
            return _first_of_each(consumer, waiting)
        finally:
            consumer.close()


def _first_of_each(consumer: Consumer, waiting: set[int]) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    deadline = time.monotonic() + limits.KAFKA_ADMIN_TIMEOUT_S
    while waiting:
        message = consumer.poll(max(0.0, deadline - time.monotonic()))
        if message is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, _NOT_GIVEN))  # noqa: SLF001 - its name
        error, partition = message.error(), message.partition()
        if error is not None and error.code() not in _NOTHING:
            raise KafkaException(error)
        if partition in waiting:
            waiting.discard(partition)
            if error is None:
                found[partition] = message.value() or b""
    return found
