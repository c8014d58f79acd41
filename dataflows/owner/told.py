"""Compares the newest event of a partition in Postgres with the newest in Kafka.

Rule: an event leaves only after its commit, so Kafka never has one that the database lacks, unless the database is an
older copy: restored, or a standby that had not everything. An owner of such a copy would decide again what is known
outside, under other conditions, and use ids of events twice.
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
    """The events of one service that Kafka was told of."""

    def __init__(self, events: NewestRecords) -> None:
        self._events = events

    def newest(self, partitions: Iterable[int]) -> dict[int, int]:
        """The seq of the newest event in Kafka, by partition, where one can be read.

        Raises KafkaException if Kafka does not answer. An owner that may not read events logs it and goes on.
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
    """The seq of an event; None for a record of a later release or of somebody else, which followers report."""
    try:
        return codec.decode_event(value).seq
    except Corrupt:
        return None


def told_fault(committed: int, told: int | None) -> InvariantViolation | None:
    """The reason not to decide on this database, if Kafka was told of newer events than it has."""
    return DatabaseOlder(committed=committed, told=told) if told is not None and told > committed else None
