"""A derived table in Postgres as a projection. Its shadow has the same columns, in the schema millrace_replay."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, ClassVar

from reconciliation import limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import psycopg

    from reconciliation.contract.compare import Row


class PostgresTable:
    """The live table is read in the replay's snapshot, the shadow on a connection that writes."""

    name: str
    sql: ClassVar[Mapping[str, str]]  # the queries of its service
    _table: str

    def __init__(self, snapshot: psycopg.Connection, writer: psycopg.Connection, topic: str) -> None:
        self._snapshot = snapshot
        self._writer = writer
        self._topic = topic

    def begin(self) -> None:
        """Makes an empty shadow."""
        self._writer.execute(f"truncate millrace_replay.{self._table}".encode())

    def drop(self) -> None:
        """Empties the shadow."""
        self.begin()

    def _stream(self, connection: psycopg.Connection, query: str, **parameters: object) -> Iterator[Row]:
        with connection.transaction(), closing(connection.cursor(f"replay_{query}")) as cursor:
            cursor.execute(self.sql[query].encode(), {"topic": self._topic, **parameters})
            while rows := cursor.fetchmany(limits.CHECK_FETCH_ROWS):
                yield from rows
