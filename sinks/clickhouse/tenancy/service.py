"""The multi-tenant platform in ClickHouse."""

from __future__ import annotations

from typing import Final

from sinks.clickhouse.declared_sink import DeclaredSink
from sinks.clickhouse.tenancy.records import RECORD_SINK
from sinks.clickhouse.tenancy.usage import USAGE_SINK

SINKS: Final[tuple[DeclaredSink, ...]] = (USAGE_SINK, RECORD_SINK)
