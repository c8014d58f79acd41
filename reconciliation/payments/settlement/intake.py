"""The reports of one run: fetched from processors or given as files, and taken in unless they are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciliation.payments.settlement.bank.statement import take_in_statements
from reconciliation.payments.settlement.contracts import contracts_of, plain_bps
from reconciliation.payments.settlement.file_result import FileResult, state_of
from reconciliation.payments.settlement.ingest import ReportFile, Taken, rejected_before_resolve, take_in
from reconciliation.payments.settlement.reports import simulator
from reconciliation.payments.settlement.sources import (
    READERS,
    GivenFile,
    download,
    fetched_file,
    given_file,
    listed_reports,
)
from reconciliation.payments.settlement.store import execute
from schemas.payments import limits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import psycopg


class Intake:
    """What was taken in so far."""

    def __init__(
        self, connection: psycopg.Connection, on_step: Callable[[str], None], on_lines: Callable[[int], None]
    ) -> None:
        self._connection = connection
        self._on_step = on_step
        self._on_lines = on_lines
        self.new_lines = 0
        self.files: list[FileResult] = []  # of those that were given, in their order

    def fetch(self, processor: str, url: str, path: Path) -> None:
        """Every report of a processor that is new, or changed. Raises Unavailable."""

        def waits(reason: str) -> None:
            self._on_step(f"{processor} cannot be reached ({reason}): asking again")

        for report_id in [listed.report_id for listed in listed_reports(url, waits)]:
            known = self._known(processor, report_id)
            if known is not None and known[0] == "taken_in":
                continue
            self._on_step(f"fetching {report_id} of {processor}")
            download(url, report_id, path, waits)
            report = fetched_file(processor, report_id, path)
            if known is None or known[1] != report.sha256:
                self._take_report(report, path)

    def take_file(self, given: GivenFile) -> None:
        """A file that somebody gives; what came of it stands in ``files``."""
        self._on_step(f"reading {given.path.name}")
        report = given_file(given)
        if given.format == "camt053":
            result = self._take_statements(given, report)
        elif self._is_known(report):
            result = FileResult(name=given.path.name, format=given.format, state="known")
            result.reports.append((report.processor, report.report_id))
        else:
            taken = self._take_report(report, given.path)
            result = FileResult(
                name=given.path.name,
                format=given.format,
                state=taken.state,
                new_lines=taken.lines,
                matched=taken.matched,
                reasons=[taken.reason] if taken.reason else [],
                reports=[(report.processor, report.report_id)],
            )
        if result.state != "rejected":
            rejected_before_resolve(self._connection, [report.report_id, given.path.name])
        self.files.append(result)
        self._on_step(f"took in {given.path.name}")

    def _take_statements(self, given: GivenFile, report: ReportFile) -> FileResult:
        name = given.path.name[: limits.SETTLEMENT_NAME_LENGTH_MAX]
        taken = take_in_statements(
            self._connection, (name, report.sha256), lambda: given.path.open("rb"), self._on_lines
        )
        self.new_lines += taken.lines
        return FileResult(
            name=given.path.name,
            format=given.format,
            state=state_of([state for _, _, state, _ in taken.reports]),
            new_lines=taken.lines,
            matched=taken.matched,
            reasons=[note for _, _, state, note in taken.reports if state == "rejected" and note],
            reports=[(processor, report_id) for processor, report_id, _, _ in taken.reports],
        )

    def _take_report(self, report: ReportFile, path: Path) -> Taken:
        read = READERS[report.format]
        if report.format == "simulator" and plain_bps(contracts_of(self._connection, report.processor)) is None:
            read = simulator.read_lines  # the fee depends on the line: none of them is plain
        with path.open("rb") as stream:
            taken = take_in(self._connection, report, read(stream), self._on_lines)
        self.new_lines += taken.lines
        self._on_step(f"took in {report.report_id}")
        return taken

    def _known(self, processor: str, report_id: str) -> tuple[str, bytes, str] | None:
        row = execute(self._connection, "report_known", processor=processor, report_id=report_id).fetchone()
        return None if row is None else (row[0], bytes(row[1]), row[2])

    def _is_known(self, report: ReportFile) -> bool:
        """Whether all of a given file was taken in. One with lines that could not be read is read again."""
        names = {"processor": report.processor, "report_id": report.report_id}
        is_taken_in = self._known(**names) == ("taken_in", report.sha256, report.format)
        return is_taken_in and execute(self._connection, "unreadable_lines", **names).fetchone() is None
