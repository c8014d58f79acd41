"""Where an owner reads on, compared with what Kafka holds.

Rule: nothing acknowledged vanishes silently. Offsets that are out of range, or of another topic of the same name, would
be skipped by any consumer that resets itself; here they are a reason to stop the partition.
"""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError
from msgspec import Struct

from schemas.errors import CommandsExpired, InvariantViolation, TopicReplaced, TopicShorter
from sinks.kafka.topic_offsets import Held

#: what a consumer says of a partition whose position Kafka does not hold
OUT_OF_RANGE: Final = frozenset(
    {
        KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001 - the library's name for an offset out of range without a reset
        KafkaError._LOG_TRUNCATION,  # noqa: SLF001 - the library's name for records that another leader never had
        KafkaError.OFFSET_OUT_OF_RANGE,
    }
)


class Place(Struct, frozen=True):
    """Where an owner reads on: an offset of Kafka, and the id of the topic that it is of (None: never read before)."""

    topic_id: str | None
    offset: int


def place_fault(place: Place, held: Held) -> InvariantViolation | None:
    """Why nobody may read on from there: it would skip commands, or take others for those that were read."""
    if place.topic_id is not None and place.topic_id != held.topic_id:
        return TopicReplaced(read=place.topic_id, found=held.topic_id, low=held.low, high=held.high)
    if place.offset > held.high:
        return TopicShorter(offset=place.offset, low=held.low, high=held.high)
    if place.offset < held.low:
        return CommandsExpired(offset=place.offset, low=held.low, high=held.high)
    return None


def witness_fault(place: Place, read: int | None, found: int | None) -> InvariantViolation | None:
    """A log that lost its end and grew over it has another command, of a later leader, where the last one was read."""
    return None if found == read else TopicShorter(offset=place.offset, leader_epoch=read, found=found)
