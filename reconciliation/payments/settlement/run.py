"""``millrace reconcile``: takes in what is new, tells the owners, and says what is still not explained.

Every step is a transaction or a command with an identity: a kill between any two, and a second run, end in the same
state. Two runs at once go one after the other: a lock in the database is held for the whole run.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psycopg
from msgspec import Struct, field

from reconciliation.payments.repair.lists import aged_cases_open
from reconciliation.payments.settlement.file_result import Discrepancy, FileResult, discrepancy_of, open_about
from reconciliation.payments.settlement.ingest import early_lines_wait, take_in_waiting
from reconciliation.payments.settlement.intake import Intake
from reconciliation.payments.settlement.posting import (
    Posted,
    Teller,
    book_late_fees,
    post_due,
    refused_tell_anew,
    tell_outcomes,
)
from reconciliation.payments.settlement.sources import GivenFile
from reconciliation.payments.settlement.store import execute, found_table, keep_found, missing_find
from schemas.errors import Unavailable
from schemas.payments import limits as payments_limits
from sinks import limits as sinks_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sinks.kafka.connection import KafkaConnection

_LOCK: Final = 0x73746C6D  # "stlm"


class ReconcileSettings(Struct, frozen=True, kw_only=True):
    """Where everything is. ``postgres_dsn`` is of the operator's role; ``processors`` are names and addresses."""

    postgres_dsn: str
    kafka: KafkaConnection
    processors: dict[str, str]
    decision_wait_s: float = payments_limits.SETTLEMENT_DECISION_WAIT_S

    def __repr__(self) -> str:
        return f"ReconcileSettings({sorted(self.processors)!r})"


class ReconcileReport(Struct, kw_only=True):
    """What is so after a run; what the run itself did stands in ``run``."""

    files: list[FileResult]  # those that were given, in their order
    matched: int
    discrepancies: list[Discrepancy]
    unmatched_older_than_horizon: int
    new_lines: int = 0
    posted: Posted = field(default_factory=Posted)
    unavailable: list[str] = field(default_factory=list)


def reconcile(
    settings: ReconcileSettings,
    files: list[GivenFile],
    *,
    on_step: Callable[[str], None] = lambda _: None,
    on_lines: Callable[[int], None] = lambda _: None,
) -> ReconcileReport:
    """Takes in every new report and file and answers with all open discrepancies. Raises errors.Unavailable."""
    try:
        with _locked(settings.postgres_dsn) as connection:
            return _Run(settings, connection, on_step, on_lines).run(files)
    except psycopg.errors.LockNotAvailable as error:
        raise Unavailable("another 'millrace reconcile' is at work; run it again when that is done") from error
    except psycopg.OperationalError as error:
        raise Unavailable(f"Postgres cannot be reached: {str(error).strip().partition(chr(10))[0]}") from error


@contextmanager
def _locked(dsn: str) -> Iterator[psycopg.Connection]:
    """A session that holds the lock of reconciliation; it ends with the session, however that ends."""
    with psycopg.connect(
        dsn,
        autocommit=True,
        connect_timeout=sinks_limits.POSTGRES_CONNECT_TIMEOUT_S,
        application_name="millrace-reconcile",
    ) as connection:
        connection.execute(f"set lock_timeout = '{payments_limits.SETTLEMENT_LOCK_WAIT_S}s'")
        connection.execute(f"set statement_timeout = '{payments_limits.SETTLEMENT_STATEMENT_TIMEOUT_S}s'")
        connection.execute(f"set work_mem = '{payments_limits.SETTLEMENT_WORK_MEM_MB}MB'")
        connection.execute("select pg_advisory_lock(%s)", (_LOCK,))
        yield connection


class _Run:
    """One run under way."""

    def __init__(
        self,
        settings: ReconcileSettings,
        connection: psycopg.Connection,
        on_step: Callable[[str], None],
        on_lines: Callable[[int], None],
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._on_step = on_step
        self._intake = Intake(connection, on_step, on_lines)
        self._teller = Teller(connection, settings.kafka, settings.decision_wait_s)
        self._unavailable: list[str] = []

    def run(self, files: list[GivenFile]) -> ReconcileReport:
        """All steps in order; see the module."""
        # 1. What processors report, and what somebody gives.
        with tempfile.TemporaryDirectory(prefix="millrace-reconcile-") as folder:
            for processor, url in self._settings.processors.items():
                try:
                    self._intake.fetch(processor, url, Path(folder) / "report")
                except Unavailable as error:
                    self._unavailable.append(f"{processor}: {error.public}")
        for given in files:
            self._intake.take_file(given)
        # 2. Lines of attempts that are open here: the line is the fact's door, and then it is a line like any other.
        if tell_outcomes(self._connection, self._teller):
            self._on_step("outcomes told")
        early_lines_wait(self._connection)
        for processor, report_id in execute(self._connection, "reports_waiting").fetchall():
            take_in_waiting(self._connection, processor, report_id)
        self._on_step("waiting lines judged")
        # 3. What should have been reported by now.
        self._find_missing()
        # 4. Effects, through the owners alone.
        refused_tell_anew(self._connection)
        posted = post_due(self._connection, self._teller, lambda n: self._on_step(f"{n} lines posted"))
        posted.decided += book_late_fees(self._connection, self._teller)
        self._on_step("posted")
        # 5. What waits in suspense or on its way for too long is a person's.
        aged_cases_open(self._connection)
        return self._report(posted)

    def _find_missing(self) -> None:
        for (processor,) in execute(self._connection, "reporting_processors").fetchall():
            with found_table(self._connection):
                missing_find(self._connection, processor)
                keep_found(self._connection, processor, "", [])
        self._on_step("missing found")

    def _report(self, posted: Posted) -> ReconcileReport:
        connection = self._connection
        rows = execute(connection, "summary_discrepancies").fetchall()
        for file in self._intake.files:
            file.discrepancies = open_about(connection, file.reports)
        return ReconcileReport(
            files=self._intake.files,
            matched=_number(execute(connection, "summary_matched")),
            discrepancies=[discrepancy_of(row) for row in rows],
            unmatched_older_than_horizon=_number(
                execute(connection, "summary_overdue", horizon_days=payments_limits.SETTLEMENT_HORIZON_DAYS)
            ),
            new_lines=self._intake.new_lines,
            posted=posted,
            unavailable=self._unavailable,
        )


def _number(cursor: psycopg.Cursor) -> int:
    row = cursor.fetchone()
    return int(row[0]) if row else 0
