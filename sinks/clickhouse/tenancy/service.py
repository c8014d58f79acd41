"""The multi-tenant platform in ClickHouse."""

from __future__ import annotations

from typing import Final

from sinks.clickhouse.declared_sink import DeclaredSink

SINKS: Final[tuple[DeclaredSink, ...]] = ()
