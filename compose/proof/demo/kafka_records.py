"""Finds records in Kafka by their place or key, for the timeline: reads, joins no group, commits nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from confluent_kafka import Consumer, TopicPartition

from compose.proof import limits as proof_limits
from sinks import limits as sinks_limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sinks.kafka.connection import KafkaConnection

_CLIENT: Final = "demo-timeline"
_POLL_S: Final = 0.2
_US_PER_MS: Final = 1_000


class Place(NamedTuple):
    """Where a record lies."""

    topic: str
    partition: int
    offset: int


def record_times(kafka: KafkaConnection, places: Sequence[Place]) -> dict[Place, int]:
    """When the records at these places were produced, in microseconds; one that is gone is left out."""
    first: dict[tuple[str, int], int] = {}
    for place in places:
        lane = (place.topic, place.partition)
        first[lane] = min(place.offset, first.get(lane, place.offset))
    wanted, found = set(places), {}
    for place, _, at in _read(
        kafka, [TopicPartition(kafka.topic(lane[0]), lane[1], offset) for lane, offset in first.items()]
    ):
        if place in wanted:
            found[place] = at
            if len(found) == len(wanted):
                break
    return found


def records_of_key(
    kafka: KafkaConnection, lane: tuple[str, int], key: str, *, since_us: int, count: int
) -> list[tuple[Place, int]]:
    """The first ``count`` records of one key since a time, with their times."""
    start = _offset_at(kafka, lane, since_us // _US_PER_MS)
    found: list[tuple[Place, int]] = []
    for place, its_key, at in _read(kafka, [TopicPartition(kafka.topic(lane[0]), lane[1], start)]):
        if its_key == key.encode():
            found.append((place, at))
            if len(found) == count:
                break
    return found


def _offset_at(kafka: KafkaConnection, lane: tuple[str, int], at_ms: int) -> int:
    consumer = Consumer(kafka.consumer(_CLIENT, _CLIENT))
    try:
        asked = [TopicPartition(kafka.topic(lane[0]), lane[1], at_ms)]
        (answer,) = consumer.offsets_for_times(asked, timeout=proof_limits.DEMO_KAFKA_READ_TIMEOUT_S)
        return max(0, int(answer.offset))  # negative: nothing that new
    finally:
        consumer.close()


def _read(kafka: KafkaConnection, starts: list[TopicPartition]) -> Iterator[tuple[Place, bytes | None, int]]:
    """Records from the starts on, until the caller has enough or the time is over."""
    if not starts:
        return
    consumer = Consumer(kafka.consumer(_CLIENT, _CLIENT))
    try:
        consumer.assign(starts)
        ends_at = time.monotonic() + proof_limits.DEMO_KAFKA_READ_TIMEOUT_S
        while time.monotonic() < ends_at:
            for message in consumer.consume(sinks_limits.SINK_READ_MESSAGES_MAX, _POLL_S):
                topic, partition, offset = message.topic(), message.partition(), message.offset()
                if message.error() is None and topic is not None and partition is not None and offset is not None:
                    yield (
                        Place(topic.removeprefix(kafka.prefix), partition, offset),
                        message.key(),
                        message.timestamp()[1] * _US_PER_MS,
                    )
    finally:
        consumer.close()
