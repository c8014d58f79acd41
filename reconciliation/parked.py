"""Parked commands: an operator lists them, and has each tried again or given up. Who, when and why is kept.

A retry resolves the record and releases its aggregate in one transaction and then produces the command again under the
same identity. A crash in between leaves it resolved but not republished: it stays in the list, to be retried again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer
from psycopg.rows import dict_row

from reconciliation.audit.log import audited
from schemas import codec, limits
from schemas.errors import Corrupt, NotFound, StateConflict, Unavailable
from sinks.kafka.delivery import why_not_delivered
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
    with audited(connection, decision.operator, "parked.discard", str(place), note=decision.note):
        aggregate_key, state, _, _ = _lock(connection, place)
        if state != "open":
            raise StateConflict(f"{place} is {state} already")
        _resolve(connection, place, decision, "discarded", aggregate_key)


def parked_retry(connection: psycopg.Connection, kafka: KafkaConnection, place: Place, decision: Decision) -> None:
    """The command lies in its topic again and its aggregate works. Raises NotFound, StateConflict or Unavailable."""
    # 1. Decide, durably.
    with audited(connection, decision.operator, "parked.retry", str(place), note=decision.note):
        aggregate_key, state, record, republished_at = _lock(connection, place)
        if state == "discarded" or republished_at is not None:
            raise StateConflict(f"{place} is {state} already")
        if state == "open":
            _resolve(connection, place, decision, "retried", aggregate_key)
    # 2. Produce it: a second time does no harm, for its identity has one effect.
    _produce(kafka, place, aggregate_key, _without_deadline(record))
    # 3. Say so.
    connection.execute(_SQL["parked_republished"].encode(), _named(place))


def _lock(connection: psycopg.Connection, place: Place) -> tuple[str | None, str, bytes, Any]:
    row = connection.execute(_SQL["parked_lock"].encode(), _named(place)).fetchone()
    if row is None:
        raise NotFound(f"nothing is parked at {place}; see 'millrace parked list'")
    aggregate_key, state, record, republished_at = row
    return aggregate_key, state, bytes(record), republished_at


def _resolve(
    connection: psycopg.Connection, place: Place, decision: Decision, state: str, aggregate_key: str | None
) -> None:
    values = {**_named(place), "state": state, "operator": decision.operator, "note": decision.note}
    connection.execute(_SQL["parked_resolve"].encode(), values)
    if aggregate_key is not None:
        connection.execute(_SQL["aggregate_release"].encode(), {"aggregate_key": aggregate_key})


def _without_deadline(record: bytes) -> bytes:
    """The same command, except that nobody waits for it any more; as it came when it is unreadable."""
    try:
        command = codec.decode_command(record)
    except Corrupt:
        return record
    command.deadline_at, command.reply_to, command.reply_id = 0, -1, 0
    return codec.encode_command(command)


def _produce(kafka: KafkaConnection, place: Place, key: str | None, record: bytes) -> None:
    producer = Producer(kafka.producer("operator"))
    reason = why_not_delivered(producer, [(place.topic, record, key, place.partition)])
    if reason is not None:
        raise Unavailable(f"Kafka did not take {place}; retry it again: {reason}")


def _named(place: Place) -> dict[str, Any]:
    return {"topic": place.topic, "partition": place.partition, "offset": place.offset}
