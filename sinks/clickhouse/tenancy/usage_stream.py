"""Counted usage for its sink of ClickHouse, out of Postgres: what counts is decided there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sinks.clickhouse.placed_rows import PlacedRows
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from sinks.clickhouse.sink import SinkSettings
    from sinks.clickhouse.tables import Row

TABLE: Final = "tenant_usage"
_SQL: Final = queries("sinks.postgres.queries.tenancy", "usage_feed.sql")


def open_stream(
    settings: SinkSettings, connection: psycopg.Connection, reach: Callable[[str], None] = lambda _: None
) -> UsageFeed:
    """Over the connection that holds the fence; Kafka is not asked."""
    del reach
    return UsageFeed(connection, [TABLE] * settings.partitions)


class UsageFeed(PlacedRows):
    """Counted usage; all partitions are rows of one table."""

    def _ends(self) -> dict[int, int]:
        asked = {"partitions": list(range(len(self._tables)))}
        return dict(self._connection.execute(_SQL["usage_feed_ends"].encode(), asked).fetchall())

    def _rows(self, partition: int, after: int, until: int, limit: int) -> list[Row]:
        asked = {"partition": partition, "after": after, "until": until, "limit": limit}
        return self._connection.execute(_SQL["usage_feed_rows"].encode(), asked).fetchall()
