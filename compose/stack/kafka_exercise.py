"""What a stack asks of its broker, in short: what Java notes meanwhile says what is worth compiling at once.

Records leave one by one, as single commands do, and are read by members of groups and by readers of one partition.
"""

from __future__ import annotations

import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, Producer, TopicPartition

from compose import limits
from schemas import errors, topics
from sinks import limits as sinks_limits
from sinks.kafka.connection import KafkaConnection
from sinks.kafka.topics import ensure_topics
from sinks.kafka.user import KafkaUser, credentials

if TYPE_CHECKING:
    from compose.stack.kafka import Kafka

_GROUP: Final = "exercise"
#: a user as those of services are: what it may do is looked up at every request
USER: Final = KafkaUser(
    name="exercise",
    password=secrets.token_urlsafe(),
    writes=(topics.RESULTS,),
    reads=(topics.RESULTS,),
    groups=(_GROUP,),
)
_RECORD: Final = b"\0" * 700  # a command has so many bytes


def exercise(broker: Kafka) -> None:
    """Keeps a broker that has ``USER`` busy. Raises KafkaException, errors.Unavailable, errors.InvariantViolation."""
    ensure_topics(KafkaConnection(bootstrap=broker.address, security=broker.as_itself()))
    connection = KafkaConnection(bootstrap=broker.address, security=credentials(USER.name, USER.password))
    clients, over = range(limits.KAFKA_EXERCISE_CLIENTS), Event()
    with ThreadPoolExecutor(3 * len(clients)) as pool:
        readers = [pool.submit(do, connection, n, over) for do in (_read, _follow) for n in clients]
        try:
            for writer in [pool.submit(_write, connection, n) for n in clients]:
                writer.result()
        finally:
            over.set()
        for reader in readers:
            reader.result()


def _write(connection: KafkaConnection, partition: int) -> None:
    producer, deadline = Producer(connection.producer(_GROUP)), time.monotonic() + limits.KAFKA_EXERCISE_MAX_S
    for _ in range(limits.KAFKA_EXERCISE_RECORDS):
        producer.produce(connection.topic(topics.RESULTS), _RECORD, partition=partition)
        if producer.flush(max(0.0, deadline - time.monotonic())):
            raise errors.Unavailable("it did not take records in time")


def _read(connection: KafkaConnection, partition: int, over: Event) -> None:
    with closing(Consumer(connection.consumer(_GROUP, _GROUP))) as consumer:
        consumer.assign([TopicPartition(connection.topic(topics.RESULTS), partition, 0)])
        _poll(consumer, over)


def _follow(connection: KafkaConnection, member: int, over: Event) -> None:
    with closing(Consumer(connection.consumer(f"{_GROUP}-{member}", _GROUP))) as consumer:
        consumer.subscribe([connection.topic(topics.RESULTS)])
        _poll(consumer, over)


def _poll(consumer: Consumer, over: Event) -> None:
    while not over.is_set():
        consumer.poll(sinks_limits.SINK_READ_TIMEOUT_MS / 1_000)
