"""Compares what Postgres holds of a partition with what Kafka was told of it.

Rule: an event leaves after its commit only, so Kafka never knows one that the database does not have, but where that is
an older copy: restored, or a standby that had not everything. Whoever decided on it would decide again what is known
outside, under other conditions, and give ids of events away twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import structlog
from confluent_kafka import KafkaError, KafkaException

from schemas import codec
from schemas.errors import Corrupt, DatabaseOlder, InvariantViolation
from sinks.kafka.newest_records import NewestRecords

log: Final = structlog.get_logger()


class Told:
    """What Kafka knows of the events of one service."""

    def __init__(self, events: NewestRecords) -> None:
        self._events = events

    def newest(self, partitions: Iterable[int]) -> dict[int, int]:
        """The seq of the newest event in Kafka by partition, of those where one can be read there.

        Raises KafkaException when Kafka does not answer. An owner that may not read events says so, and goes on.
        """
        try:
            records = self._events.read(partitions)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise
            log.warning("events_not_compared", error=error.args[0].str())
            return {}
        return {p: seq for p, value in records.items() if (seq := _seq_of(value)) is not None}


def _seq_of(value: bytes) -> int | None:
    """None of what a later release wrote, or somebody else: followers say so."""
    try:
        return codec.decode_event(value).seq
    except Corrupt:
        return None


def told_fault(committed: int, told: int | None) -> InvariantViolation | None:
    """Why nobody may decide on this database: Kafka was told of events behind the newest one that it has."""
    return DatabaseOlder(committed=committed, told=told) if told is not None and told > committed else None
