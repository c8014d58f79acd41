"""Fills an events topic again from the outbox, for readers that wait behind a gap.

Readers take exactly ``last + 1``, so events that come again are dropped by whoever has them. An owner may go on
publishing meanwhile; a reader behind the gap would drop what it publishes in between. Therefore the last events are
sent while nothing can be committed: whatever is committed after them follows them in the topic, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from confluent_kafka import Producer

from reconciliation.audit.log import announced
from schemas import limits, stored_event
from schemas.errors import StateConflict, Unavailable
from schemas.topics import commands_topic, events_topic
from sinks.kafka.delivery import why_not_delivered
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    import psycopg

    from sinks.kafka.connection import KafkaConnection

_SQL: Final = queries("reconciliation", "partitions.sql")


def republish(
    connection: psycopg.Connection,
    kafka: KafkaConnection,
    service: str,
    partition: int,
    from_seq: int,
    operator: str,
    note: str,
) -> int:
    """Publishes every event of the partition from ``from_seq`` on once more, in order, and returns how many.

    Raises StateConflict when there is no such event, Unavailable when Kafka does not take one; then the same may be
    repeated.
    """
    commands, events = commands_topic(service), events_topic(service)
    place = {"topic": events, "partition": partition}
    details = {"from_seq": from_seq, "note": note}
    with announced(connection, operator, "partition.republish", f"{events}/{partition}", **details) as found:
        newest = _newest(connection, place)
        if not newest:
            raise StateConflict(f"{events}/{partition} has no events")
        if not 1 <= from_seq <= newest:
            raise StateConflict(f"{events}/{partition} has events 1 to {newest}, and not {from_seq}")
        producer = Producer(kafka.producer("republish"))
        following = from_seq
        while newest - following >= limits.PUBLISH_RESUME_CHUNK:
            following = _send(connection, kafka, producer, place, following)
            newest = _newest(connection, place)
        with connection.transaction():
            connection.execute(_SQL["partition_hold"].encode(), {"topic": commands, "partition": partition})
            while following <= _newest(connection, place):
                following = _send(connection, kafka, producer, place, following)
        found["events"] = following - from_seq
        return following - from_seq


def _newest(connection: psycopg.Connection, place: dict[str, object]) -> int:
    row = connection.execute(_SQL["outbox_last"].encode(), place).fetchone()
    return row[0] if row else 0


def _send(
    connection: psycopg.Connection,
    kafka: KafkaConnection,
    producer: Producer,
    place: dict[str, object],
    following: int,
) -> int:
    """Sends the next events and waits until Kafka has them; returns the seq after the last one."""
    page = {**place, "from_seq": following, "limit": limits.PUBLISH_RESUME_CHUNK}
    rows = connection.execute(_SQL["outbox_page"].encode(), page).fetchall()
    topic, partition = str(place["topic"]), int(str(place["partition"]))
    letters = ((topic, stored_event.published(bytes(stored)), key, partition, None) for _, stored, key in rows)
    if reason := why_not_delivered(kafka, producer, letters):
        raise Unavailable(f"Kafka does not take events from {following} on: {reason}")
    return int(rows[-1][0]) + 1
