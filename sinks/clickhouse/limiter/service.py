"""The limiter in ClickHouse: decisions, which are blocks of gateways and no events, and what its events metered."""

from __future__ import annotations

from typing import Final

from schemas.limiter import topics
from schemas.limiter.service import SERVICE
from schemas.records import Event
from sinks.clickhouse.declared_sink import DeclaredSink
from sinks.clickhouse.limiter.tables import TABLES
from sinks.clickhouse.metering import Metered


def metered(event: Event) -> list[Metered]:
    """Changes of policies, and charges of durable quotas, of a tenant."""
    return [Metered("commands", event.scope, 1)]


SINKS: Final = (
    DeclaredSink(
        name="limiter_decisions",
        service=SERVICE.name,
        topic=topics.DECISIONS,
        partitions=topics.DECISIONS_PARTITIONS,
        package="sinks.clickhouse.limiter",
        own_tables=TABLES,
        stream_module="limiter.analytics.decision_stream",
    ),
    DeclaredSink(
        name="limiter",
        service=SERVICE.name,
        topic=SERVICE.events_topic,
        partitions=SERVICE.partitions,
        package="sinks.clickhouse.limiter",
        meter=metered,
    ),
)
