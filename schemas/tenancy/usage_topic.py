"""The topic of usage, and the places of what was counted of it.

What is counted has a place (partition, seq), gapless: ClickHouse is fed and invoices are cut by it. Usage from the
topic has its partition there; what our own events meter follows behind those.
"""

from __future__ import annotations

from typing import Final

from schemas.senders import INGRESS
from schemas.topics import WEEK_MS, Topic

USAGE: Final = "tenancy.usage.v1"
USAGE_PARTITIONS: Final = 4
#: where the counted usage stands in Postgres; no topic of Kafka
COUNTED: Final = "tenancy.counted.v1"

USAGE_TOPIC: Final = Topic(
    name=USAGE,
    partitions=USAGE_PARTITIONS,
    retention_ms=WEEK_MS,
    doc="usage of tenants as CloudEvents 1.0 in JSON, keyed by tenant and a digest of (tenant, source, id)",
    senders=(INGRESS,),
)


def counted_partitions(event_partitions: int) -> int:
    """How many partitions counted usage has."""
    return USAGE_PARTITIONS + event_partitions
