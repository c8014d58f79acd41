"""Reads the event stream in batches. Offsets are committed only for what the caller has made durable.

Any record is accepted, in any order and any number of times: the primary key of ``attempt_dispatch`` makes a duplicate
harmless, and a record that was passed over by mistake would be an attempt that nobody carries out.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import structlog
from confluent_kafka import Consumer
from confluent_kafka.cimpl import KafkaException, TopicPartition

from dataflows.payments.attempts.dispatch import Change, changes_of, fold
from schemas import codec, limits
from schemas.errors import Corrupt
from schemas.payments import topics

if TYPE_CHECKING:
    from dataflows.payments.attempts.metrics import AttemptMetrics
    from sinks.kafka.connection import KafkaConnection

GROUP: Final = "processor-attempts"
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class EventBatch:
    """What one poll brought: a change per attempt, and where to read on by partition once they are durable."""

    changes: list[Change] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)


class AttemptEventReader:
    """The consumer of one worker; one thread talks to it, so that the loop never waits for Kafka."""

    def __init__(self, kafka: KafkaConnection, client_id: str, metrics: AttemptMetrics) -> None:
        self._metrics = metrics
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="event-reader")
        self._durable: dict[int, int] = {}
        self._topic = kafka.topic(topics.EVENTS)
        self._commit_at = 0.0
        self.is_assigned = False
        self._consumer = Consumer(
            kafka.consumer(
                client_id,
                GROUP,
                **{
                    "fetch.min.bytes": limits.ATTEMPT_FETCH_BYTES_MIN,
                    "fetch.wait.max.ms": limits.ATTEMPT_FETCH_WAIT_MS,
                    "partition.assignment.strategy": "cooperative-sticky",
                    "session.timeout.ms": limits.OWNER_SESSION_TIMEOUT_MS,
                    "heartbeat.interval.ms": limits.OWNER_HEARTBEAT_MS,
                },
            )
        )
        self._consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)

    async def read(self) -> EventBatch:
        """The next batch; empty after a short wait. Raises KafkaException when the client cannot go on."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read)

    def mark_durable(self, batch: EventBatch) -> None:
        """The caller has made this batch durable. Not to be called while ``read`` runs."""
        self._durable |= batch.positions

    async def close(self) -> None:
        """Commits the durable positions and leaves the group at once."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    def _read(self) -> EventBatch:
        self._commit_when_due()
        first = self._consumer.poll(limits.ATTEMPT_EVENTS_POLL_MS / 1_000)
        if first is None:
            return EventBatch()
        changes: list[Change] = []
        positions: dict[int, int] = {}
        message: Any  # without an error it has partition and offset, which the library's types do not say
        for message in (first, *self._consumer.consume(limits.ATTEMPT_EVENTS_BATCH_MAX - 1, 0)):
            if error := message.error():
                if error.fatal():
                    raise KafkaException(error)
                log.warning("event_reader_kafka_error", error=error.str())
                continue
            changes += self._changes_of(message)
            positions[message.partition()] = message.offset() + 1
        return EventBatch(fold(changes), positions)

    def _changes_of(self, message: Any) -> list[Change]:
        try:
            return changes_of(codec.decode_event(message.value() or b""))
        except Corrupt as error:
            # Parked where it lies: the topic keeps it. The check finds an attempt that nobody carries out.
            self._metrics.events_unreadable.inc()
            where = {"partition": message.partition(), "offset": message.offset()}
            log.error("event_unreadable", reason=error.public, **where)  # noqa: TRY400 - foreign bytes, no bug of ours
            return []

    def _commit_when_due(self) -> None:
        now = time.monotonic()
        if self._durable and now >= self._commit_at:
            self._commit_at = now + limits.ATTEMPT_OFFSETS_COMMIT_MS / 1_000
            self._consumer.commit(offsets=self._taken_positions(None), asynchronous=True)

    def _taken_positions(self, partitions: set[int] | None) -> list[TopicPartition]:
        wanted = [p for p in self._durable if partitions is None or p in partitions]
        return [TopicPartition(self._topic, p, self._durable.pop(p)) for p in wanted]

    def _assigned(self, _: Consumer, partitions: list[Any]) -> None:
        self.is_assigned = True
        log.info("event_partitions_assigned", partitions=[p.partition for p in partitions])

    def _revoked(self, consumer: Consumer, partitions: list[Any]) -> None:
        positions = self._taken_positions({p.partition for p in partitions})
        if positions:
            self._commit_now(consumer, positions)

    def _lost(self, _: Consumer, partitions: list[Any]) -> None:
        for partition in partitions:  # somebody else reads it already: our position says nothing any more
            self._durable.pop(partition.partition, None)

    def _close(self) -> None:
        positions = self._taken_positions(None)
        if positions:
            self._commit_now(self._consumer, positions)
        self._consumer.close()

    def _commit_now(self, consumer: Consumer, positions: list[TopicPartition]) -> None:
        try:
            consumer.commit(offsets=positions, asynchronous=False)
        except KafkaException as error:  # the next reader sees some events again, which is harmless
            log.warning("event_offsets_not_committed", error=error.args[0].str())
