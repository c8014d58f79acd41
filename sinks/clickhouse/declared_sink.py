"""The declaration of a service's ClickHouse tables: which topic fills them, and what of it is metered.

A service says so in its module for ``sinks.clickhouse`` (``SINKS``); one loop feeds all of them (``sink.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from schemas.records import Event
from sinks.clickhouse.metering import Meter, definition, metered_table, rows_of
from sinks.clickhouse.tables import Table, TableRows, schema_files


def _no_rows(_rows: TableRows, _partition: int, _event: Event) -> None:
    """A topic of other records has a stream of its own."""


@dataclass(frozen=True, kw_only=True)  # without slots: what is asked for every event is made once
class DeclaredSink:
    """One topic in ClickHouse. Of events: every table has ``kafka_partition`` and ``seq``, and can be replayed."""

    name: str  # in sink_fence, sink_plan and stream_position; it never changes
    service: str
    topic: str
    partitions: int
    package: str  # its folder ``schema`` has the definitions; their names are unique over all services
    own_tables: tuple[Table, ...] = ()
    #: appends the rows of one event, in the order of the columns. Pure: the same event gives the same rows for ever
    add_own: Callable[[TableRows, int, Event], None] = _no_rows
    meter: Meter | None = None
    #: the module whose ``open_stream`` reads records that are no events; by name, for it may lie above this layer
    stream_module: str = "sinks.clickhouse.event_stream"

    @cached_property
    def metered(self) -> Table | None:
        """Where its usage is, if anything is metered."""
        return metered_table(self.service) if self.meter else None

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """All that the sink fills."""
        return (*self.own_tables, self.metered) if self.metered else self.own_tables

    @property
    def keeps_events(self) -> bool:
        """True when its rows follow from events alone."""
        return self.add_own is not _no_rows or self.meter is not None

    def definitions(self) -> list[tuple[str, str]]:
        """Name and text of every definition file, in order."""
        return schema_files(self.package) + ([definition(self.metered)] if self.metered else [])

    def no_rows(self) -> TableRows:
        """No rows for any of its tables."""
        return {table.name: [] for table in self.tables}

    def add_event(self, rows: TableRows, partition: int, event: Event) -> None:
        """Appends the rows of one event."""
        self.add_own(rows, partition, event)
        if self.meter and self.metered:
            rows[self.metered.name].extend(rows_of(self.meter, partition, event))

    def table(self, name: str) -> Table:
        """One of its tables. Raises KeyError."""
        return {table.name: table for table in self.tables}[name]


def declared_in(module: Any) -> tuple[DeclaredSink, ...]:
    """What a service's module declares. Raises AttributeError on one that says nothing."""
    found: tuple[DeclaredSink, ...] = module.SINKS
    return found
