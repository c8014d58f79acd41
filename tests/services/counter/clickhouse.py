"""Counters in ClickHouse: a row of every event."""

from __future__ import annotations

from typing import Any, Final

from schemas.records import Event
from sinks.clickhouse.declared_sink import DeclaredSink
from sinks.clickhouse.tables import Table, TableRows
from tests.services.counter.service import SERVICE

_OWN: Final = ("id", "version", "owner", "value", "added", "is_closed", "occurred_at")
COUNTERS: Final = Table(name="counters", columns=("kafka_partition", "seq", *_OWN))


def add_event(rows: TableRows, partition: int, event: Event) -> None:
    """The counter as the event leaves it."""
    body: dict[str, Any] = event.body
    counter = (event.aggregate_key, event.version, event.scope, body["value"], body["added"])
    is_closed = event.event_type == "counter_closed"
    rows[COUNTERS.name].append((partition, event.seq, *counter, is_closed, event.occurred_at))


SINKS: Final = (
    DeclaredSink(
        name="counter",
        topic=SERVICE.events_topic,
        partitions=SERVICE.partitions,
        package="tests.services.counter",
        tables=(COUNTERS,),
        add_event=add_event,
    ),
)
