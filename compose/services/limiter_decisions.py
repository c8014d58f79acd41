"""The process that feeds ClickHouse with the limiter's decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compose.services.fenced_sink import build_sink
from compose.services.runnable_service import RunnableService, serve
from limiter.analytics.decision_sink import DecisionSink
from schemas.limiter import topics

if TYPE_CHECKING:
    from compose.settings.settings import Settings


def run(settings: Settings, instance: int) -> None:
    """Feeds ClickHouse until SIGTERM, then finishes its block. Raises StackError when an operator is needed."""
    serve(build(settings, instance))


def build(settings: Settings, instance: int) -> RunnableService:
    """The sink; a second one stands by."""
    return build_sink(
        settings, DecisionSink, "limiter-decisions", topics.DECISIONS, topics.DECISIONS_PARTITIONS, instance
    )
