"""Payments as ClickHouse keeps them."""

from __future__ import annotations

from typing import Final

from schemas.payments.service import SERVICE
from sinks.clickhouse.declared_sink import DeclaredSink
from sinks.clickhouse.payments.metering import metered
from sinks.clickhouse.payments.rows import add_event
from sinks.clickhouse.payments.tables import TABLES

SINKS: Final = (
    DeclaredSink(
        name="clickhouse",
        service=SERVICE.name,
        topic=SERVICE.events_topic,
        partitions=SERVICE.partitions,
        package="sinks.clickhouse.payments",
        own_tables=TABLES,
        add_own=add_event,
        meter=metered,
    ),
)
