"""What an operator sees of the sink; a comment per metric says what a high value means."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import structlog
from prometheus_client import REGISTRY, Counter, Gauge, Histogram

from sinks.streams.metrics import FollowerMetrics
from sinks.streams.standing_still import why_still

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prometheus_client import CollectorRegistry

    from sinks.streams.intake import Halt


class _Meters:
    """Of all sinks of a process; each sink has its label."""

    def __init__(self, registry: CollectorRegistry) -> None:
        sink = ("sink",)
        # Records that are in ClickHouse and confirmed. Flat while the outbox grows: the sink is stuck.
        self.events = Counter("millrace_sink_events_total", "records inserted into ClickHouse", sink, registry=registry)
        self.rows = Counter("millrace_sink_rows_total", "rows inserted into ClickHouse", sink, registry=registry)
        # From a block's first record to its mark. High: ClickHouse is slow, or blocks are full and the sink is behind.
        self.seconds = Histogram(
            "millrace_sink_block_seconds", "from a block's first record to its mark", sink, registry=registry
        )
        # Restarts that found an unconfirmed block. High: the sink or ClickHouse dies often.
        self.recovered = Counter("millrace_sink_plans_recovered_total", "open plans completed", sink, registry=registry)
        # Cycles begun again. High: Kafka, Postgres or ClickHouse is out.
        self.failures = Counter("millrace_sink_failures_total", "cycles that failed", sink, registry=registry)
        # 1 while another process feeds ClickHouse or a swap is under way.
        self.standby = Gauge(
            "millrace_sink_standing_by", "1 while another process feeds ClickHouse", sink, registry=registry
        )


_meters = cache(_Meters)


class SinkMetrics:
    """Counts and logs what a sink does; an Observer of ``sink.Sink``."""

    def __init__(self, sink: str, registry: CollectorRegistry = REGISTRY) -> None:
        self.name = sink
        meters = _meters(registry)
        self._follower = FollowerMetrics(sink, registry)
        self._still: str | None = None
        self._events = meters.events.labels(sink)
        self._rows = meters.rows.labels(sink)
        self._seconds = meters.seconds.labels(sink)
        self._recovered = meters.recovered.labels(sink)
        self._failures = meters.failures.labels(sink)
        self._standby = meters.standby.labels(sink)
        self._log = structlog.get_logger("clickhouse_sink").bind(sink=sink)
        # None once the sink is ours or another process feeds
        self._trouble: str | None = "not connected yet"

    def why_not_ready(self) -> str | None:
        """None while every partition goes on, here or in another process; any thread may ask."""
        return self._trouble or self._still

    def inserted(self, records: int, rows: int, seconds: float) -> None:
        """Counts a block that is in and confirmed."""
        self._events.inc(records)
        self._rows.inc(rows)
        self._seconds.observe(seconds)

    def recovered(self, plan_id: int, missing_rows: int) -> None:
        """Logs a block that a killed process left open."""
        self._recovered.inc()
        self._log.info("plan_completed", plan_id=plan_id, missing_rows=missing_rows)

    def failed(self, error: Exception, retry_in_s: float) -> None:
        """Logs an outage, or what nobody expected; nothing is lost by it."""
        self._failures.inc()
        self._trouble = f"{type(error).__name__}: {error}"
        self._log.warning("cycle_failed", reason=str(error), kind=type(error).__name__, retry_in_s=round(retry_in_s, 2))

    def halted(self, halts: Mapping[int, Halt]) -> None:
        """Counts and tells the partitions that stand still."""
        self._still = why_still(halts)
        self._follower.halted(halts)

    def standing_by(self) -> None:
        """Somebody else feeds ClickHouse: that is health, not trouble."""
        self._standby.set(1)
        self.halted({})
        self._trouble = None
        self._log.info("standing_by")

    def feeding(self) -> None:
        """Says that it is this process that feeds ClickHouse."""
        self._standby.set(0)
        self._trouble = None
        self._log.info("feeding")

    def ended(self, error: Exception) -> None:
        """An operator is needed: this sink does nothing more, until its process is started again."""
        self._trouble = f"ended: {error}"
        self._log.error("sink_ended", reason=str(error))
