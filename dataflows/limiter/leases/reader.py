"""Reads reports of leases from the positions in Postgres, and says up to when all of them are read.

The watermark does not trust the clocks of gateways: it is the time at which the broker was asked for the end of the
partition, and it counts once everything before that end is read. A broker that does not answer moves no watermark.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from dataflows.streams.positioned_stream import raise_unless_passing
from limiter.stream.lease_book import LeaseReport, decode_reports
from schemas import limits
from schemas.limiter import topics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import Message

    from sinks.kafka.connection import KafkaConnection

_log: Final = structlog.get_logger(__name__)
_NS_PER_US: Final = 1_000
_GROUP: Final = "limiter-leases"  # named by librdkafka's rules; positions are in Postgres


class LeaseBatch(NamedTuple):
    """What is new in one partition."""

    partition: int
    reports: list[tuple[int, LeaseReport]]  # with their offsets
    next_offset: int
    watermark_us: int  # every report that Kafka had at this time is in this batch or in one before; 0 = not known yet


class _Place:
    """How far one partition is read."""

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self.asked_us = 0
        self.end_then: int | None = None  # of the partition, at ``asked_us``
        self.asked_at = 0.0
        self.watermark_us = 0


class LeaseReader:
    """A consumer of all partitions. Positions come from Postgres and go there; Kafka keeps none."""

    def __init__(self, kafka: KafkaConnection, client_id: str, positions: Mapping[int, int]) -> None:
        self._consumer = Consumer(kafka.consumer(client_id, _GROUP))
        self._topic = kafka.topic(topics.LEASES)
        self._places = {partition: _Place(offset) for partition, offset in positions.items()}
        self._consumer.assign([TopicPartition(self._topic, p, offset) for p, offset in positions.items()])

    def read(self) -> list[LeaseBatch]:
        """One batch of every partition that has something new. Raises KafkaException."""
        for partition, place in self._places.items():
            if not self._ask_for_the_end(partition, place):
                break  # the others would be waited for in vain too
        found: dict[int, list[tuple[int, LeaseReport]]] = {partition: [] for partition in self._places}
        for message in self._consumer.consume(limits.LIMIT_LEASE_MESSAGES_MAX, limits.LIMIT_LEASE_POLL_S):
            if error := message.error():
                raise_unless_passing(error, "leases")
                continue
            partition, offset = message.partition() or 0, message.offset() or 0
            found[partition].extend((offset, report) for report in _reports(message))
            self._places[partition].next_offset = offset + 1
        return [
            LeaseBatch(partition, found[partition], place.next_offset, place.watermark_us)
            for partition, place in self._places.items()
            if self._moves_watermark(place) or found[partition]
        ]

    def close(self) -> None:
        """Leaves Kafka."""
        self._consumer.close()

    def _ask_for_the_end(self, partition: int, place: _Place) -> bool:
        """At most every so often: it is a question to the broker. False when it did not answer."""
        if place.end_then is not None or time.monotonic() - place.asked_at < limits.LIMIT_LEASE_WATERMARK_S:
            return True
        place.asked_at = time.monotonic()
        asked_us = time.time_ns() // _NS_PER_US
        try:
            asked = TopicPartition(self._topic, partition)
            _, place.end_then = self._consumer.get_watermark_offsets(asked, timeout=limits.LIMIT_LEASE_ASK_S)
        except KafkaException as error:
            raise_unless_passing(error.args[0], "leases")
            return False
        place.asked_us = asked_us
        return True

    def _moves_watermark(self, place: _Place) -> bool:
        if place.end_then is None or place.next_offset < place.end_then:
            return False
        place.watermark_us, place.end_then = place.asked_us, None
        return True


def _reports(message: Message) -> list[LeaseReport]:
    try:
        return decode_reports(message.value() or b"")
    except msgspec.DecodeError as error:
        where = {"partition": message.partition(), "offset": message.offset()}
        _log.error("lease_reports_unreadable", reason=str(error), **where)
        return []
