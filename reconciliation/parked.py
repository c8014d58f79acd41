"""Parked commands: an operator lists them, and has each tried again or given up. Who, when and why is kept.

A retry resolves the record and releases its aggregate in one transaction and then produces the command again under the
same identity. A crash in between leaves it resolved but not republished: it stays in the list, to be retried again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer
from psycopg.rows import dict_row

from reconciliation import limits
from reconciliation.audit.log import append
from schemas.errors import NotFound, StateConflict, Unavailable
from sinks.kafka.delivery import parked_letter, why_not_delivered
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    import psycopg

    from sinks.kafka.connection import KafkaConnection

_SQL: Final = queries("reconciliation", "parked.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a parked record lay: its identity. As text: topic/partition/offset."""

    topic: str
    partition: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> Place:
        """Raises ValueError when the text is not one."""
        parts = text.rsplit("/", 2)
        if len(parts) != 3 or not parts[1].isdecimal() or not parts[2].isdecimal():  # noqa: PLR2004 - the three parts
            raise ValueError(f"{text!r} is not TOPIC/PARTITION/OFFSET; see 'millrace parked list'")
        return cls(topic=parts[0], partition=int(parts[1]), offset=int(parts[2]))

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Who decided, and why."""

    operator: str
    note: str


def parked_list(connection: psycopg.Connection, *, every_state: bool = False) -> list[dict[str, Any]]:
    """Records that wait, oldest first; with ``every_state`` also the resolved ones."""
    with connection.cursor(row_factory=dict_row) as cursor:
        parameters = {"every_state": every_state, "limit": limits.PARKED_LISTED_MAX}
        return cursor.execute(_SQL["parked_page"].encode(), parameters).fetchall()


def parked_discard(connection: psycopg.Connection, place: Place, decision: Decision) -> None:
    """The command is given up for ever and its aggregate works again. Raises NotFound or StateConflict."""
    _decide(connection, place, "discarded", "parked.discard", decision)


def parked_retry(connection: psycopg.Connection, kafka: KafkaConnection, place: Place, decision: Decision) -> None:
    """The command lies in its topic again and its aggregate works. Raises NotFound, StateConflict or Unavailable."""
    # 1. Decide, durably.
    aggregate_key, record = _decide(connection, place, "retried", "parked.retry", decision)
    # 2. Produce it: a second time does no harm, for its identity has one effect.
    letter = parked_letter(kafka, place.topic, place.partition, aggregate_key, record)
    producer = Producer(kafka.producer("operator"))
    if (reason := why_not_delivered(kafka, producer, [letter])) is not None:
        raise Unavailable(f"Kafka did not take {place}; retry it again: {reason}")
    # 3. Say so.
    connection.execute(_SQL["parked_republished"].encode(), _named(place))


def _decide(
    connection: psycopg.Connection, place: Place, state: str, action: str, decision: Decision
) -> tuple[str | None, bytes]:
    """The aggregate's key and the record. What is done, the database audits with it; what it refuses, this does."""
    values = {**_named(place), "state": state, "operator": decision.operator, "note": decision.note}
    word, aggregate_key, record = connection.execute(_SQL["parked_decide"].encode(), values).fetchone() or ()
    if word == state:
        return aggregate_key, bytes(record)
    refusal = (
        NotFound(f"nothing is parked at {place}; see 'millrace parked list'")
        if word == "not_found"
        else StateConflict(f"{place} is {word.removeprefix('is_')} already")
    )
    append(connection, decision.operator, action, str(place), "refused", note=decision.note, code=refusal.code)
    raise refusal


def _named(place: Place) -> dict[str, Any]:
    return {"topic": place.topic, "partition": place.partition, "offset": place.offset}
