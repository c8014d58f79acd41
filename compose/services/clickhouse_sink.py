"""The process that feeds ClickHouse: a loop in a thread for the sink of each service, or one process for each.

A second process stands by: only the holder of a sink's fence in Postgres feeds it.
"""

from __future__ import annotations

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from compose.services.runnable_service import RunnableService, serve
from compose.stack.errors import StackError
from dataflows.owner import fail_points
from schemas.errors import InvariantViolation
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.decoding import collect_garbage_rarely
from sinks.clickhouse.metrics import SinkMetrics
from sinks.clickhouse.services import SINKS
from sinks.clickhouse.sink import Sink, SinkSettings
from sinks.streams.standing_still import together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from compose.settings.settings import Settings
    from sinks.clickhouse.declared_sink import DeclaredSink

ROLE: Final = "millrace_sink"


def run(settings: Settings, instance: int) -> None:
    """Feeds ClickHouse until SIGTERM, then finishes its blocks. Raises StackError when an operator is needed."""
    collect_garbage_rarely()
    serve(build(settings, instance))


def build(settings: Settings, instance: int) -> RunnableService:
    """All sinks, or the one of this number."""
    declared = list(SINKS.values())
    return feeding(settings, declared if settings.clickhouse_sinks == "together" else [declared[instance]], instance)


def feeding(settings: Settings, declared: Sequence[DeclaredSink], instance: int) -> RunnableService:
    """These sinks side by side. One that an operator must look at ends alone, and the process is not ready."""
    sinks = [_made(settings, sink, instance) for sink in declared]

    def stop() -> None:
        for sink, _ in sinks:
            sink.stop()

    def feed() -> None:
        with ThreadPoolExecutor(len(sinks), "sink") as threads:
            failures = [failure for failure in threads.map(lambda sink: _run(*sink), sinks) if failure]
        if failures:
            raise StackError("; ".join(failures))

    def ready() -> bool | str:
        return together(metrics.why_not_ready() for _, metrics in sinks) or True

    return RunnableService(run=feed, stop=stop, ready=ready)


def _made(settings: Settings, declared: DeclaredSink, instance: int) -> tuple[Sink, SinkMetrics]:
    addresses = settings.addresses()
    metrics = SinkMetrics(declared.name)
    sink = Sink(
        SinkSettings(
            sink=declared,
            kafka=addresses.kafka_of("clickhouse_sink"),
            postgres_dsn=addresses.postgres_dsns[ROLE],
            clickhouse=ClickHouseConnection(url=addresses.clickhouse_url),
            topic=declared.topic,
            partitions=declared.partitions,
            # New with every process: what a killed one held is nobody's, and runs out.
            owner_id=f"{declared.name}-sink-{socket.gethostname()}-{os.getpid()}-{instance}",
        ),
        metrics,
        fail_points.reach,
    )
    return sink, metrics


def _run(sink: Sink, metrics: SinkMetrics) -> str | None:
    try:
        sink.run()
    except InvariantViolation as error:
        metrics.ended(error)
        return f"the sink {metrics.name} stops: {error}"
    return None
