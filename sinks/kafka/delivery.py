"""A few records produced at once by somebody who waits until they are durable."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from confluent_kafka import Producer

from schemas import codec, limits
from schemas.errors import Corrupt
from schemas.payments import topics
from schemas.records import Command
from sinks.kafka.connection import KafkaConnection

_FULL_WAIT_S: Final = 0.05
Letter = tuple[str, bytes, str | None, int]  # topic, value, key, partition; -1 = the partitioner's


def why_not_delivered(kafka: KafkaConnection, producer: Producer, letters: Iterable[Letter]) -> str | None:
    """None once every record is on all in-sync replicas; else the first reason why that is not known."""
    failed: list[str] = []

    def delivered(error: Any, _: object) -> None:
        if error is not None:
            failed.append(error.str())

    for topic, value, key, partition in letters:
        while True:
            try:
                producer.produce(kafka.topic(topic), value, key, partition, on_delivery=delivered)
            except BufferError:  # the queue is full: acknowledgements make room
                producer.poll(_FULL_WAIT_S)
            else:
                break
        producer.poll(0)
    left = producer.flush(limits.KAFKA_DELIVERY_TIMEOUT_MS / 1_000)
    if failed:
        return failed[0]
    return "no answer" if left else None


def payments_letter(command: Command) -> Letter:
    """A command of payments on its way to the owner of its aggregate."""
    return (topics.COMMANDS, codec.encode_command(command), command.aggregate_key, -1)


def parked_letter(topic: str, partition: int, key: str | None, record: bytes) -> Letter:
    """A parked command on its way into its topic again, where it was: the same one, except that nobody waits for it.

    What is unreadable goes as it came.
    """
    try:
        command = codec.decode_command(record)
    except Corrupt:
        return (topic, record, key, partition)
    command.deadline_at, command.reply_to, command.reply_id = 0, -1, 0
    return (topic, codec.encode_command(command), key, partition)
