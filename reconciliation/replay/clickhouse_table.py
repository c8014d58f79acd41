"""A table in ClickHouse as a projection. Its shadow is a table of the same definition beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clickhouse_connect.driver.exceptions import ClickHouseError

from schemas.errors import Unavailable
from sinks.clickhouse.insert import Inserter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from clickhouse_connect.driver.client import Client

    from reconciliation.contract.compare import Row
    from reconciliation.contract.projection import Extent
    from sinks.clickhouse.declared_sink import DeclaredSink
    from sinks.clickhouse.tables import Table
    from sinks.streams.intake import Accepted

SUFFIX: Final = "_shadow"


class ClickHouseTable:
    """One of the tables of a sink of events."""

    def __init__(self, client: Client, sink: DeclaredSink, table: Table) -> None:
        self._client = client
        self._sink = sink
        self._table = table
        self._inserter = Inserter(client, (table,), suffix=SUFFIX)
        self.name = f"clickhouse.{table.name}"
        rest = tuple(column for column in table.columns if column not in table.identity)
        self.columns = (*table.identity, *rest)
        self.key_width = len(table.identity)

    @property
    def _shadow(self) -> str:
        return self._table.name + SUFFIX

    def begin(self) -> None:
        """Makes an empty shadow, dropping an older one."""
        self.drop()
        self._command(f"create table {self._shadow} as {self._table.name}")

    def apply(self, events: Sequence[Accepted]) -> None:
        """Inserts the rows of these events as one block."""
        made = self._sink.no_rows()
        for taken in events:
            self._sink.add_event(made, taken.partition, taken.event)
        first, last = events[0], events[-1]
        self._inserter.insert(
            made, f"replay:{first.partition}:{first.event.seq}:{last.partition}:{last.event.seq}:{len(events)}"
        )

    def complete(self, extent: Extent, *, from_zero: bool) -> None:
        """Rows of an event depend on nothing before it."""

    def live_rows(self, extent: Extent) -> Iterator[Row]:
        """The live rows within the extent, ordered by key."""
        return self._rows(self._table.name, extent)

    def shadow_rows(self, extent: Extent) -> Iterator[Row]:
        """The shadow's rows within the extent, ordered by key."""
        return self._rows(self._shadow, extent)

    def fill_before(self, first_seqs: Mapping[int, int]) -> None:
        """Copies the live rows that were not replayed into the shadow, so that an exchange loses nothing.

        ``first_seqs`` is the first replayed seq of every partition of which anything was replayed.
        """
        columns = ", ".join(self._table.columns)
        inside = " or ".join(f"(kafka_partition = {p} and seq >= {first})" for p, first in first_seqs.items())
        where = f" where not ({inside})" if inside else ""
        self._command(
            f"insert into {self._shadow} ({columns}) select {columns} from {self._table.name}{where}"  # noqa: S608 - ours
        )

    def exchange(self) -> None:
        """Exchanges live and shadow in one step; queries see the one or the other."""
        self._command(f"exchange tables {self._table.name} and {self._shadow}")

    def drop(self) -> None:
        """Removes the shadow."""
        self._command(f"drop table if exists {self._shadow}")

    def _rows(self, name: str, extent: Extent) -> Iterator[Row]:
        for p, first, last in extent.bounds():
            query = (
                f"select {', '.join(self.columns)} from {name}"  # noqa: S608 - names of ours and integers
                f" where kafka_partition = {p} and seq between {first} and {last}"
                f" order by {', '.join(self._table.identity)}"
            )
            try:
                with self._client.query_rows_stream(query) as stream:
                    for row in stream:
                        yield tuple(row)
            except (ClickHouseError, OSError) as error:
                raise Unavailable(f"ClickHouse does not read {name}: {str(error)[:200]}") from error

    def _command(self, statement: str) -> None:
        try:
            self._client.command(statement)
        except (ClickHouseError, OSError) as error:
            raise Unavailable(
                f"ClickHouse refuses {statement.partition(' (')[0][:80]!r}: {str(error)[:200]}"
            ) from error
