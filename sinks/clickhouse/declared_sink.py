"""What a service gives to ClickHouse: which of its topics goes into which tables.

A service says so in its module for ``sinks.clickhouse`` (``SINKS``); one loop feeds all of them (``sink.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from schemas.records import Event
from sinks.clickhouse.tables import Table, TableRows


def _no_rows(_rows: TableRows, _partition: int, _event: Event) -> None:
    """A topic of other records has a stream of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSink:
    """One topic in ClickHouse. Of events: every table has ``kafka_partition`` and ``seq``, and can be replayed."""

    name: str  # in sink_fence, sink_plan and stream_position; it never changes
    topic: str
    partitions: int
    package: str  # its folder ``schema`` has the definitions; their names are unique over all services
    tables: tuple[Table, ...]
    #: appends the rows of one event, in the order of the columns. Pure: the same event gives the same rows for ever
    add_event: Callable[[TableRows, int, Event], None] = _no_rows
    #: the module whose ``open_stream`` reads records that are no events; by name, for it may lie above this layer
    stream_module: str = "sinks.clickhouse.event_stream"

    def no_rows(self) -> TableRows:
        """No rows for any of its tables."""
        return {table.name: [] for table in self.tables}

    def table(self, name: str) -> Table:
        """One of its tables. Raises KeyError."""
        return {table.name: table for table in self.tables}[name]

    @property
    def keeps_events(self) -> bool:
        """True when its rows follow from events alone."""
        return self.add_event is not _no_rows


def declared_in(module: Any) -> tuple[DeclaredSink, ...]:
    """What a service's module declares. Raises AttributeError on one that says nothing."""
    found: tuple[DeclaredSink, ...] = module.SINKS
    return found
