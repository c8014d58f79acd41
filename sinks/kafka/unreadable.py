"""Batches of records that nobody can decompress: where one begins is told in place of a message, where it ends is not.

A program that may write to a topic can write them: a megabyte that would be gigabytes, or what is no compressed data
at all (a broker need not look). Ours are never compressed, so nothing of ours can be in them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from sinks import limits
from sinks.kafka.connection import KafkaConnection

#: at the end of the partition, or beyond it; the library's names
_NOTHING_THERE: Final = (
    KafkaError._PARTITION_EOF,  # noqa: SLF001
    KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001
    KafkaError.OFFSET_OUT_OF_RANGE,
)


def begins_unreadable(message: Message) -> bool:
    """Whether this stands in place of such a batch, whose first offset it has."""
    error = message.error()
    return error is not None and error.code() == KafkaError._BAD_COMPRESSION  # noqa: SLF001 - the library's name for it


class UnreadableBatches:
    """Finds where they end."""

    def __init__(self, kafka: KafkaConnection, topic: str, client_id: str) -> None:
        self._topic: Final = topic
        # whatever a fetch may bring at least: it is only asked whether there is something else than that batch
        once: dict[str, object] = {
            "enable.partition.eof": True,
            "fetch.message.max.bytes": 1,
            "auto.offset.reset": "error",
        }
        self._settings: Final = kafka.consumer(client_id, f"{client_id}-unreadable", **once)

    def end_of(self, partition: int, begins: int) -> int:
        """The offset behind the batch that begins there. Raises KafkaException when Kafka does not say so in time."""
        consumer = Consumer(self._settings)
        try:
            return first_beyond(begins, lambda offset: self._is_within(consumer, partition, begins, offset))
        finally:
            consumer.close()

    def _is_within(self, consumer: Consumer, partition: int, begins: int, offset: int) -> bool:
        consumer.assign([TopicPartition(self._topic, partition, offset)])
        deadline = time.monotonic() + limits.KAFKA_ADMIN_TIMEOUT_S
        while (left_s := deadline - time.monotonic()) > 0:
            message = consumer.poll(left_s)
            if message is None:
                break
            error = message.error()
            if error is None or error.code() in _NOTHING_THERE:
                return False
            if begins_unreadable(message):
                return message.offset() == begins
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"Kafka did not show what is at {offset} in time."))  # noqa: SLF001 - as above


def first_beyond(begins: int, is_within: Callable[[int], bool]) -> int:
    """The first offset of which that is not true; it is true up to there, from ``begins`` on. In few questions."""
    within, step = begins, 1
    while is_within(within + step):
        within, step = within + step, 2 * step
    beyond = within + step
    while beyond - within > 1:
        middle = (within + beyond) // 2
        if is_within(middle):
            within = middle
        else:
            beyond = middle
    return beyond
