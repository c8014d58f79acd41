"""The sink of what social posts did: fan-out, propagation, moderation. No post and no user is in it."""

from __future__ import annotations

from typing import Final

from schemas.social.service import SERVICE
from sinks.clickhouse.declared_sink import DeclaredSink
from sinks.clickhouse.tables import Table

#: where these stand in Postgres; no topic of Kafka
RECORDS: Final = "social.measures.v1"
MEASURES: Final = Table(
    name="social_measures",
    columns=("kafka_partition", "seq", "at", "measure", "subject", "quantity", "took_us"),
    month_of="at",
)
MEASURE_SINK: Final = DeclaredSink(
    name="social_measures",
    service=SERVICE.name,
    topic=RECORDS,
    partitions=1,
    package="sinks.clickhouse.social",
    own_tables=(MEASURES,),
    stream_module="sinks.clickhouse.social.measure_stream",
)
