"""Sends committed events and results to Kafka, in order, and knows how far Kafka has acknowledged them.

Rule: nothing leaves before its commit, and the position moves only over acknowledged events without a gap. If Kafka
refuses an event, this process gives the partition up: the next owner publishes again from the stored position, and
consumers drop by ``seq`` what they have. A later claim stores the position.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from dataflows import limits as dataflows_limits
from dataflows.owner import fail_points
from dataflows.owner.batch import CommittedBatch, Published, Reply
from dataflows.owner.partition.leases import SQL, Lease
from dataflows.owner.service import OwnedService
from schemas import limits, stored_event, topics
from schemas.avro import codec
from sinks.kafka.connection import KafkaConnection
from sinks.postgres.owner_connection import OwnerConnection

_FULL_WAIT_S: Final = 0.05
_MARK_INTERVAL_S: Final = dataflows_limits.PUBLISH_MARK_INTERVAL_MS / 1_000
_DEAD_LETTER: Final = "DeadLetter"
_OnDelivery = Callable[[KafkaError | None, Message | None], None]
log = structlog.get_logger()


class _Stream:
    """The events of one partition under one lease."""

    __slots__ = ("acked", "ahead", "epoch", "refusal", "sent")

    def __init__(self, epoch: int, published_seq: int) -> None:
        self.epoch = epoch
        self.sent = self.acked = published_seq  # handed over; acknowledged without a gap
        self.ahead: set[int] = set()  # acknowledged, while an earlier one is not
        self.refusal = ""  # Kafka's reason for refusing the first event that it refused

    def acknowledge(self, seq: int) -> None:
        """Moves the position over events that are acknowledged without a gap, and no further."""
        self.ahead.add(seq)
        while self.acked + 1 in self.ahead:
            self.acked += 1
            self.ahead.discard(self.acked)


class Publisher:
    """One producer for everything that an owner process sends."""

    def __init__(self, kafka: KafkaConnection, service: OwnedService, owner_id: str) -> None:
        self.service = service
        self._kafka = kafka
        # No timeout, so no message is given up: only a message that a broker refuses is never acknowledged.
        self._producer = Producer(kafka.producer(owner_id, **{"delivery.timeout.ms": 0}))
        self._lock = threading.Lock()  # acknowledgements arrive in the thread that polls for them
        self._streams: dict[int, _Stream] = {}  # by partition

    def resume(self, connection: OwnerConnection, lease: Lease) -> None:
        """Takes over a partition's stream: publishes again everything committed after the stored position."""
        partition = lease.partition
        with self._lock:
            self._streams[partition] = _Stream(lease.epoch, lease.published_seq)
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
            events = [Published(seq, key, stored_event.published(stored)) for seq, key, stored in rows]
            self._send_events(partition, lease.epoch, events)
            after = rows[-1][0]
            if partition in self.refusals():
                break
        self.publish_dead_letters(connection, partition)

    def publish(self, batch: CommittedBatch) -> None:
        """Hands a committed batch to the producer, results first, because somebody waits for them."""
        self._send_replies(batch.replies)
        self._send_events(batch.partition, batch.epoch, batch.events)
        self._producer.poll(0)

    def publish_dead_letters(self, connection: OwnerConnection, partition: int) -> None:
        """Copies parked records to their topic, at least once; the table is the truth."""
        place = {"topic": self.service.commands_topic, "partition": partition}
        refused: list[str] = []

        def answered(error: KafkaError | None, _message: Message | None) -> None:
            if error is not None:
                log.error("dead_letter_not_published", partition=partition, error=error.str())
                refused.append(error.str())

        rows = connection.execute(
            SQL["dead_letters_unpublished"], place | {"limit": dataflows_limits.DEAD_LETTERS_RESUME_MAX}
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
            self._produce(self.service.dead_letters_topic, partition, key, payload, answered)
        if rows and self._producer.flush(limits.PUBLISH_DRAIN_TIMEOUT_S) == 0 and not refused:
            offsets = [row[0] for row in rows]
            connection.execute(SQL["dead_letters_mark"], place | {"offsets": offsets})

    def serve(self) -> None:
        """Takes in acknowledgements; called often."""
        self._producer.poll(0)

    def published_seq(self, partition: int) -> int:
        """The position up to which every event of the partition is acknowledged."""
        stream = self._streams.get(partition)
        return stream.acked if stream else 0

    def backlog(self) -> int:
        """How many events are not yet acknowledged; past a bound the owner stops reading."""
        with self._lock:
            return sum(stream.sent - stream.acked for stream in self._streams.values() if not stream.refusal)

    def refusals(self) -> dict[int, str]:
        """Partitions of which Kafka refused an event, with its reason; they send nothing more until ``resume``."""
        with self._lock:
            return {partition: stream.refusal for partition, stream in self._streams.items() if stream.refusal}

    def drain(self, timeout_s: float) -> bool:
        """Waits for acknowledgements. False if some are still missing; the next owner sends those events again."""
        return self._producer.flush(timeout_s) == 0

    def forget(self, partition: int) -> None:
        """Drops a partition that we no longer own; its late acknowledgements are ignored."""
        with self._lock:
            self._streams.pop(partition, None)

    def close(self) -> None:
        """Drops events that were not sent: the outbox has them, and the next owner sends them."""
        with self._lock:
            self._streams.clear()
        self._producer.purge()
        self._producer.flush(1)

    def _send_events(self, partition: int, epoch: int, events: Sequence[Published]) -> None:
        stream = self._streams.get(partition)
        if not events or stream is None or stream.epoch != epoch:
            return
        with self._lock:
            stream.sent = events[-1].seq
        for event in events:
            if stream.refusal:
                return
            on_delivery = partial(self._answered, partition, stream, event.seq)
            self._produce(self.service.events_topic, partition, event.key, event.payload, on_delivery)
        fail_points.reach("after_publish_before_mark")

    def _answered(
        self, partition: int, stream: _Stream, seq: int, error: KafkaError | None, _message: Message | None
    ) -> None:
        if error is not None:
            self._refused(partition, stream, error)
            return
        with self._lock:
            stream.acknowledge(seq)

    def _refused(self, partition: int, stream: _Stream, error: KafkaError) -> None:
        with self._lock:
            is_first = self._streams.get(partition) is stream and not stream.refusal
            stream.refusal = error.str()
        if is_first:  # Kafka may refuse all that are under way with it
            log.error("event_refused", partition=partition, after_seq=stream.acked, error=error.str())

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
        on_delivery: _OnDelivery | None = None,
    ) -> None:
        while True:
            try:
                self._producer.produce(self._kafka.topic(topic), payload, key, partition, on_delivery)
            except BufferError:  # the queue is full: wait for acknowledgements; the bound on reading keeps it short
                self._producer.poll(_FULL_WAIT_S)
            except KafkaException as error:  # the client refuses a record above its bound before it is sent
                if on_delivery is None or error.args[0].fatal():
                    raise
                on_delivery(error.args[0], None)
                return
            else:
                return


def _chunks(replies: Sequence[Reply]) -> list[list[Reply]]:
    """Replies in groups that fit a record."""
    chunks: list[list[Reply]] = [[]]
    size = 0
    for reply in replies:
        full = len(chunks[-1]) >= dataflows_limits.RESULTS_PER_RECORD_MAX
        if chunks[-1] and (full or size + len(reply.body) > dataflows_limits.RESULT_RECORD_BYTES_MAX):
            chunks.append([])
            size = 0
        chunks[-1].append(reply)
        size += len(reply.body)
    return chunks


class MarkTimer:
    """Stores published positions that no claim has carried for one interval. The lanes of a process share it."""

    def __init__(self) -> None:
        self._due = 0.0

    def run(
        self,
        connection: OwnerConnection,
        leases: Sequence[Lease],
        publisher: Publisher,
        mark: Callable[..., None],
    ) -> None:
        """Marks every lease whose stored position is behind, at most once per interval.

        A partition that had commands a moment ago is left to its next claim: each mark is a commit of its own. Two
        lanes that look in the same instant store the same.
        """
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _MARK_INTERVAL_S
        for lease in leases:
            published = publisher.published_seq(lease.partition)
            if published > lease.published_seq and now - lease.claimed_at_s >= _MARK_INTERVAL_S:
                mark(connection, lease, published)
