"""Tells what waits: open cases by kind, and events that Kafka does not have yet. It changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg
import structlog
from prometheus_client import REGISTRY, CollectorRegistry, Gauge

from reconciliation.payments.rounds import connected, repeat
from schemas.payments import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    import threading

_SQL: Final = queries("reconciliation.payments.repair", "waiting.sql")
_log: Final = structlog.get_logger(__name__)


class WaitingMetrics:
    """What one process says of what waits. While Postgres is away it says nothing of it."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        # High: nobody looks at them. Counted up to CASES_COUNTED_MAX of a kind.
        self.cases = Gauge("millrace_cases_open", "Cases that nobody closed", ["kind"], registry=registry)
        # Days: what it is about waits, money perhaps.
        self.oldest_case = Gauge(
            "millrace_cases_oldest_seconds", "Age of the oldest open case", ["kind"], registry=registry
        )
        # More than seconds: followers, webhooks and ClickHouse do not hear what was committed.
        self.oldest_event = Gauge(
            "millrace_outbox_oldest_seconds",
            "Age of the oldest committed event that Kafka does not have",
            ["topic"],
            registry=registry,
        )

    def clear(self) -> None:
        """Nothing is known."""
        for gauge in (self.cases, self.oldest_case, self.oldest_event):
            gauge.clear()


class WaitingLoop:
    """The loop of one process, with a connection only while it looks."""

    def __init__(self, dsn: str, name: str, metrics: WaitingMetrics) -> None:
        self._dsn = dsn
        self._name = name
        self._metrics = metrics

    def run(self, stop: threading.Event) -> None:
        """Looks every ``WAITING_INTERVAL_S`` until ``stop``; absent servers are waited out."""
        every_s = limits.WAITING_INTERVAL_S
        repeat(stop, self.look, self._failed, first_s=every_s, most_s=every_s)

    def _failed(self, error: psycopg.Error, reason: str) -> None:
        self._metrics.clear()
        _log.warning("what_waits_is_not_known", kind=type(error).__name__, reason=reason)

    def look(self) -> float:
        """Reads what waits now; in how many seconds it is read again. Raises as psycopg."""
        with connected(self._dsn, self._name, limits.WAITING_STATEMENT_TIMEOUT_MS) as connection:
            asked = {"most": limits.CASES_COUNTED_MAX}
            cases = connection.execute(_SQL["cases_waiting"].encode(), asked).fetchall()
            events = connection.execute(_SQL["events_waiting"].encode()).fetchall()
        self._metrics.clear()  # of kinds whose last case was closed
        for kind, count, age_s in cases:
            self._metrics.cases.labels(kind).set(count)
            self._metrics.oldest_case.labels(kind).set(age_s)
        for topic, age_s in events:
            self._metrics.oldest_event.labels(topic).set(age_s)
        return limits.WAITING_INTERVAL_S
