"""Wires the ClickHouse sink. A second one stands by: only the holder of the fence in Postgres feeds ClickHouse."""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING, Final

from compose.services.ops import serve_ops
from compose.stack.errors import StackError
from dataflows.owner import fail_points
from schemas import topics
from schemas.errors import InvariantViolation
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.decoding import collect_garbage_rarely
from sinks.clickhouse.metrics import SinkMetrics
from sinks.clickhouse.sink import Sink, SinkSettings

if TYPE_CHECKING:
    from compose.settings import Settings

ROLE: Final = "millrace_sink"


def run(settings: Settings, instance: int) -> None:
    """Feeds ClickHouse until SIGTERM, then finishes its block. Raises StackError when an operator is needed."""
    addresses = settings.addresses()
    metrics = SinkMetrics()
    sink = Sink(
        SinkSettings(
            kafka=addresses.kafka,
            postgres_dsn=addresses.postgres_dsns[ROLE],
            clickhouse=ClickHouseConnection(url=addresses.clickhouse_url),
            topic=topics.EVENTS_PAYMENTS,
            partitions=topics.PAYMENTS_PARTITIONS,
            # New with every process: what a killed one held is nobody's, and runs out.
            owner_id=f"clickhouse-sink-{socket.gethostname()}-{os.getpid()}-{instance}",
        ),
        metrics,
        fail_points.reach,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sink.stop())
    serve_ops(None, lambda: metrics.trouble or True)
    collect_garbage_rarely()
    try:
        sink.run()
    except InvariantViolation as error:
        raise StackError(f"the ClickHouse sink stops: {error}") from error
