"""Produces facts with acks=all. What ``produce`` returns is durable in Kafka; anything else is produced again later."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import structlog
from confluent_kafka import KafkaException, Producer

from schemas import limits
from schemas.avro import codec
from schemas.payments import limits as payments_limits
from schemas.payments import topics
from schemas.records import Command
from schemas.senders import WEBHOOK_WORKER
from sinks.kafka.connection import KafkaConnection

log = structlog.get_logger()


class WebhookFactProducer:
    """One idempotent producer; commands of one intent keep their order."""

    def __init__(self, kafka: KafkaConnection, client_id: str) -> None:
        self._producer = Producer(kafka.producer(client_id))
        self._kafka = kafka
        self._topic = kafka.topic(topics.COMMANDS)

    def produce(self, commands: Sequence[Command]) -> set[str]:
        """The request ids of the commands that are durable. Raises KafkaException when the producer cannot go on."""
        durable: set[str] = set()
        failures: list[Any] = []

        def delivered(request_id: str, error: Any, _: object) -> None:
            if error is None:
                durable.add(request_id)
            else:
                failures.append(error)

        for command in commands:
            value = codec.encode_command(command)
            self._producer.produce(
                self._topic,
                value,
                command.aggregate_key,
                on_delivery=partial(delivered, command.request_id),
                headers=self._kafka.signed((WEBHOOK_WORKER,), topics.COMMANDS, command.aggregate_key, value),
            )
        self._producer.flush(payments_limits.WEBHOOK_FLUSH_TIMEOUT_S)
        for error in failures:
            if error.fatal():
                raise KafkaException(error)
            log.warning("webhook_fact_not_delivered", error=error.str())
        return durable

    def close(self) -> None:
        """Waits a bounded time for what is still under way."""
        self._producer.flush(limits.PUBLISH_DRAIN_TIMEOUT_S)
