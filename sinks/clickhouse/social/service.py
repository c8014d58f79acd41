"""Posts in ClickHouse: a row of every event. Rule: no texts, no names, and no user in clear."""

from __future__ import annotations

from typing import Any, Final

from schemas.records import Event
from schemas.social.service import SERVICE
from sinks.clickhouse.declared_sink import DeclaredSink
from sinks.clickhouse.metering import Metered
from sinks.clickhouse.social.measures import MEASURE_SINK
from sinks.clickhouse.tables import Table, TableRows

EVENTS: Final = Table(
    name="social_events", columns=("kafka_partition", "seq", "post_id", "event_type", "version", "occurred_at")
)
_EVERYBODY: Final = "users"


def add_event(rows: TableRows, partition: int, event: Event) -> None:
    """What happened to a post; of what concerns users alone no more than that it happened."""
    body: dict[str, Any] = event.body
    rows[EVENTS.name].append(
        (partition, event.seq, body["post_id"] or "", body["kind"], event.version, event.occurred_at)
    )


def metered(event: Event) -> list[Metered]:
    """Every committed command, and every published post, of all users together: a user's own would name it."""
    found = [Metered("commands", _EVERYBODY, 1)]
    if event.body["kind"] == "post_published":
        found.append(Metered("posts_published", _EVERYBODY, 1))
    return found


SINKS: Final = (
    DeclaredSink(
        name="social",
        service=SERVICE.name,
        topic=SERVICE.events_topic,
        partitions=SERVICE.partitions,
        package="sinks.clickhouse.social",
        own_tables=(EVENTS,),
        add_own=add_event,
        meter=metered,
    ),
    MEASURE_SINK,
)
