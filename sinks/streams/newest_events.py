"""Reads the newest event of each partition in Kafka, to compare it with the newest in Postgres.

Rule: an event leaves only after its commit, so Kafka never has one that the database lacks, unless the database is an
older copy: restored, or a standby that had not everything. An owner of such a copy would decide again what is known
outside, under other conditions, and use ids of events twice; a follower would carry out what is no more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import structlog
from confluent_kafka import KafkaError, KafkaException

from schemas import errors
from schemas.avro import codec
from sinks.kafka.connection import KafkaConnection
from sinks.kafka.newest_records import NewestRecords

log: Final = structlog.get_logger()


class NewestEvents:
    """Of one topic of events; ``group`` is one that this process may name."""

    def __init__(self, kafka: KafkaConnection, topic: str, client_id: str, group: str) -> None:
        self._records = NewestRecords(kafka, topic, f"{client_id}-newest", group)

    def seqs(self, partitions: Iterable[int]) -> dict[int, int]:
        """The seq of the newest event in Kafka, by partition, where one can be read.

        Raises KafkaException if Kafka does not answer. A process that may not read events logs it and goes on.
        """
        try:
            records = self._records.read(partitions)
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
    except errors.Corrupt:
        return None
