"""The process that feeds ClickHouse with the events of payments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compose.services.fenced_sink import build_sink
from compose.services.runnable_service import RunnableService, serve
from schemas.payments import topics
from sinks.clickhouse.decoding import collect_garbage_rarely
from sinks.clickhouse.sink import Sink

if TYPE_CHECKING:
    from compose.settings.settings import Settings


def run(settings: Settings, instance: int) -> None:
    """Feeds ClickHouse until SIGTERM, then finishes its block. Raises StackError when an operator is needed."""
    collect_garbage_rarely()
    serve(build(settings, instance))


def build(settings: Settings, instance: int) -> RunnableService:
    """The sink; a second one stands by."""
    return build_sink(settings, Sink, "clickhouse-sink", topics.EVENTS, topics.PARTITIONS, instance)
