"""Wires a sink of ClickHouse. A second one stands by: only the holder of the fence in Postgres feeds ClickHouse."""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING, Final

from compose.services.ops import serve_ops
from compose.stack.errors import StackError
from dataflows.owner import fail_points
from schemas.errors import InvariantViolation
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.metrics import SinkMetrics
from sinks.clickhouse.sink import Sink, SinkSettings

if TYPE_CHECKING:
    from compose.settings import Settings

ROLE: Final = "millrace_sink"


def run_sink(settings: Settings, kind: type[Sink], name: str, topic: str, partitions: int, instance: int) -> None:
    """Feeds ClickHouse until SIGTERM, then finishes its block. Raises StackError when an operator is needed."""
    addresses = settings.addresses()
    metrics = SinkMetrics()
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
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sink.stop())
    serve_ops(None, lambda: metrics.trouble or True)
    try:
        sink.run()
    except InvariantViolation as error:
        raise StackError(f"the sink {name} stops: {error}") from error
