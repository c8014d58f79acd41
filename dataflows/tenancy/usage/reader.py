"""Reads the topic of usage: what each read brings is judged, and is one batch.

What was acknowledged and is in the topic no more is never passed over: the partition stands still.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, TopicPartition

from dataflows.owner.partition.next_offset import OUT_OF_RANGE, Place, witness_fault
from dataflows.owner.partition.topic_watch import TopicWatch
from dataflows.owner.transaction.size import TransactionSize
from dataflows.streams.positioned_stream import raise_unless_passing
from dataflows.streams.strict_positions import End
from dataflows.tenancy.usage.counting import Metered
from dataflows.tenancy.usage.metrics import REFUSED
from dataflows.tenancy.usage.records import metered
from dataflows.tenancy.usage.refused import Refused, refused
from schemas.tenancy import limits
from schemas.tenancy.usage_topic import USAGE
from sinks import limits as sinks_limits
from sinks.kafka.headers import headers_of
from sinks.kafka.reading import next_messages
from sinks.kafka.topic_offsets import TopicOffsets
from sinks.kafka.unreadable import UnreadableBatches, begins_unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from confluent_kafka import KafkaError, Message

    from dataflows.owner.senders import Senders
    from dataflows.streams.strict_positions import Begin
    from schemas.errors import InvariantViolation
    from sinks.kafka.connection import KafkaConnection

    StandStill = Callable[[int, Place, InvariantViolation], None]

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
        idle_s, gather_s = sinks_limits.KAFKA_IDLE_WAIT_S, limits.USAGE_POLL_S
        messages = next_messages(self._consumer, self._size.at_most, idle_s, gather_s)
        batch = UsageBatch(defaultdict(list), {}, len(messages), [])
        self._sort(messages, batch)
        return [batch] if batch.ends else []

    def _sort(self, messages: Iterable[Message], batch: UsageBatch) -> None:
        last: dict[int, Message] = {}  # of each partition
        for message in messages:
            partition, offset = message.partition() or 0, message.offset() or 0
            if error := message.error():
                self._reach(last, batch.ends)
                if begins_unreadable(message):
                    batch.refused.extend(self._passed(partition, offset, batch.ends))
                else:
                    self._told(error, message.partition())
            elif self._is_next(partition, offset, message.leader_epoch()):
                last[partition] = message
                taken = self._judged(message, (partition, offset))
                if isinstance(taken, Metered):
                    batch.usage[partition].append(taken)
                else:
                    batch.refused.append(taken)
        self._reach(last, batch.ends)

    def _reach(self, last: dict[int, Message], ends: dict[int, End]) -> None:
        """Stands behind these, which are the last ones no more."""
        while last:
            partition, message = last.popitem()
            end = (message.offset() or 0) + 1
            self._places[partition] = Place(self._places[partition].topic_id, end)
            ends[partition] = End(end, message.leader_epoch())

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
