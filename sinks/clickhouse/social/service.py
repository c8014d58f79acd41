"""Posts in ClickHouse: a row of every event. Rule: no texts, no names, and no user in clear."""

from __future__ import annotations

from typing import Any, Final

from schemas.records import Event
from schemas.social.service import SERVICE
from sinks.clickhouse.declared_sink import DeclaredSink
from sinks.clickhouse.tables import Table, TableRows

EVENTS: Final = Table(
    name="social_events", columns=("kafka_partition", "seq", "post_id", "event_type", "version", "occurred_at")
)


def add_event(rows: TableRows, partition: int, event: Event) -> None:
    """What happened to a post; of what concerns users alone no more than that it happened."""
    body: dict[str, Any] = event.body
    rows[EVENTS.name].append(
        (partition, event.seq, body["post_id"] or "", body["kind"], event.version, event.occurred_at)
    )


SINKS: Final = (
    DeclaredSink(
        name="social",
        service=SERVICE.name,
        topic=SERVICE.events_topic,
        partitions=SERVICE.partitions,
        package="sinks.clickhouse.social",
        own_tables=(EVENTS,),
        add_own=add_event,
    ),
)
