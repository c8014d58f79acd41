"""Compares the places where partitions are read with what Kafka holds of their topic, while they are read."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

import structlog
from confluent_kafka import KafkaException

from dataflows import limits
from dataflows.owner.partition.next_offset import Place, place_fault
from schemas.errors import InvariantViolation, TopicShorter
from sinks.kafka.topic_offsets import Inquiry, TopicOffsets

log: Final = structlog.get_logger()


class TopicWatch:
    """Watches one topic; used only by the thread that reads it."""

    def __init__(self, topic: TopicOffsets) -> None:
        self._topic = topic
        self._due = 0.0
        self._asked: dict[int, Place] = {}
        self._inquiry: Inquiry | None = None

    def look(self, reading: Mapping[int, Place]) -> dict[int, InvariantViolation]:
        """Looks now and then; the faults of the places where partitions are read. Never waits for Kafka's answer.

        A topic that was made again is known by its id, even if it has grown as long as the old one.
        """
        now = time.monotonic()
        if self._inquiry is None:
            if reading and now >= self._due:
                self._due = now + limits.TOPIC_WATCH_INTERVAL_S
                self._asked = dict(reading)
                self._inquiry = self._topic.ask(self._asked)
            return {}
        if not self._inquiry.is_done():
            return {}
        inquiry, self._inquiry = self._inquiry, None
        try:
            held = inquiry.answer()
        except KafkaException as error:  # Kafka is away, or the topic is being made again: the consumer tells of it
            log.warning("topic_not_compared", error=error.args[0].str())
            return {}
        return {p: fault for p, place in self._asked.items() if (fault := place_fault(place, held[p])) is not None}

    def forget(self, partition: int) -> None:
        """Ignores an answer that is under way: the partition is read from another place now."""
        self._asked.pop(partition, None)

    def why_out_of_range(self, partition: int, place: Place, said: str) -> InvariantViolation:
        """The fault of a place that Kafka does not hold, as a consumer was told."""
        held = self._topic.ask([partition]).answer()[partition]
        truncated = TopicShorter(offset=place.offset, low=held.low, high=held.high, said=said)
        return place_fault(place, held) or truncated
