"""Wires a sink of ClickHouse. A second one stands by: only the holder of the fence in Postgres feeds ClickHouse."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Final

from compose.services.runnable_service import RunnableService
from compose.stack.errors import StackError
from dataflows.owner import fail_points
from schemas.errors import InvariantViolation
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.metrics import SinkMetrics
from sinks.clickhouse.sink import Sink, SinkSettings

if TYPE_CHECKING:
    from compose.settings.settings import Settings

ROLE: Final = "millrace_sink"


def build_sink(
    settings: Settings, kind: type[Sink], name: str, topic: str, partitions: int, instance: int
) -> RunnableService:
    """Feeds ClickHouse; at its end it finishes its block. ``run`` raises StackError when an operator is needed."""
    addresses = settings.addresses()
    metrics = SinkMetrics(name)
    sink = kind(
        SinkSettings(
            kafka=addresses.kafka,
            postgres_dsn=addresses.postgres_dsns[ROLE],
            clickhouse=ClickHouseConnection(url=addresses.clickhouse_url),
            topic=topic,
            partitions=partitions,
            # New with every process: what a killed one held is nobody's, and runs out.
            owner_id=f"{name}-{socket.gethostname()}-{os.getpid()}-{instance}",
        ),
        metrics,
        fail_points.reach,
    )

    def feed() -> None:
        try:
            sink.run()
        except InvariantViolation as error:
            raise StackError(f"the sink {name} stops: {error}") from error

    return RunnableService(run=feed, stop=sink.stop, ready=lambda: metrics.why_not_ready() or True)
