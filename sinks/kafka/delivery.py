"""A few records produced at once by somebody who waits until they are durable."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from confluent_kafka import Producer

from schemas.avro import codec
from schemas.errors import Corrupt
from schemas.records import Command
from schemas.senders import PARKED, Headers
from schemas.services import OPERATIONS
from sinks import limits
from sinks.kafka.connection import KafkaConnection

_FULL_WAIT_S: Final = 0.05
#: topic, value, key, partition (-1 = the partitioner's), headers
Letter = tuple[str, bytes, str | None, int, Headers | None]


def why_not_delivered(kafka: KafkaConnection, producer: Producer, letters: Iterable[Letter]) -> str | None:
    """None once every record is on all in-sync replicas; else the first reason why that is not known."""
    failed: list[str] = []

    def delivered(error: Any, _: object) -> None:
        if error is not None:
            failed.append(error.str())

    for topic, value, key, partition, headers in letters:
        while True:
            try:
                producer.produce(kafka.topic(topic), value, key, partition, delivered, headers=headers)
            except BufferError:  # the queue is full: acknowledgements make room
                producer.poll(_FULL_WAIT_S)
            else:
                break
        producer.poll(0)
    left = producer.flush(limits.KAFKA_DELIVERY_TIMEOUT_MS / 1_000)
    if failed:
        return failed[0]
    return "no answer" if left else None


def command_letter(kafka: KafkaConnection, command: Command) -> Letter:
    """A command on its way to the owner of its aggregate, signed by this process."""
    operation, value = OPERATIONS[command.operation], codec.encode_command(command)
    headers = kafka.signed(operation.senders, operation.topic, command.aggregate_key, value)
    return (operation.topic, value, command.aggregate_key, -1, headers)


def parked_letter(kafka: KafkaConnection, topic: str, partition: int, key: str | None, record: bytes) -> Letter:
    """A parked command on its way into its topic again, where it was: the same one, except that nobody waits for it.

    What is unreadable goes as it came.
    """
    try:
        command = codec.decode_command(record)
    except Corrupt:
        value = record
    else:
        value = codec.encode_command(command.tried_again())
    return (topic, value, key, partition, kafka.signed((PARKED,), topic, key, value))
