"""Partitions as an operator sees them: who owns each, and which are halted by a broken invariant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from psycopg.rows import dict_row

from reconciliation.audit.log import audited
from schemas.errors import StateConflict
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    import psycopg

_SQL: Final = queries("reconciliation", "partitions.sql")


def partitions_list(connection: psycopg.Connection) -> list[dict[str, Any]]:
    """Every partition that was ever owned."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_SQL["partitions_page"].encode()).fetchall()


def partition_resume(connection: psycopg.Connection, topic: str, partition: int, operator: str, note: str) -> None:
    """The partition's owner goes on within seconds. Raises StateConflict when it is not halted."""
    values = {"topic": topic, "partition": partition, "operator": operator, "note": note}
    with audited(connection, operator, "partition.resume", f"{topic}/{partition}", note=note):
        if connection.execute(_SQL["partition_resume"].encode(), values).fetchone() is None:
            raise StateConflict(f"{topic}/{partition} is not halted; see 'millrace partitions list'")
