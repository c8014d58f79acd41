"""Hears the results of this process's own commands: one thread on one partition of results.v1.

The partition is assigned, not subscribed, and read from the end that it had before the first command was sent, so no
result can be missed. Another process may share the partition: reply ids are random. A result that is lost all the same
is found in the database (``ingress/commands/exchange.py``).
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from ingress import limits as ingress_limits
from schemas import errors, topics
from schemas.avro import codec
from sinks import limits as sinks_limits

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from confluent_kafka import Message

    from schemas import records
    from sinks.kafka.connection import KafkaConnection

_POLL_S: Final = 0.5
_RETRY_S: Final = 0.2


class ResultsReader:
    """Calls ``deliver`` on the loop with the results of every read; ``ready`` is set once its position is fixed."""

    def __init__(
        self,
        connection: KafkaConnection,
        client_id: str,
        partition: int,
        loop: asyncio.AbstractEventLoop,
        deliver: Callable[[list[records.Result]], None],
    ) -> None:
        self.partition = partition
        self._topic = connection.topic(topics.RESULTS)
        self.ready = False
        # An idle fetch may wait long: a record ends it at once.
        overrides = {"fetch.wait.max.ms": ingress_limits.RESULTS_FETCH_WAIT_MS}
        self._settings = connection.consumer(client_id, f"{client_id}-results", **overrides)
        self._loop = loop
        self._deliver = deliver
        self._asked_at = time.monotonic()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-results", daemon=True)

    def start(self) -> None:
        """Starts reading."""
        self._thread.start()

    def is_reading(self) -> bool:
        """Whether the thread lives and asks Kafka: a dead or hanging one would be silent, too."""
        return self._thread.is_alive() and time.monotonic() - self._asked_at < ingress_limits.RESULTS_SILENT_MAX_S

    def close(self) -> None:
        """Stops reading. Blocks: call it off the loop."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        consumer = Consumer(self._settings)
        try:
            end = self._end(consumer)
            if end is None:
                return
            consumer.assign([TopicPartition(self._topic, self.partition, end)])
            self.ready = True
            while not self._stopping.is_set():
                self._asked_at = time.monotonic()
                first = consumer.poll(_POLL_S)
                if first is not None:
                    self._pass_on([first, *consumer.consume(ingress_limits.RESULT_RECORDS_READ_MAX - 1, 0)])
        finally:
            consumer.close()

    def _end(self, consumer: Consumer) -> int | None:
        """The offset after the newest record. Asks until Kafka answers; None if stopped before."""
        place = TopicPartition(self._topic, self.partition)
        while not self._stopping.is_set():
            self._asked_at = time.monotonic()
            try:
                _, end = consumer.get_watermark_offsets(place, timeout=sinks_limits.KAFKA_ADMIN_TIMEOUT_S)
            except KafkaException as error:
                structlog.get_logger().warning("results_not_readable_yet", cause=str(error))
                self._stopping.wait(_RETRY_S)
            else:
                return int(end)
        return None

    def _pass_on(self, messages: list[Message]) -> None:
        results: list[records.Result] = []
        for message in messages:
            if (error := message.error()) is not None:
                structlog.get_logger().warning("results_read_failed", cause=str(error))
                continue
            try:
                results += codec.decode_results(message.value() or b"")
            except errors.Corrupt as corrupt:
                structlog.get_logger().warning("results_undecodable", cause=corrupt.public)
        if results:
            self._loop.call_soon_threadsafe(self._deliver, results)
