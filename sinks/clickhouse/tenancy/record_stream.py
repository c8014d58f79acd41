"""What tenants cost, evidence of the isolation monitor and the audit log for their sink, out of Postgres."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sinks.clickhouse.placed_rows import PlacedRows
from sinks.clickhouse.tenancy.records import FED
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from sinks.clickhouse.sink import SinkSettings
    from sinks.clickhouse.tables import Row

_SQL: Final = queries("sinks.postgres.queries.tenancy", "record_feed.sql")


def open_stream(
    settings: SinkSettings, connection: psycopg.Connection, reach: Callable[[str], None] = lambda _: None
) -> RecordFeed:
    """Over the connection that holds the fence; Kafka is not asked."""
    del settings, reach
    return RecordFeed(connection, [table.name for table, _ in FED])


class RecordFeed(PlacedRows):
    """Each kind of record is a partition, and a table."""

    def _ends(self) -> dict[int, int]:
        return dict(self._connection.execute(_SQL["record_feed_ends"].encode()).fetchall())

    def _rows(self, partition: int, after: int, until: int, limit: int) -> list[Row]:
        asked = {"after": after, "until": until, "limit": limit}
        return self._connection.execute(_SQL[FED[partition][1]].encode(), asked).fetchall()
