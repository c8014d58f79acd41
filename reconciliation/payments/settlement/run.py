"""``millrace reconcile``: takes in what is new, tells the owners, and says what is still not explained.

Every step is a transaction or a command with an identity: a kill between any two, and a second run, end in the same
state. Two runs at once go one after the other: a lock in the database is held for the whole run.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg
from msgspec import Struct, field

from reconciliation.payments.repair.lists import aged_cases_open
from reconciliation.payments.settlement.bank import take_in_statements
from reconciliation.payments.settlement.ingest import ReportFile, early_disputes_wait, take_in, take_in_waiting
from reconciliation.payments.settlement.posting import Posted, Teller, book_late_fees, post_due, tell_outcomes
from reconciliation.payments.settlement.sources import (
    READERS,
    GivenFile,
    download,
    fetched_file,
    given_file,
    listed_reports,
)
from reconciliation.payments.settlement.store import execute, found_table, keep_found, missing_find
from schemas import limits
from schemas.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sinks.kafka.connection import KafkaConnection

_LOCK: Final = 0x73746C6D  # "stlm"


class ReconcileSettings(Struct, frozen=True, kw_only=True):
    """Where everything is. ``postgres_dsn`` is of the operator's role; ``processors`` are names and addresses."""

    postgres_dsn: str
    kafka: KafkaConnection
    processors: dict[str, str]
    decision_wait_s: float = limits.SETTLEMENT_DECISION_WAIT_S


class Discrepancy(Struct, frozen=True, kw_only=True):
    """Something that is not explained. ``reference`` is the payment when it is known, else what the line says."""

    found_class: str = field(name="class")
    reference: str
    amount: int
    currency: str | None
    processor: str
    subject: str
    detail: str | None
    case_id: str | None
    first_seen: str


class ReconcileReport(Struct, kw_only=True):
    """What is so after a run; what the run itself did stands in ``run``."""

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
        dsn, autocommit=True, connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S, application_name="millrace-reconcile"
    ) as connection:
        connection.execute(f"set lock_timeout = '{limits.SETTLEMENT_LOCK_WAIT_S}s'")
        connection.execute(f"set statement_timeout = '{limits.SETTLEMENT_STATEMENT_TIMEOUT_S}s'")
        connection.execute(f"set work_mem = '{limits.SETTLEMENT_WORK_MEM_MB}MB'")
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
        self._on_lines = on_lines
        self._teller = Teller(connection, settings.kafka, settings.decision_wait_s)
        self._new_lines = 0
        self._unavailable: list[str] = []

    def run(self, files: list[GivenFile]) -> ReconcileReport:
        """All steps in order; see the module."""
        # 1. What processors report, and what somebody gives.
        with tempfile.TemporaryDirectory(prefix="millrace-reconcile-") as folder:
            for processor, url in self._settings.processors.items():
                try:
                    self._fetch(processor, url, Path(folder) / "report")
                except Unavailable as error:
                    self._unavailable.append(f"{processor}: {error.public}")
        for given in files:
            self._take_file(given)
        # 2. Lines of attempts that are open here: the line is the fact's door, and then it is a line like any other.
        if tell_outcomes(self._connection, self._teller):
            self._on_step("outcomes told")
        early_disputes_wait(self._connection)
        for processor, report_id in execute(self._connection, "reports_waiting").fetchall():
            take_in_waiting(self._connection, processor, report_id)
        self._on_step("waiting lines judged")
        # 3. What should have been reported by now.
        self._find_missing()
        # 4. Effects, through the owners alone.
        posted = post_due(self._connection, self._teller, lambda n: self._on_step(f"{n} lines posted"))
        posted.decided += book_late_fees(self._connection, self._teller)
        self._on_step("posted")
        # 5. What waits in suspense or on its way for too long is a person's.
        aged_cases_open(self._connection)
        return self._report(posted)

    def _fetch(self, processor: str, url: str, path: Path) -> None:
        for report_id in listed_reports(url):
            known = self._known(processor, report_id)
            if known is not None and known[0] == "taken_in":
                continue
            self._on_step(f"fetching {report_id} of {processor}")
            download(url, report_id, path)
            report = fetched_file(processor, report_id, path)
            if known is None or known[1] != report.sha256:
                self._take_report(report, path)

    def _take_file(self, given: GivenFile) -> None:
        self._on_step(f"reading {given.path.name}")
        report = given_file(given)
        if given.format == "camt053":
            name = given.path.name[: limits.SETTLEMENT_NAME_LENGTH_MAX]
            taken = take_in_statements(
                self._connection, (name, report.sha256), lambda: given.path.open("rb"), self._on_lines
            )
            self._new_lines += taken.lines
        elif self._known(report.processor, report.report_id) is None:
            self._take_report(report, given.path)
        self._on_step(f"took in {given.path.name}")

    def _take_report(self, report: ReportFile, path: Path) -> None:
        with path.open("rb") as stream:
            taken = take_in(self._connection, report, READERS[report.format](stream), self._on_lines)
        self._new_lines += taken.lines
        self._on_step(f"took in {report.report_id}")

    def _known(self, processor: str, report_id: str) -> tuple[str, bytes] | None:
        row = execute(self._connection, "report_known", processor=processor, report_id=report_id).fetchone()
        return None if row is None else (row[0], bytes(row[1]))

    def _find_missing(self) -> None:
        for (processor,) in execute(self._connection, "reporting_processors").fetchall():
            with found_table(self._connection):
                missing_find(self._connection, processor)
                keep_found(self._connection, processor, "", [])
        self._on_step("missing found")

    def _report(self, posted: Posted) -> ReconcileReport:
        connection = self._connection
        rows = execute(connection, "summary_discrepancies").fetchall()
        return ReconcileReport(
            matched=_number(execute(connection, "summary_matched")),
            discrepancies=[_discrepancy(row) for row in rows],
            unmatched_older_than_horizon=_number(
                execute(connection, "summary_overdue", horizon_days=limits.SETTLEMENT_HORIZON_DAYS)
            ),
            new_lines=self._new_lines,
            posted=posted,
            unavailable=self._unavailable,
        )


def _discrepancy(row: tuple[Any, ...]) -> Discrepancy:
    found_class, reference, amount, currency, processor, subject, detail, case_id, first_seen = row
    return Discrepancy(
        found_class=found_class,
        reference=reference,
        amount=amount,
        currency=currency,
        processor=processor,
        subject=subject,
        detail=detail,
        case_id=case_id,
        first_seen=first_seen.isoformat(),
    )


def _number(cursor: psycopg.Cursor) -> int:
    row = cursor.fetchone()
    return int(row[0]) if row else 0
