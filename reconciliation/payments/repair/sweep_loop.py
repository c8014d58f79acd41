"""Sweeps cases without a person: money that waits for too long has its case within ``CASE_SWEEP_INTERVAL_S``.

A sweep is one transaction with its row of the audit log and the time of the last one. A kill anywhere leaves nothing of
it, and the next process that looks does it as a whole. Of any number of processes one at a time is at it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, cast

import psycopg
import structlog
from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge

from reconciliation.payments.repair.lists import aged_cases_open
from reconciliation.payments.rounds import connected, repeat
from schemas.payments import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

_SQL: Final = queries("reconciliation.payments.repair", "repair.sql")
_LOCK: Final = 0x73776565  # "swee"
_log: Final = structlog.get_logger(__name__)


class SweepMetrics:
    """What one process says of sweeps."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        # Hours ago: no process sweeps, and money waits that nobody is told of. 0 before the first look.
        self.swept_at = Gauge(
            "millrace_case_sweep_done_at_seconds", "When cases were last swept, Unix time", registry=registry
        )
        # Any: a person has to look.
        self.opened = Counter(
            "millrace_case_sweep_opened", "Cases that this process's sweeps opened", registry=registry
        )
        # High: Postgres is away or refuses; it is tried again.
        self.errors = Counter("millrace_case_sweep_errors", "Sweeps that failed", registry=registry)


class SweepLoop:
    """The loop of one process, with a connection only while it looks: once an hour unless something is amiss."""

    def __init__(
        self,
        dsn: str,
        name: str,
        metrics: SweepMetrics,
        on_step: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._dsn = dsn
        self._name = name
        self._metrics = metrics
        self._on_step = on_step
        self._clock = clock
        self._good_at = clock()  # of the last sweep that is known of, in any process; not before the start

    def why_late(self) -> str | None:
        """None unless no sweep, of any process, has succeeded for ``CASE_SWEEP_STUCK_S``. Any thread may ask."""
        late_s = self._clock() - self._good_at
        if late_s < limits.CASE_SWEEP_STUCK_S:
            return None
        return f"cases of money that waits were not swept for {late_s / 3_600:.0f} h; the log says why"

    def run(self, stop: threading.Event) -> None:
        """Sweeps whenever one is due, until ``stop``; absent servers are waited out."""
        first_s, most_s = limits.CASE_SWEEP_RETRY_S, limits.CASE_SWEEP_RETRY_MAX_S
        repeat(stop, self.round, self._failed, first_s=first_s, most_s=most_s)

    def _failed(self, error: psycopg.Error, reason: str) -> None:
        self._metrics.errors.inc()
        _log.warning("case_sweep_waits", kind=type(error).__name__, reason=reason)

    def round(self) -> float | None:
        """Sweeps if it is time; in how many seconds it will be. None while another is at it. Raises as psycopg."""
        with connected(self._dsn, self._name, limits.CASE_SWEEP_STATEMENT_TIMEOUT_MS) as connection:
            with connection.transaction():
                if not _row(connection, "sweep_turn", lock=_LOCK)[0]:
                    return None
                opened = self._sweep(connection) if _due_s(connection) <= 0 else []
            self._on_step("done")
            if opened:
                self._metrics.opened.inc(len(opened))
                _log.info("cases_opened", cases=[row["id"] for row in opened])
            return self._looked(connection)

    def _sweep(self, connection: psycopg.Connection) -> list[dict[str, object]]:
        self._on_step("begun")
        opened = aged_cases_open(connection)
        self._on_step("opened")
        _row(connection, "sweep_done", process=self._name, opened=len(opened))
        return opened

    def _looked(self, connection: psycopg.Connection) -> float:
        done_at, age_s = cast("tuple[float, float]", _row(connection, "sweep_last"))  # one was done by now
        self._metrics.swept_at.set(done_at)
        self._good_at = max(self._good_at, self._clock() - max(0.0, age_s))
        return max(0.0, limits.CASE_SWEEP_INTERVAL_S - age_s)


def _due_s(connection: psycopg.Connection) -> float:
    """In how many seconds a sweep is due. A last one in the future was by a clock that was wrong: it is due."""
    age_s: float | None = _row(connection, "sweep_last")[1]
    return 0.0 if age_s is None or age_s < 0 else limits.CASE_SWEEP_INTERVAL_S - age_s


def _row(connection: psycopg.Connection, name: str, **parameters: object) -> tuple[Any, ...]:
    row: tuple[Any, ...] = connection.execute(_SQL[name].encode(), parameters).fetchone()  # type: ignore[assignment]  # always one
    return row
