"""Fetches and reconciles the reports of processors without a person: each day once, at an hour of each processor.

A day ends in one transaction: its row of ``scheduled_run`` moves on if it still stands where this process found it,
with a row of the audit log and the cases of reports that are not there. A kill before that leaves the day to the next
process, whose reconciliation finds what is known and does the rest; a kill after it leaves nothing to do. Of any number
of processes one at a time is at a processor.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import psycopg
import structlog
from confluent_kafka import KafkaException
from msgspec import Struct
from msgspec.structs import replace
from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge
from psycopg.types.json import Jsonb

from reconciliation.payments.daily import days
from reconciliation.payments.rounds import connected, repeat
from reconciliation.payments.settlement.run import ReconcileSettings, reconcile
from reconciliation.payments.settlement.sources import listed_reports
from schemas.errors import PlatformError
from schemas.payments import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping
    from datetime import date, datetime

_SQL: Final = queries("reconciliation.payments.daily", "daily.sql")
_LOCK: Final = 0x6461696C  # "dail"
_log: Final = structlog.get_logger(__name__)


class DailyMetrics:
    """What one process says of the reports that it fetches."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        # More than a day and a deadline ago: nobody fetches that processor's reports.
        self.done_day = Gauge(
            "millrace_reports_done_day_seconds",
            "The begin of the last day whose reports were fetched and reconciled, Unix time",
            ["processor"],
            registry=registry,
        )
        # Any: a report is not there, and a person has to ask its processor.
        self.missing = Counter(
            "millrace_reports_missing", "Cases of missing reports that this process opened", registry=registry
        )
        # High: a processor, Kafka or Postgres is away; it is tried again.
        self.errors = Counter("millrace_reports_errors", "Tries that did not end a day", registry=registry)


class _Look(Struct, frozen=True, kw_only=True):
    """One processor as a process found it."""

    processor: str
    hour: int
    done: date
    due: list[date]
    tries: int

    @property
    def name(self) -> str:
        """Its row of ``scheduled_run``."""
        return f"reports:{self.processor}"


class DailyReports:
    """The loop of one process; ``hours`` are by processor, UTC, and each has its address in the settings."""

    def __init__(
        self,
        settings: ReconcileSettings,
        hours: Mapping[str, int],
        name: str,
        metrics: DailyMetrics,
        on_step: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._hours = dict(hours)
        self._name = name
        self._metrics = metrics
        self._on_step = on_step
        self._clock = clock
        self._good_at = dict.fromkeys(hours, clock())  # when no day was due, as far as is known; not before the start

    def why_late(self) -> str | None:
        """None unless a day of a processor is not over ``REPORTS_STUCK_S`` after it began. Any thread may ask."""
        for processor, good_at in self._good_at.items():
            late_s = self._clock() - good_at
            if late_s >= limits.REPORTS_STUCK_S:
                return f"reports of {processor} were not reconciled for {late_s / 3_600:.0f} h; the log says why"
        return None

    def run(self, stop: threading.Event) -> None:
        """Fetches whatever is due, until ``stop``; absent servers are waited out."""
        first_s, most_s = limits.CASE_SWEEP_RETRY_S, limits.REPORTS_RETRY_MAX_S
        repeat(stop, self._round, self._failed, first_s=first_s, most_s=most_s)

    def _round(self) -> float:
        """Not until tomorrow at once: another process may leave its day undone meanwhile, and clocks are set."""
        return min([limits.REPORTS_RETRY_MAX_S, *(self.look(processor) for processor in self._hours)])

    def _failed(self, error: psycopg.Error, reason: str) -> None:
        self._metrics.errors.inc()
        _log.warning("daily_reports_wait", kind=type(error).__name__, reason=reason)

    def look(self, processor: str) -> float:
        """Fetches what is due of one processor; in how many seconds it is to be looked at again. Raises as psycopg."""
        with connected(self._settings.postgres_dsn, self._name, limits.REPORTS_STATEMENT_TIMEOUT_MS) as connection:
            look, now, tried_at = self._found(connection, processor)
            if not look.due:
                self._is_good(look)
                return (days.begins(look.done + days.A_DAY, look.hour) - now).total_seconds()
            if not _value(connection, "reports_turn", lock=_LOCK, name=look.name):
                return limits.REPORTS_RETRY_S
            look, now, tried_at = self._found(connection, processor)  # as the one left it who had the turn before
            waited_s = (now - tried_at).total_seconds() if tried_at else days.pause_s(look.tries)
            if not look.due or 0 <= waited_s < days.pause_s(look.tries):
                return 0 if not look.due else days.pause_s(look.tries) - waited_s
            self._on_step("begun")
            why_not = self._reconcile(look)
            self._on_step("fetched")
            is_over = self._conclude(connection, look, why_not)
            self._on_step("done")
            return 0 if is_over else days.pause_s(look.tries + 1)

    def _found(self, connection: psycopg.Connection, processor: str) -> tuple[_Look, datetime, datetime | None]:
        name, hour = f"reports:{processor}", self._hours[processor]
        last = connection.execute(_SQL["reports_last"].encode(), {"name": name}).fetchone()
        if last is None:
            yesterday = days.last_due(_value(connection, "reports_now"), hour) - days.A_DAY
            _value(connection, "reports_begin", name=name, day=yesterday)
            return self._found(connection, processor)
        done, tries, tried_at, now = last
        due = days.due(done, now, hour)
        return _Look(processor=processor, hour=hour, done=done, due=due, tries=tries), now, tried_at

    def _is_good(self, look: _Look) -> None:
        self._metrics.done_day.labels(look.processor).set(days.begins(look.done, look.hour).timestamp())
        self._good_at[look.processor] = self._clock()

    def _reconcile(self, look: _Look) -> str | None:
        """None when all that the processor lists is taken in and told; else why not."""
        url = self._settings.processors[look.processor]
        try:
            report = reconcile(replace(self._settings, processors={look.processor: url}), [])
        except (PlatformError, OSError) as error:
            return str(error)
        except (psycopg.Error, KafkaException, ValueError, KeyError) as error:
            # What nobody foresaw about a report is a case by its deadline, and not the end of the loop.
            _log.exception("reports_not_reconciled", processor=look.processor)
            return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        if report.unavailable:
            return report.unavailable[0]
        return f"{report.posted.undecided} lines wait for their owner" if report.posted.undecided else None

    def _made(self, connection: psycopg.Connection, look: _Look) -> list[datetime]:
        """When each report that the processor lists was made, or came; none while it does not answer."""
        try:
            listed = listed_reports(self._settings.processors[look.processor])
        except PlatformError:
            return []
        silent = [report.report_id for report in listed if report.created_at is None]
        asked = {"processor": look.processor, "ids": silent}
        came = [at for _, at in connection.execute(_SQL["reports_taken"].encode(), asked)]
        return [report.created_at for report in listed if report.created_at is not None] + came

    def _conclude(self, connection: psycopg.Connection, look: _Look, why_not: str | None) -> bool:
        """Ends the days that are over, with their cases; whether nothing is due any more."""
        made = self._made(connection, look)
        now: datetime = _value(connection, "reports_now")
        over, missing = [], []
        is_given_up = look.tries + 1 >= limits.REPORTS_TRIES_MIN and now >= days.deadline(look.due[-1], look.hour)
        for day in look.due if why_not is None or is_given_up else []:
            is_there = days.has_report(day, look.hour, made) or not self._is_expected(connection, look, day)
            if not is_there and now < days.deadline(day, look.hour):
                break
            over.append(day)
            missing += [] if is_there else [day]
        is_over = over == look.due
        reason = why_not or ("" if is_over else "the report is not there yet")
        with connection.transaction():
            if over and not self._end(connection, look, over, missing, reason):
                return True  # by another process, meanwhile
            if not is_over:
                before = over[-1] if over else look.done
                _value(connection, "reports_tried", name=look.name, before=before, note=reason)
        self._metrics.missing.inc(len(missing))
        if not is_over:
            self._metrics.errors.inc()
            _log.warning("reports_not_there", processor=look.processor, day=str(look.due[-1]), reason=reason)
        return is_over

    def _is_expected(self, connection: psycopg.Connection, look: _Look, day: date) -> bool:
        before = days.begins(day, look.hour)
        return bool(_value(connection, "reports_expected", processor=look.processor, before=before))

    def _end(
        self, connection: psycopg.Connection, look: _Look, over: list[date], missing: list[date], reason: str
    ) -> bool:
        """In the transaction around it: the days are over, and each missing report has its case."""
        details = {"process": self._name, "days": [str(day) for day in over], "missing": [str(day) for day in missing]}
        done = {"name": look.name, "before": look.done, "day": over[-1], "details": Jsonb(details)}
        if not _value(connection, "reports_done", **done):
            return False
        self._on_step("ended")
        for day in missing:
            evidence = {
                "day": str(day),
                "deadline": days.deadline(day, look.hour).isoformat(),
                "tries": look.tries + 1,
                "reason": reason or "no report of this day was made",
            }
            case = {"reference": f"{look.processor}:{day}", "processor": look.processor, "evidence": Jsonb(evidence)}
            connection.execute(_SQL["report_missing_open"].encode(), case)
        return True


def _value(connection: psycopg.Connection, statement: str, /, **parameters: object) -> Any:
    row = connection.execute(_SQL[statement].encode(), parameters).fetchone()
    return row[0] if row else None
