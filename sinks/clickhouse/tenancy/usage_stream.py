"""Counted usage for its sink of ClickHouse, out of Postgres: what counts is decided there."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from sinks.clickhouse.placed_rows import PlacedBlock, PlacedRows
from sinks.clickhouse.tenancy.usage import USAGE
from sinks.clickhouse.tenancy.usage_costs import UsageCosts
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    import psycopg

    from sinks.clickhouse.insert import Inserter
    from sinks.clickhouse.sink import SinkSettings
    from sinks.clickhouse.tables import Row

_TENANT: Final = USAGE.columns.index("tenant_id")
_SQL: Final = queries("sinks.postgres.queries.tenancy", "usage_feed.sql")


def open_stream(
    settings: SinkSettings, connection: psycopg.Connection, reach: Callable[[str], None] = lambda _: None
) -> UsageFeed:
    """Over the connection that holds the fence; Kafka is not asked."""
    del reach
    return UsageFeed(connection, [USAGE.name] * settings.partitions)


class UsageFeed(PlacedRows):
    """Counted usage; all partitions are rows of one table."""

    def __init__(
        self, connection: psycopg.Connection, tables: Sequence[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(connection, tables)
        self._costs = UsageCosts(clock)

    def read(self, stop: threading.Event, plan_id: int) -> tuple[PlacedBlock | None, float]:
        """What was added since, and once a minute what ClickHouse took for what was there before is kept first."""
        if spent := self._costs.due():
            given = {"tenants": list(spent), "us": list(spent.values())}
            self._connection.execute(_SQL["usage_costs_kept"].encode(), given)
        return super().read(stop, plan_id)

    def _block(self, rows: Mapping[int, list[Row]]) -> PlacedBlock:
        return UsageBlock(rows, self._tables, self._costs)

    def _ends(self) -> dict[int, int]:
        asked = {"partitions": list(range(len(self._tables)))}
        return dict(self._connection.execute(_SQL["usage_feed_ends"].encode(), asked).fetchall())

    def _rows(self, partition: int, after: int, until: int, limit: int) -> list[Row]:
        asked = {"partition": partition, "after": after, "until": until, "limit": limit}
        return self._connection.execute(_SQL["usage_feed_rows"].encode(), asked).fetchall()


class UsageBlock(PlacedBlock):
    """Rows whose tenants share what ClickHouse takes for them."""

    def __init__(self, rows: Mapping[int, list[Row]], tables: Sequence[str], costs: UsageCosts) -> None:
        super().__init__(rows, tables)
        self._tenants = [row[_TENANT] for run in rows.values() for row in run]
        self._costs = costs

    def insert(self, inserter: Inserter, token: str) -> None:
        """Inserts the rows as one block of each table."""
        before_us = inserter.took_us
        super().insert(inserter, token)
        self._costs.heard(self._tenants, inserter.took_us - before_us)

    def complete(self, inserter: Inserter, token: str) -> int:
        """Looks which rows are there, and inserts the others."""
        before_us = inserter.took_us
        missing = super().complete(inserter, token)
        self._costs.heard(self._tenants, inserter.took_us - before_us)
        return missing
