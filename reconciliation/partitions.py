"""Partitions as an operator sees them: who owns each, which stand still and why, and how each goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException
from psycopg.rows import dict_row

from reconciliation.audit.log import audited
from schemas.errors import (
    CommandsExpired,
    DatabaseOlder,
    GapInOffsets,
    StateConflict,
    TopicReplaced,
    TopicShorter,
    Unavailable,
)
from sinks.kafka.topic_offsets import TopicOffsets
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    import psycopg

    from sinks.kafka.connection import KafkaConnection
    from sinks.kafka.topic_offsets import Held

_SQL: Final = queries("reconciliation", "partitions.sql")
_RESUME: Final = "'millrace partitions resume {place} --note WHY"
_LOST: Final = "Callers whose commands the topic has lost repeat them."
_READ_ALL: Final = (
    f"{_RESUME} --from low' reads all that the topic holds now: what is known is answered with its stored result, the"
    f" rest is carried out, also what an operator discarded. '--from high' passes it over. {_LOST}"
)
#: the code at the beginning of a reason -> what to do
_ADVICE: Final = {
    TopicReplaced.code: _READ_ALL,
    TopicShorter.code: _READ_ALL,
    CommandsExpired.code: f"{_RESUME} --from low' goes on with the oldest command that is left. {_LOST}",
    DatabaseOlder.code: "The database is a copy of an earlier moment: bring back the newer one, where there is one; "
    f"{_RESUME}' then tries again. What is lost without it, docs/operators.md says.",
    GapInOffsets.code: "Find out who deletes from the topic, or writes to it in transactions; "
    f"{_RESUME} --from OFFSET' goes on at an offset of Kafka.",
}
_ADVICE_ELSE: Final = f"Mend the cause; {_RESUME}' tries again."


def partitions_list(connection: psycopg.Connection) -> list[dict[str, Any]]:
    """Every partition that was ever owned; a halted one with ``advice``."""
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(_SQL["partitions_page"].encode()).fetchall()
    return [row | {"advice": _advice(row)} for row in rows]


def _advice(row: dict[str, Any]) -> str | None:
    if row["halted"] is None:
        return None
    text = _ADVICE.get(row["halted"].partition(":")[0], _ADVICE_ELSE)
    return text.format(place=f"{row['topic']}/{row['partition']}")


def partition_resume(connection: psycopg.Connection, topic: str, partition: int, operator: str, note: str) -> None:
    """The partition's owner goes on within seconds, where it was. Raises StateConflict when it is not halted."""
    values = {"topic": topic, "partition": partition, "operator": operator, "note": note}
    with audited(connection, operator, "partition.resume", f"{topic}/{partition}", note=note):
        if connection.execute(_SQL["partition_resume"].encode(), values).fetchone() is None:
            raise _not_halted(topic, partition)


def partition_resume_from(
    connection: psycopg.Connection,
    kafka: KafkaConnection,
    topic: str,
    partition: int,
    operator: str,
    note: str,
    *,
    start: str,
) -> int:
    """As ``partition_resume``, at another offset of the topic as it is now: ``low``, ``high`` or a number between them.

    Returns that offset. Places of commands go on counting, so that no two commands have the same one. Raises
    StateConflict for what is not halted or not in the topic, ValueError for what is no offset, Unavailable when Kafka
    does not answer.
    """
    try:
        held = TopicOffsets(kafka, topic).ask([partition]).answer()[partition]
    except KafkaException as error:
        raise Unavailable(f"Kafka does not say what {topic} holds: {error.args[0].str()}") from error
    offset = _chosen(start, held)
    values: dict[str, object] = {"topic": topic, "partition": partition, "operator": operator, "note": note}
    values |= {"topic_id": held.topic_id, "offset": offset}
    details = {"from": start, "offset": offset, "topic_id": held.topic_id, "low": held.low, "high": held.high}
    with audited(connection, operator, "partition.resume", f"{topic}/{partition}", note=note, **details):
        if not held.low <= offset <= held.high:
            raise StateConflict(f"{topic}/{partition} holds offsets from {held.low} to {held.high}, not {offset}")
        if connection.execute(_SQL["partition_resume_from"].encode(), values).fetchone() is None:
            raise _not_halted(topic, partition)
    return offset


def _chosen(start: str, held: Held) -> int:
    if start in ("low", "high"):
        return held.low if start == "low" else held.high
    if not start.isdecimal():
        raise ValueError(f"--from is low, high or an offset, not {start!r}")
    return int(start)


def _not_halted(topic: str, partition: int) -> StateConflict:
    return StateConflict(f"{topic}/{partition} is not halted; see 'millrace partitions list'")
