"""The sink of counted usage, as it is declared."""

from __future__ import annotations

from typing import Final

from schemas.tenancy.service import SERVICE
from schemas.tenancy.usage_topic import COUNTED, counted_partitions
from sinks.clickhouse.declared_sink import DeclaredSink
from sinks.clickhouse.tables import Table

USAGE: Final = Table(
    name="tenant_usage",
    columns=(
        *("kafka_partition", "seq", "tenant_id", "source", "event_id"),
        *("dimension", "subject", "quantity", "occurred_at"),
    ),
    month_of="occurred_at",
)
USAGE_SINK: Final = DeclaredSink(
    name="tenancy_usage",
    service=SERVICE.name,
    topic=COUNTED,
    partitions=counted_partitions(SERVICE.partitions),
    package="sinks.clickhouse.tenancy",
    own_tables=(USAGE,),
    stream_module="sinks.clickhouse.tenancy.usage_stream",
)
