"""Produces facts with acks=all. Only when ``produce`` answers True may anybody rely on the fact."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import structlog
from confluent_kafka import Producer

from dataflows.payments.attempts import facts
from schemas import limits
from schemas.payments import limits as payments_limits
from schemas.payments import topics
from schemas.senders import PROCESSOR_WORKER

if TYPE_CHECKING:
    from dataflows.payments.attempts.facts import Fact
    from dataflows.payments.attempts.metrics import AttemptMetrics
    from sinks.kafka.connection import KafkaConnection

log = structlog.get_logger()


class FactProducer:
    """One idempotent producer; a thread serves its callbacks and wakes the loop once for many of them."""

    def __init__(self, kafka: KafkaConnection, client_id: str, metrics: AttemptMetrics) -> None:
        self._producer = Producer(kafka.producer(client_id))
        self._kafka = kafka
        self._topic = kafka.topic(topics.COMMANDS)
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._delivered: deque[tuple[asyncio.Future[bool], Any]] = deque()
        self._is_waking = False
        self._gathered: asyncio.Future[None] | None = None  # over when what gathers now is produced
        self._is_closing = False
        self._sent = threading.Event()
        self._thread = threading.Thread(target=self._serve_callbacks, name="fact-producer", daemon=True)
        self._thread.start()

    async def produce(self, fact: Fact) -> bool:
        """True once the fact is durable in Kafka; False when it is not known to be: then tell it again some time.

        Facts that come within a short time are produced together: each alone would take a round of an owner.
        """
        await self._gathering()
        value = facts.encode(fact, issued_at=time.time_ns() // 1_000)
        headers = self._kafka.signed((PROCESSOR_WORKER,), topics.COMMANDS, fact.intent_id, value)
        future: asyncio.Future[bool] = self._loop.create_future()
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    value,
                    fact.intent_id,
                    on_delivery=lambda error, _: self._on_delivery(future, error),
                    headers=headers,
                )
                self._sent.set()
                break
            except BufferError:
                await asyncio.sleep(payments_limits.ATTEMPT_PRODUCER_FULL_WAIT_MS / 1_000)
        is_durable = await future
        if is_durable:
            self._metrics.facts.labels(fact.status).inc()
        else:
            self._metrics.facts_lost.inc()
        return is_durable

    async def _gathering(self) -> None:
        if self._gathered is None or self._gathered.done():
            self._gathered = self._loop.create_future()
            self._loop.call_later(payments_limits.ATTEMPT_FACTS_GATHER_MS / 1_000, self._gathered.set_result, None)
        await asyncio.shield(self._gathered)

    async def close(self) -> None:
        """Waits a bounded time for what is still under way."""
        await asyncio.to_thread(self._producer.flush, limits.PUBLISH_DRAIN_TIMEOUT_S)
        self._is_closing = True
        self._sent.set()
        await asyncio.to_thread(self._thread.join)

    def _serve_callbacks(self) -> None:
        while not self._is_closing:
            self._sent.wait()
            self._sent.clear()
            while len(self._producer) and not self._is_closing:
                self._producer.poll(payments_limits.ATTEMPT_PRODUCER_POLL_MS / 1_000)

    def _on_delivery(self, future: asyncio.Future[bool], error: Any) -> None:
        self._delivered.append((future, error))
        if not self._is_waking:  # one wake-up for all that are delivered until the loop gets to it
            self._is_waking = True
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._is_waking = False  # before the deque is emptied: what comes later wakes again
        while self._delivered:
            future, error = self._delivered.popleft()
            if error is not None:
                log.warning("fact_not_delivered", error=error.str())
            if not future.done():
                future.set_result(error is None)
