"""The topic of usage as a dataflow: what one read brings is counted in one transaction with the positions.

Killed anywhere, it reads on from the positions, and what was counted is known by its identity. Of several processes one
counts, and the others stand by until it left or said nothing for ``STREAM_LEASE_S``. Whoever takes over fences the one
before: its transaction ends at the position. After one that took too long less is read at once.
What was acknowledged and is in the topic no more is never passed over: the partition stands still.
"""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import psycopg
import structlog
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, TopicPartition

from dataflows.owner import fail_points
from dataflows.owner.partition.next_offset import OUT_OF_RANGE, Place, witness_fault
from dataflows.owner.partition.topic_watch import TopicWatch
from dataflows.owner.senders import Senders
from dataflows.owner.transaction.size import TransactionSize
from dataflows.streams.positioned_stream import PositionedStream, raise_unless_passing
from dataflows.streams.read_ahead import ReadAhead
from dataflows.streams.strict_positions import End, StrictPositions, halt_of
from dataflows.tenancy.usage.counting import SQL, Counted, Metered, count
from dataflows.tenancy.usage.metrics import REFUSED
from dataflows.tenancy.usage.metrics import count as count_metrics
from dataflows.tenancy.usage.records import metered
from dataflows.tenancy.usage.refused import Refused, keep, refused
from schemas import errors
from schemas.tenancy import limits
from schemas.tenancy.usage_topic import USAGE, USAGE_PARTITIONS
from sinks import limits as sinks_limits
from sinks.kafka.headers import headers_of
from sinks.kafka.reading import next_messages
from sinks.kafka.topic_offsets import TopicOffsets
from sinks.kafka.unreadable import UnreadableBatches, begins_unreadable
from sinks.postgres import owner_connection
from sinks.streams.metrics import FollowerMetrics
from sinks.streams.stand_by import StandBy
from sinks.streams.standing_still import why_still

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from confluent_kafka import KafkaError, Message

    from dataflows.owner.senders import Keys
    from dataflows.streams.positioned_stream import Fold, Read
    from dataflows.streams.strict_positions import Begin
    from schemas.errors import InvariantViolation
    from sinks.kafka.connection import KafkaConnection
    from sinks.postgres.owner_connection import OwnerConnection
    from sinks.streams.intake import Halt

    StandStill = Callable[[int, Place, InvariantViolation], None]

FOLLOWER: Final = "tenancy_metering"
_GROUP: Final = "tenancy-metering"  # named by librdkafka's rules; positions are in Postgres
_US_PER_MS: Final = 1_000
_log: Final = structlog.get_logger(__name__)


class UsageBatch(NamedTuple):
    """What one read found new: all of it is one transaction, whatever its partitions."""

    usage: dict[int, list[Metered]]
    ends: dict[int, End]
    records: int  # that were read, those that count for nothing too
    refused: list[Refused]  # kept beside what counts
    partition: int = 0  # the key of the dataflow's step: batches are counted one after another


class UsageReader:
    """A consumer of all partitions. Positions come from Postgres and go there; Kafka keeps none.

    ``halt`` hears of what cannot be read on, as is true of ``begins`` already: nothing more comes of that partition.
    ``size`` says how much one batch is.
    """

    def __init__(
        self,
        kafka: KafkaConnection,
        client_id: str,
        begins: Mapping[int, Begin],
        senders: Senders,
        halt: StandStill,
        size: TransactionSize | None = None,
    ) -> None:
        self._topic = kafka.topic(USAGE)
        self._senders = senders
        self._halt = halt
        self._size = size or batch_size()
        self._watch = TopicWatch(TopicOffsets(kafka, USAGE))
        self._places = {p: begin.place for p, begin in begins.items() if begin.fault is None}
        self._witnesses = {p: begin.witness for p, begin in begins.items() if begin.witness is not None}
        settings = {"fetch.wait.max.ms": sinks_limits.KAFKA_FETCH_WAIT_ASSIGNED_MS, "auto.offset.reset": "error"}
        self._consumer = Consumer(kafka.consumer(client_id, _GROUP, **settings))
        starts = {p: place.offset - (p in self._witnesses) for p, place in self._places.items()}
        self._consumer.assign([TopicPartition(self._topic, p, offset) for p, offset in starts.items()])
        self._unreadable = UnreadableBatches(kafka, self._topic, client_id)

    def read(self) -> list[UsageBatch]:
        """What is new, in at most one batch. Raises KafkaException."""
        self._senders.look()
        for partition, fault in self._watch.look(self._places).items():
            self._stand_still(partition, fault)
        found: dict[int, list[Metered]] = {}
        ends: dict[int, End] = {}
        kept: list[Refused] = []
        idle_s, gather_s = sinks_limits.KAFKA_IDLE_WAIT_S, limits.USAGE_POLL_S
        messages = next_messages(self._consumer, self._size.at_most, idle_s, gather_s)
        for message in messages:
            if begins_unreadable(message):
                kept += self._passed(message.partition() or 0, message.offset() or 0, ends)
                continue
            if error := message.error():
                self._told(error, message.partition())
                continue
            partition, offset = message.partition() or 0, message.offset() or 0
            if not self._is_next(partition, offset, message.leader_epoch()):
                continue
            self._places[partition] = Place(self._places[partition].topic_id, offset + 1)
            ends[partition] = End(offset + 1, message.leader_epoch())
            usage = found.setdefault(partition, [])
            taken = self._judged(message, (partition, offset))
            (usage if isinstance(taken, Metered) else kept).append(taken)  # type: ignore[arg-type] # each to its own
        return [UsageBatch(found, ends, len(messages), kept)] if ends else []

    def _is_next(self, partition: int, offset: int, leader_epoch: int | None) -> bool:
        """Whether it follows what was read; not of the record before that, nor of what stands still."""
        place, read = self._places.get(partition), self._witnesses.pop(partition, None)
        if place is None or read is None:
            return place is not None
        found = leader_epoch if offset == place.offset - 1 else None
        if fault := witness_fault(place, read, found):
            self._stand_still(partition, fault)
        return False

    def _passed(self, partition: int, begins: int, ends: dict[int, End]) -> list[Refused]:
        """Goes on behind a batch that nobody can decompress: nobody who may send has written it, for ours are plain."""
        place = self._places.get(partition)
        if place is None or (end := self._unreadable.end_of(partition, begins)) <= place.offset:
            return []  # it stands still, or was told twice
        self._witnesses.pop(partition, None)
        self._places[partition], ends[partition] = Place(place.topic_id, end), End(end, None)
        self._consumer.seek(TopicPartition(self._topic, partition, end))
        return [self._refused((partition, place.offset), "batch_unreadable", "", time.time_ns() // 1_000)]

    def _told(self, error: KafkaError, partition: int | None) -> None:
        """What comes in place of a message."""
        place = None if partition is None or error.code() not in OUT_OF_RANGE else self._places.get(partition)
        if partition is None or place is None:
            raise_unless_passing(error, "usage")
        else:
            self._stand_still(partition, self._watch.why_out_of_range(partition, place, error.str()))

    def _stand_still(self, partition: int, fault: InvariantViolation) -> None:
        if place := self._places.pop(partition, None):
            self._consumer.pause([TopicPartition(self._topic, partition)])
            self._halt(partition, place, fault)

    def close(self) -> None:
        """Leaves Kafka."""
        self._consumer.close()

    def _judged(self, message: Message, place: tuple[int, int]) -> Metered | Refused:
        sender, reason = self._senders.sender_of(USAGE, message, needs_mac=True)
        key, value, appended_us = message.key() or b"", message.value() or b"", _appended_us(message)
        headers: Collection[str] = ()
        if reason is None:
            scopes = self._senders.scopes_of(sender)
            headers = () if scopes is None else headers_of(message) or ()  # nobody judges those of our own
            taken = metered(key, value, appended_us, sender, scopes, headers)
            if isinstance(taken, Metered):
                return taken
            reason = taken
        return self._refused(place, reason, sender, appended_us, key, value, headers)

    def _refused(
        self,
        place: tuple[int, int],
        reason: str,
        sender: str,
        appended_us: int,
        key: bytes = b"",
        value: bytes = b"",
        headers: Iterable[str] = (),
    ) -> Refused:
        partition, offset = place
        REFUSED.labels(reason).inc()
        _log.error("usage_refused", reason=reason, sender=sender, partition=partition, offset=offset)
        return refused(place, reason, sender, key, value, appended_us, headers)


def _appended_us(message: Message) -> int:
    kind, time_ms = message.timestamp()
    return time.time_ns() // 1_000 if kind == TIMESTAMP_NOT_AVAILABLE else time_ms * _US_PER_MS


def batch_size() -> TransactionSize:
    """Of who reads and who counts, whatever they begin anew."""
    return TransactionSize(limits.USAGE_BATCH_MAX)


class UsageCounter:
    """Counts for one process. Not for several threads."""

    def __init__(self, connection: OwnerConnection, topic: TopicOffsets, size: TransactionSize) -> None:
        self._connection = connection
        self._size = size
        self._positions = StrictPositions(FOLLOWER, USAGE, USAGE_PARTITIONS, FOLLOWER)
        connection.execute(SQL["counted_begin"].encode(), {"partitions": list(range(USAGE_PARTITIONS))})
        try:
            self.begins = self._positions.claim(connection, topic)
        except BaseException:
            self.close()  # nobody waits for who does not begin
            raise

    def count(self, batch: UsageBatch) -> Counted:
        """Counts a batch and moves its positions: both or neither. Raises psycopg.Error, or Fenced."""
        self._positions.hold(self._connection)
        began = time.monotonic()
        try:
            with self._connection.transaction():
                counted = count(self._connection, batch.usage)
                keep(self._connection, batch.refused)
                fail_points.reach("metering_before_position")
                self._positions.advance(self._connection, batch.ends)
        except psycopg.Error:
            self._size.failed(batch.records, time.monotonic() - began)
            raise
        except errors.Fenced:  # perhaps because it took too long, after who last said so long before that it counts
            self._size.failed(batch.records, time.monotonic() - began + sinks_limits.STREAM_LEASE_S / 4)
            raise
        self._size.committed(batch.records)
        fail_points.reach("metering_after_commit")
        return counted

    def held(self, read: Callable[[], Sequence[UsageBatch]]) -> Callable[[], Sequence[UsageBatch]]:
        """``read``, by who says meanwhile that it counts. Raises psycopg.Error or Fenced."""
        return self._positions.held(self._connection, read)

    def close(self) -> None:
        """Whoever stands by may count at once."""
        self._positions.release(self._connection)


class UsageStream(PositionedStream[UsageBatch, Counted]):
    """Counts what the topic of usage brings, until ``stop``; while another process does, it stands by."""

    def __init__(self, kafka: KafkaConnection, dsn: str, keys: Keys, client_id: str) -> None:
        super().__init__("metering", count_metrics, StandBy(dsn, FOLLOWER, USAGE))
        self._kafka = kafka
        self._dsn = dsn
        self._senders = Senders(keys)
        self._client_id = client_id
        self._size = batch_size()
        self._halts: dict[int, Halt] = {}
        self._metrics = FollowerMetrics(FOLLOWER)

    def why_not_ready(self) -> str | None:
        """None while all partitions are counted, or another process sees to them; any thread may ask."""
        if not self.is_ready:
            return "Postgres or Kafka is away"
        return why_still(self._halts)

    @contextmanager
    def opened(self) -> Iterator[tuple[Read[UsageBatch], Fold[UsageBatch, Counted]]]:
        """From the positions on."""
        with (
            closing(owner_connection.connect(self._dsn, self._client_id)) as connection,
            closing(UsageCounter(connection, TopicOffsets(self._kafka, USAGE), self._size)) as counter,
        ):
            self._halted({p: halt_of(p, b.place, b.fault) for p, b in counter.begins.items() if b.fault})
            try:
                with (
                    closing(self._reader(counter.begins)) as reader,
                    closing(ReadAhead(reader.read, "metering")) as ahead,
                ):
                    yield counter.held(ahead.read), counter.count
            finally:
                self._halted({})  # whoever counts next tells

    def _reader(self, begins: Mapping[int, Begin]) -> UsageReader:
        return UsageReader(self._kafka, self._client_id, begins, self._senders, self._stand_still, self._size)

    def _stand_still(self, partition: int, place: Place, fault: InvariantViolation) -> None:
        self._halted(self._halts | {partition: halt_of(partition, place, fault)})

    def _halted(self, halts: dict[int, Halt]) -> None:
        self._halts = halts
        self._metrics.halted(halts)
