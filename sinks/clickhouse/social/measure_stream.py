"""Measures of social posts, as their sink of ClickHouse reads them: it gives them their places first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from schemas.social import limits
from sinks.clickhouse.placed_rows import PlacedRows
from sinks.clickhouse.social.measures import MEASURES
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from sinks.clickhouse.sink import SinkSettings
    from sinks.clickhouse.tables import Row

_SQL: Final = queries("sinks.postgres.queries.social", "measure_feed.sql")


def open_stream(
    settings: SinkSettings, connection: psycopg.Connection, reach: Callable[[str], None] = lambda _: None
) -> MeasureFeed:
    """Over the connection that holds the fence; Kafka is not asked."""
    del settings, reach
    return MeasureFeed(connection, [MEASURES.name])


class MeasureFeed(PlacedRows):
    """All measures are one partition."""

    def _ends(self) -> dict[int, int]:
        asked = {"flush_s": limits.MEASURES_FLUSH_S, "limit": limits.MEASURES_AT_ONCE}
        return dict(self._connection.execute(_SQL["measure_end"].encode(), asked).fetchall())

    def _rows(self, partition: int, after: int, until: int, limit: int) -> list[Row]:
        asked = {"partition": partition, "after": after, "until": until, "limit": limit}
        return self._connection.execute(_SQL["measure_rows"].encode(), asked).fetchall()
