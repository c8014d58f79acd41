"""The limiter's decisions as ClickHouse keeps them: blocks of gateways, and no events."""

from __future__ import annotations

from typing import Final

from schemas.limiter import topics
from sinks.clickhouse.declared_sink import DeclaredSink
from sinks.clickhouse.limiter.tables import TABLES

SINKS: Final = (
    DeclaredSink(
        name="limiter_decisions",
        topic=topics.DECISIONS,
        partitions=topics.DECISIONS_PARTITIONS,
        package="sinks.clickhouse.limiter",
        tables=TABLES,
        stream_module="limiter.analytics.decision_stream",
    ),
)
