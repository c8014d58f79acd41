"""Counters in ClickHouse: a row of every event."""

from __future__ import annotations

from typing import Any, Final

from schemas.records import Event
from sinks.clickhouse.declared_sink import DeclaredSink
from sinks.clickhouse.metering import Metered
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


def metered(event: Event) -> list[Metered]:
    """What was done with counters, and how much was added."""
    body: dict[str, Any] = event.body
    return [Metered("changes", event.scope, 1), Metered("added", event.scope, max(body["added"], 0))]


SINKS: Final = (
    DeclaredSink(
        name="counter",
        service=SERVICE.name,
        topic=SERVICE.events_topic,
        partitions=SERVICE.partitions,
        package="tests.services.counter",
        own_tables=(COUNTERS,),
        add_own=add_event,
        meter=metered,
    ),
)
