"""Wires the stream of decisions into ClickHouse. A second one stands by: only the holder of its fence feeds it."""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING, Final

from compose.services.ops import serve_ops
from compose.stack.errors import StackError
from dataflows.owner import fail_points
from limiter.decision_sink import DecisionSink
from schemas import topics
from schemas.errors import InvariantViolation
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.metrics import SinkMetrics
from sinks.clickhouse.sink import SinkSettings

if TYPE_CHECKING:
    from compose.settings import Settings

ROLE: Final = "millrace_sink"


def run(settings: Settings, instance: int) -> None:
    """Feeds ClickHouse until SIGTERM, then finishes its block. Raises StackError when an operator is needed."""
    addresses = settings.addresses()
    metrics = SinkMetrics()
    sink = DecisionSink(
        SinkSettings(
            kafka=addresses.kafka,
            postgres_dsn=addresses.postgres_dsns[ROLE],
            clickhouse=ClickHouseConnection(url=addresses.clickhouse_url),
            topic=topics.DECISIONS,
            partitions=topics.DECISIONS_PARTITIONS,
            owner_id=f"limiter-decisions-{socket.gethostname()}-{os.getpid()}-{instance}",
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
        raise StackError(f"the sink of decisions stops: {error}") from error
