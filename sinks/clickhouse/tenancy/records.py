"""The sink of what tenants cost, of evidence of the isolation monitor, and of the audit log, as it is declared."""

from __future__ import annotations

from typing import Final

from schemas.tenancy.service import SERVICE
from sinks.clickhouse.declared_sink import DeclaredSink
from sinks.clickhouse.tables import Table

#: where these stand in Postgres; no topic of Kafka
RECORDS: Final = "tenancy.records.v1"
COSTS: Final = Table(
    name="tenant_cost_slices",
    columns=(
        *("kafka_partition", "seq", "tenant_id", "ended_at", "source", "calls", "database_us"),
        *("commands", "owner_us", "bytes_stored", "clickhouse_us"),
    ),
    month_of="ended_at",
)
EVIDENCE: Final = Table(
    name="isolation_evidence",
    columns=("kafka_partition", "seq", "number", "seen_at", "probe", "evidence"),
    month_of="seen_at",
)
AUDIT: Final = Table(
    name="audit_search",
    columns=("kafka_partition", "seq", "at", "actor", "db_role", "action", "object", "outcome"),
    month_of="at",
)
#: the table of each partition, and the query that reads it
FED: Final = ((COSTS, "cost_rows"), (EVIDENCE, "evidence_rows"), (AUDIT, "audit_rows"))
RECORD_SINK: Final = DeclaredSink(
    name="tenancy_records",
    service=SERVICE.name,
    topic=RECORDS,
    partitions=len(FED),
    package="sinks.clickhouse.tenancy",
    own_tables=(COSTS, EVIDENCE, AUDIT),
    stream_module="sinks.clickhouse.tenancy.record_stream",
)
