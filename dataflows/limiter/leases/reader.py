"""Reads reports of leases from the positions in Postgres, and says up to when all of them are read.

The watermark does not trust the clocks of gateways: it is the time at which the broker was asked for the end of the
partition, and it counts once everything before that end is read. A broker that does not answer moves no watermark. By
Kafka's own clock that time is at least the newest message's and what has passed here since that was read.
Where no lease is open nobody is settled by it, and it is asked for rarely.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaException, TopicPartition

from dataflows.streams.positioned_stream import raise_unless_passing
from limiter.stream.lease_book import LeaseReport, decode_reports
from schemas.limiter import limits, topics
from sinks import limits as sinks_limits
from sinks.kafka.reading import next_messages
from sinks.streams.intake import undecodable
from sinks.streams.metrics import missed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Message

    from sinks.kafka.connection import KafkaConnection
    from sinks.kafka.topic_offsets import Ends, TopicOffsets

_NS_PER_US: Final = 1_000
_US_PER_MS: Final = 1_000
_US_PER_S: Final = 1_000_000
FOLLOWER: Final = "limiter_leases"
_GROUP: Final = "limiter-leases"  # named by librdkafka's rules; positions are in Postgres


class LeaseBatch(NamedTuple):
    """What is new in one partition."""

    partition: int
    reports: list[tuple[int, int, LeaseReport]]  # with their offsets, and when Kafka appended them
    next_offset: int
    watermark_us: int  # every report that Kafka had at this time is in this batch or in one before; 0 = not known yet
    kafka_us: int  # the same, by Kafka's clock, or earlier


class _Place:
    """How far one partition is read."""

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self.asked_us = 0
        self.asked_at = -math.inf  # the same time, by the clock that runs evenly
        self.end_then: int | None = None  # of the partition, then
        self.watermark_us = 0
        self.kafka_us = 0
        self.newest_us = 0  # when Kafka appended what was read last
        self.newest_at = 0.0  # and when that was read, by this machine

    def is_due(self, now: float, *, is_open: bool) -> bool:
        """Whether the end of the partition is to be asked for."""
        every_s = limits.LIMIT_LEASE_WATERMARK_S if is_open else limits.LIMIT_LEASE_WATERMARK_IDLE_S
        return self.end_then is None and now - self.asked_at >= every_s

    def heard(self, appended_us: int, now: float) -> None:
        """A message was read."""
        if appended_us >= self.kafka_at(now):
            self.newest_us, self.newest_at = appended_us, now

    def kafka_at(self, now: float) -> int:
        """Kafka's clock is at least so far; 0 before anything was read."""
        return self.newest_us and self.newest_us + int((now - self.newest_at) * _US_PER_S)


class LeaseReader:
    """A consumer of all partitions. Positions come from Postgres and go there; Kafka keeps none."""

    def __init__(
        self,
        kafka: KafkaConnection,
        client_id: str,
        positions: Mapping[int, int],
        offsets: TopicOffsets,
        is_open: Callable[[int], bool],
    ) -> None:
        """``is_open``: whether a lease of a partition waits for its settlement."""
        self._offsets = offsets
        self._is_open = is_open
        self._ends: Ends | None = None
        fetch = {"fetch.wait.max.ms": sinks_limits.KAFKA_FETCH_WAIT_ASSIGNED_MS, "auto.offset.reset": "error"}
        self._consumer = Consumer(kafka.consumer(client_id, _GROUP, **fetch))
        self._topic = kafka.topic(topics.LEASES)
        self._places = {partition: _Place(offset) for partition, offset in positions.items()}
        self._consumer.assign([TopicPartition(self._topic, p, offset) for p, offset in positions.items()])

    def read(self) -> list[LeaseBatch]:
        """One batch of every partition that has something new. Raises KafkaException."""
        self._ask_for_ends()
        found: dict[int, list[tuple[int, int, LeaseReport]]] = {partition: [] for partition in self._places}
        gather_s = limits.LIMIT_LEASE_POLL_S
        idle_s = gather_s if any(map(self._is_open, self._places)) else sinks_limits.KAFKA_IDLE_WAIT_S
        for message in next_messages(self._consumer, limits.LIMIT_LEASE_MESSAGES_MAX, idle_s, gather_s):
            if error := message.error():
                raise_unless_passing(error, "leases")
                continue
            partition, offset = message.partition() or 0, message.offset() or 0
            appended_us = _appended_us(message)
            found[partition].extend((offset, appended_us, report) for report in _reports(message))
            self._places[partition].next_offset = offset + 1
            self._places[partition].heard(appended_us, time.monotonic())
        return [
            LeaseBatch(partition, found[partition], place.next_offset, place.watermark_us, place.kafka_us)
            for partition, place in self._places.items()
            if self._moves_watermark(place) or found[partition]
        ]

    def close(self) -> None:
        """Leaves Kafka."""
        self._consumer.close()

    def _ask_for_ends(self) -> None:
        """Now and then, of all partitions at once: it is a question to the broker. Never waits for its answer."""
        if self._ends is not None:
            if self._ends.is_done():
                self._take(self._ends)
                self._ends = None
            return  # one at a time
        now, now_us = time.monotonic(), time.time_ns() // _NS_PER_US
        due = [p for p, place in self._places.items() if place.is_due(now, is_open=self._is_open(p))]
        for partition in due:
            place = self._places[partition]
            place.asked_at, place.asked_us = now, now_us
        if due:
            self._ends = self._offsets.ask_ends(due, limits.LIMIT_LEASE_ASK_S)

    def _take(self, ends: Ends) -> None:
        try:
            said = ends.answer()
        except KafkaException as error:
            raise_unless_passing(error.args[0], "leases")
            return
        for partition, end in said.items():
            self._places[partition].end_then = end

    def _moves_watermark(self, place: _Place) -> bool:
        if place.end_then is None or place.next_offset < place.end_then:
            return False
        place.watermark_us, place.end_then = place.asked_us, None
        place.kafka_us = place.kafka_at(place.asked_at)
        return True


def _appended_us(message: Message) -> int:
    """Kafka's time. Of a topic that an older release made, as long as it has producers' times: ours, which is later."""
    kind, time_ms = message.timestamp()
    return time_ms * _US_PER_MS if kind == TIMESTAMP_LOG_APPEND_TIME else time.time_ns() // _NS_PER_US


def _reports(message: Message) -> list[LeaseReport]:
    try:
        return decode_reports(message.value() or b"")
    except msgspec.DecodeError as error:
        # A lease without reports is assumed spent; one that stood still here would keep all others from settlement.
        halt = undecodable(message.partition() or 0, message.offset() or 0, str(error))
        missed(FOLLOWER, halt.reason, halt.words)
        return []
