"""The topic of usage as a dataflow: what one read brings is counted in one transaction with the positions.

Killed anywhere, it reads on from the positions, and what was counted is known by its identity. A second process that
takes over fences the first: its transaction ends at the position.
"""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, TopicPartition

from dataflows.owner import fail_points
from dataflows.owner.senders import Senders
from dataflows.streams.positioned_stream import PositionedStream, raise_unless_passing
from dataflows.streams.read_ahead import ReadAhead
from dataflows.tenancy.usage.counting import SQL, Counted, Metered, count
from dataflows.tenancy.usage.metrics import REFUSED
from dataflows.tenancy.usage.metrics import count as count_metrics
from dataflows.tenancy.usage.records import metered
from schemas.tenancy import limits
from schemas.tenancy.usage_topic import USAGE, USAGE_PARTITIONS
from sinks import limits as sinks_limits
from sinks.kafka.reading import next_messages
from sinks.kafka.topic_offsets import TopicOffsets
from sinks.postgres import owner_connection
from sinks.streams.record_positions import RecordPositions, readable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from confluent_kafka import Message

    from dataflows.owner.senders import Keys
    from dataflows.streams.positioned_stream import Fold, Read
    from sinks.kafka.connection import KafkaConnection
    from sinks.postgres.owner_connection import OwnerConnection

FOLLOWER: Final = "tenancy_metering"
_GROUP: Final = "tenancy-metering"  # named by librdkafka's rules; positions are in Postgres
_US_PER_MS: Final = 1_000
_log: Final = structlog.get_logger(__name__)


class UsageBatch(NamedTuple):
    """What one read found new: all of it is one transaction, whatever its partitions."""

    usage: dict[int, list[Metered]]
    next_offsets: dict[int, int]
    partition: int = 0  # the key of the dataflow's step: batches are counted one after another


class UsageReader:
    """A consumer of all partitions. Positions come from Postgres and go there; Kafka keeps none."""

    def __init__(self, kafka: KafkaConnection, client_id: str, positions: Mapping[int, int], senders: Senders) -> None:
        self._topic = kafka.topic(USAGE)
        self._senders = senders
        fetch = {"fetch.wait.max.ms": sinks_limits.KAFKA_FETCH_WAIT_ASSIGNED_MS}
        self._consumer = Consumer(kafka.consumer(client_id, _GROUP, **fetch))
        self._consumer.assign([TopicPartition(self._topic, p, offset) for p, offset in positions.items()])

    def read(self) -> list[UsageBatch]:
        """What is new, in at most one batch. Raises KafkaException."""
        self._senders.look()
        found: dict[int, list[Metered]] = {}
        ends: dict[int, int] = {}
        idle_s, gather_s = sinks_limits.KAFKA_IDLE_WAIT_S, limits.USAGE_POLL_S
        for message in next_messages(self._consumer, limits.USAGE_BATCH_MAX, idle_s, gather_s):
            if error := message.error():
                raise_unless_passing(error, "usage")
                continue
            partition, offset = message.partition() or 0, message.offset() or 0
            usage = found.setdefault(partition, [])
            ends[partition] = offset + 1
            if (taken := self._judged(message)) is not None:
                usage.append(taken)
        return [UsageBatch(found, ends)] if ends else []

    def close(self) -> None:
        """Leaves Kafka."""
        self._consumer.close()

    def _judged(self, message: Message) -> Metered | None:
        sender, reason = self._senders.sender_of(USAGE, message, needs_mac=True)
        if reason is None:
            scopes = self._senders.scopes_of(sender)
            key, value = message.key() or b"", message.value() or b""
            headers = dict(message.headers() or ())
            taken = metered(key, value, _appended_us(message), sender, scopes, headers)
            if isinstance(taken, Metered):
                return taken
            reason = taken
        REFUSED.labels(reason).inc()
        place = {"partition": message.partition(), "offset": message.offset()}
        _log.error("usage_refused", reason=reason, sender=sender, **place)
        return None


def _appended_us(message: Message) -> int:
    kind, time_ms = message.timestamp()
    return time.time_ns() // 1_000 if kind == TIMESTAMP_NOT_AVAILABLE else time_ms * _US_PER_MS


class UsageCounter:
    """Counts for one process. Not for several threads."""

    def __init__(self, connection: OwnerConnection) -> None:
        self._connection = connection
        self._positions = RecordPositions(FOLLOWER, USAGE, USAGE_PARTITIONS, FOLLOWER)
        connection.execute(SQL["counted_begin"].encode(), {"partitions": list(range(USAGE_PARTITIONS))})
        self.begins = self._positions.claim(connection)

    def count(self, batch: UsageBatch) -> Counted:
        """Counts a batch and moves its positions: both or neither. Raises psycopg.Error, or Fenced."""
        with self._connection.transaction():
            counted = count(self._connection, batch.usage)
            fail_points.reach("metering_before_position")
            self._positions.advance(self._connection, batch.next_offsets)
        fail_points.reach("metering_after_commit")
        return counted


class UsageStream(PositionedStream[UsageBatch, Counted]):
    """Counts what the topic of usage brings, until ``stop``."""

    def __init__(self, kafka: KafkaConnection, dsn: str, keys: Keys, client_id: str) -> None:
        super().__init__("metering", count_metrics)
        self._kafka = kafka
        self._dsn = dsn
        self._senders = Senders(keys)
        self._client_id = client_id

    @contextmanager
    def opened(self) -> Iterator[tuple[Read[UsageBatch], Fold[UsageBatch, Counted]]]:
        """From the positions on."""
        with closing(owner_connection.connect(self._dsn, self._client_id)) as connection:
            counter = UsageCounter(connection)
            begins = self._readable(counter.begins)
            with (
                closing(UsageReader(self._kafka, self._client_id, begins, self._senders)) as reader,
                closing(ReadAhead(reader.read, "metering")) as ahead,
            ):
                yield ahead.read, counter.count

    def _readable(self, begins: Mapping[int, int]) -> dict[int, int]:
        held: Mapping[int, Any] = TopicOffsets(self._kafka, USAGE).ask(begins).answer()
        return readable(begins, held, FOLLOWER)
