"""The next offset of a partition, compared with the offsets that Kafka holds.

Rule: nothing acknowledged vanishes silently. A consumer that resets itself would skip offsets that are out of range or
belong to another topic of the same name; here they stop the partition.
"""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError
from msgspec import Struct

from schemas.errors import CommandsExpired, DatabaseOlder, InvariantViolation, TopicReplaced, TopicShorter
from sinks.kafka.topic_offsets import Held

#: the errors by which a consumer tells that Kafka does not hold a partition's position
OUT_OF_RANGE: Final = frozenset(
    {
        KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001 - the library's name for an offset out of range without a reset
        KafkaError._LOG_TRUNCATION,  # noqa: SLF001 - the library's name for records that another leader never had
        KafkaError.OFFSET_OUT_OF_RANGE,
    }
)


class Place(Struct, frozen=True):
    """Where an owner reads on: an offset of Kafka and the id of its topic (None: never read before)."""

    topic_id: str | None
    offset: int


def place_fault(place: Place, held: Held) -> InvariantViolation | None:
    """The reason not to read on from there: commands would be skipped, or others be taken for those that were read."""
    if place.topic_id is not None and place.topic_id != held.topic_id:
        return TopicReplaced(read=place.topic_id, found=held.topic_id, low=held.low, high=held.high)
    if place.offset > held.high:
        return TopicShorter(offset=place.offset, low=held.low, high=held.high)
    if place.offset < held.low:
        return CommandsExpired(offset=place.offset, low=held.low, high=held.high)
    return None


def told_fault(committed: int, told: int | None) -> InvariantViolation | None:
    """The reason not to decide on this database, if Kafka was told of newer events than it has."""
    return DatabaseOlder(committed=committed, told=told) if told is not None and told > committed else None


def witness_fault(place: Place, read: int | None, found: int | None) -> InvariantViolation | None:
    """The reason if the last command that was read is another one now: the log lost its end and grew again."""
    return None if found == read else TopicShorter(offset=place.offset, leader_epoch=read, found=found)
