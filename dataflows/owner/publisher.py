"""Sends committed events and results to Kafka, in order, and knows how far Kafka has acknowledged them.

Rule: nothing leaves before its commit. The idempotent producer keeps order and never gives up on a message by time, so
the acknowledgement of the last event of a batch stands for all before it. The position is stored by a later claim;
after a crash the next owner publishes again from it, and consumers drop what they have by ``seq``.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

import structlog
from confluent_kafka import KafkaError, Message, Producer

from dataflows.owner import fail_points
from dataflows.owner.batch import CommittedBatch, Published, Reply
from dataflows.owner.leases import SQL, Lease
from dataflows.owner.service import OwnedService
from schemas import codec, limits, topics
from sinks.kafka.connection import KafkaConnection
from sinks.postgres.owner_connection import OwnerConnection

_FULL_WAIT_S: Final = 0.05
_DEAD_LETTER: Final = "DeadLetter"
log = structlog.get_logger()


class Publisher:
    """One producer for everything that an owner process sends."""

    def __init__(self, kafka: KafkaConnection, service: OwnedService, owner_id: str) -> None:
        self.service = service
        self._kafka = kafka
        # Without a timeout no message is given up on, so an acknowledgement stands for all that were sent before.
        self._producer = Producer(kafka.producer(owner_id, **{"delivery.timeout.ms": 0}))
        self._sent: dict[int, int] = {}  # partition -> newest seq handed to the producer
        self._acked: dict[int, int] = {}  # partition -> newest seq that Kafka has
        self._lock = threading.Lock()  # acknowledgements arrive in whichever thread asks for them
        self._generation: dict[int, int] = {}  # partition -> epoch of the lease that these positions belong to

    def resume(self, connection: OwnerConnection, lease: Lease) -> None:
        """Takes over a partition's stream: publishes again everything committed after the stored position."""
        partition = lease.partition
        with self._lock:
            self._generation[partition] = lease.epoch
            self._sent[partition] = self._acked[partition] = lease.published_seq
        after = lease.published_seq
        while after < lease.last_seq:
            rows = connection.execute(
                SQL["outbox_unpublished"],
                {
                    "topic": self.service.events_topic,
                    "partition": partition,
                    "after_seq": after,
                    "limit": limits.PUBLISH_RESUME_CHUNK,
                },
            ).fetchall()
            self._send_events(partition, lease.epoch, [Published(*row) for row in rows])
            after = rows[-1][0]
        self.publish_dead_letters(connection, partition)

    def publish(self, batch: CommittedBatch) -> None:
        """Hands a committed batch to the producer: results first, somebody waits for them."""
        self._send_replies(batch.replies)
        self._send_events(batch.partition, batch.epoch, batch.events)
        self._producer.poll(0)

    def publish_dead_letters(self, connection: OwnerConnection, partition: int) -> None:
        """Copies parked records to their topic, at least once; the table is the truth."""
        place = {"topic": self.service.commands_topic, "partition": partition}
        rows = connection.execute(
            SQL["dead_letters_unpublished"], place | {"limit": limits.DEAD_LETTERS_RESUME_MAX}
        ).fetchall()
        for offset, key, reason, parked_at, record in rows:
            letter = {
                "topic": self.service.commands_topic,
                "partition": partition,
                "offset": offset,
                "aggregate_key": key,
                "reason": reason,
                "parked_at": parked_at,
                "record": bytes(record),
            }
            payload = codec.encode(_DEAD_LETTER, letter)
            self._produce(self.service.dead_letters_topic, partition, key, payload)
        if rows and self._producer.flush(limits.PUBLISH_DRAIN_TIMEOUT_S) == 0:
            offsets = [row[0] for row in rows]
            connection.execute(SQL["dead_letters_mark"], place | {"offsets": offsets})

    def serve(self) -> None:
        """Takes in acknowledgements; called often."""
        self._producer.poll(0)

    def published_seq(self, partition: int) -> int:
        """Every event of the partition up to here is acknowledged."""
        return self._acked.get(partition, 0)

    def backlog(self) -> int:
        """Events handed over and not yet acknowledged; past the bound the owner stops reading."""
        with self._lock:
            return sum(sent - self._acked.get(p, 0) for p, sent in self._sent.items())

    def drain(self, timeout_s: float) -> bool:
        """Waits for acknowledgements; False when some are still missing (the next owner sends those again)."""
        return self._producer.flush(timeout_s) == 0

    def forget(self, partition: int) -> None:
        """The partition is not ours any more; late acknowledgements mean nothing."""
        with self._lock:
            for positions in (self._sent, self._acked, self._generation):
                positions.pop(partition, None)

    def close(self) -> None:
        """Drops what was not sent: it is in the outbox, and the next owner sends it."""
        self._producer.purge()
        self._producer.flush(1)

    def _send_events(self, partition: int, epoch: int, events: Sequence[Published]) -> None:
        if not events or self._generation.get(partition) != epoch:
            return
        topic, last = self.service.events_topic, events[-1]
        for event in events[:-1]:
            self._produce(topic, partition, event.key, event.payload)
        self._produce(topic, partition, last.key, last.payload, self._on_last(partition, epoch, last.seq))
        with self._lock:
            if self._generation.get(partition) == epoch:
                self._sent[partition] = last.seq
        fail_points.reach("after_publish_before_mark")

    def _on_last(self, partition: int, epoch: int, seq: int) -> Callable[[KafkaError | None, Message], None]:
        def acknowledged(error: KafkaError | None, _message: Message) -> None:
            if error is None:
                with self._lock:
                    if self._generation.get(partition) == epoch:
                        self._acked[partition] = max(seq, self._acked.get(partition, 0))
            elif error.code() != KafkaError._PURGE_QUEUE:  # noqa: SLF001 - the library's name for our own purge
                log.error("publish_failed", partition=partition, seq=seq, error=str(error))

        return acknowledged

    def _send_replies(self, replies: Sequence[Reply]) -> None:
        by_partition: dict[int, list[Reply]] = defaultdict(list)
        for reply in replies:
            by_partition[reply.reply_to % topics.RESULTS_PARTITIONS].append(reply)
        for partition, group in by_partition.items():
            for chunk in _chunks(group):
                self._produce(topics.RESULTS, partition, None, codec.encode("ResultBatch", {"results": chunk}))

    def _produce(
        self,
        topic: str,
        partition: int,
        key: str | None,
        payload: bytes,
        on_delivery: Callable[[KafkaError | None, Message], None] | None = None,
    ) -> None:
        while True:
            try:
                self._producer.produce(self._kafka.topic(topic), payload, key, partition, on_delivery)
            except BufferError:  # the queue is full: wait for acknowledgements, the bound on reading does the rest
                self._producer.poll(_FULL_WAIT_S)
            else:
                return


def _chunks(replies: Sequence[Reply]) -> list[list[Reply]]:
    """Replies in groups that fit a record."""
    chunks: list[list[Reply]] = [[]]
    size = 0
    for reply in replies:
        full = len(chunks[-1]) >= limits.RESULTS_PER_RECORD_MAX
        if chunks[-1] and (full or size + len(reply.body) > limits.RESULT_RECORD_BYTES_MAX):
            chunks.append([])
            size = 0
        chunks[-1].append(reply)
        size += len(reply.body)
    return chunks


class MarkTimer:
    """Stores published positions while no batch carries them, at most once per interval."""

    def __init__(self) -> None:
        self._due = 0.0

    def run(
        self,
        connection: OwnerConnection,
        leases: Sequence[Lease],
        publisher: Publisher,
        mark: Callable[..., None],
    ) -> None:
        """Marks every lease whose stored position is behind."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + limits.PUBLISH_MARK_INTERVAL_MS / 1_000
        for lease in leases:
            published = publisher.published_seq(lease.partition)
            if published > lease.published_seq:
                mark(connection, lease, published)
