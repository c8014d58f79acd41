"""Takes one report in: staged, matched, judged and kept in one transaction, so that a kill leaves all of it or nothing.

Lines that any report brought before change nothing. Nothing is posted here: what owners have to be told is marked due.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from reconciliation.payments.settlement.announced_payouts import announce_payouts
from reconciliation.payments.settlement.contracts import contracts_of, plain_bps, priced
from reconciliation.payments.settlement.judging import judge_report
from reconciliation.payments.settlement.line import Defect, UnreadableReport
from reconciliation.payments.settlement.report_defects import changed_found, defect_found, is_cut_off, readable
from reconciliation.payments.settlement.several_captures import match_sums
from reconciliation.payments.settlement.stage import stage_lines
from reconciliation.payments.settlement.store import Found, execute, found_table, keep_found, resolve_cases
from schemas.payments import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import psycopg

    from reconciliation.payments.settlement.line import Line, PlainRow


class ReportFile(Struct, frozen=True, kw_only=True):
    """One report to be taken in. ``is_complete_history``: fetched, like every report of that processor before it."""

    processor: str
    report_id: str
    sha256: bytes
    format: str
    is_complete_history: bool


class Taken(Struct, kw_only=True):
    """What came of it: lines that were new, and those of them that were matched."""

    lines: int
    matched: int
    state: Literal["taken_in", "truncated", "rejected"] = "taken_in"
    reason: str | None = None  # why not all of it was taken in


def take_in(
    connection: psycopg.Connection,
    report: ReportFile,
    lines: Iterable[Line | PlainRow | Defect],
    on_lines: Callable[[int], None] = lambda _: None,
) -> Taken:
    """The report with all its findings is kept, once. A report that cannot be read is kept as rejected."""
    try:
        with found_table(connection):
            return _take_in(connection, report, lines, on_lines)
    except UnreadableReport as problem:
        with found_table(connection):
            return _reject(connection, report, str(problem))


def rejected_before_resolve(connection: psycopg.Connection, subjects: list[str]) -> None:
    """A file that could not be read, as another format or by an earlier version, is taken in now."""
    with connection.transaction():
        resolve_cases(connection, execute(connection, "resolve_rejected", subjects=subjects))


def early_lines_wait(connection: psycopg.Connection) -> None:
    """Lines of disputes and of money that we did not know of wait to be judged again, once we do."""
    with connection.transaction():
        resolve_cases(connection, execute(connection, "early_lines_wait"))


def take_in_waiting(connection: psycopg.Connection, processor: str, report_id: str) -> Taken:
    """The lines of a report that waited for their attempt, or for their dispute, are judged again."""
    with found_table(connection):
        execute(connection, "stage_waiting", processor=processor, report_id=report_id)
        found = _match(connection, processor, report_id, {})
        report = ReportFile(processor=processor, report_id=report_id, sha256=b"", format="", is_complete_history=False)
        _keep_report(connection, report, found, counts_lines=False)
        return found.taken


class _Matched(Struct, frozen=True, kw_only=True):
    """What matching counted, and between which captures."""

    taken: Taken
    oldest_at: Any
    youngest_at: Any


def _take_in(
    connection: psycopg.Connection,
    report: ReportFile,
    lines: Iterable[Line | PlainRow | Defect],
    on_lines: Callable[[int], None],
) -> Taken:
    processor, report_id = report.processor, report.report_id
    # 1. Its lines, as they are read.
    defects: list[Defect] = []
    contracts = contracts_of(connection, processor)
    if plain_bps(contracts) is None:
        lines = priced(contracts, lines)
    stage_lines(connection, readable(lines, defects), on_lines)
    execute(connection, "stage_earlier_names", processor=processor)
    execute(connection, "stage_number_repeats")
    connection.execute("analyze settlement_stage")
    # 2. What its payouts say, before the lines that are known already leave.
    batches = {(row[0], row[1]): (row[2], row[3]) for row in execute(connection, "batches_paid_out")}
    execute(connection, "stage_known_payouts", processor=processor)
    found = [defect_found(report_id, defect) for defect in defects]
    found += [changed_found(row) for row in execute(connection, "changed_lines", processor=processor)]
    execute(connection, "changes_keep", processor=processor, report_id=report_id)
    execute(connection, "stage_forget_known", processor=processor)
    # 3. What each line tells of, and whether it says what it should.
    matched = _match(connection, processor, report_id, batches)
    # 4. The report itself.
    keep_found(connection, processor, report_id, found)
    for gone in ("unreadable_report", *(() if is_cut_off(defects) else ("truncated_report",))):
        resolve_cases(
            connection, execute(connection, "resolve_about", found_class=gone, processor=processor, subject=report_id)
        )
    unread = [defect_found(report_id, defect).subject for defect in defects]
    resolve_cases(
        connection, execute(connection, "resolve_read", processor=processor, report_id=report_id, unread=unread)
    )
    if is_cut_off(defects):
        matched.taken.state, matched.taken.reason = "truncated", defects[-1].reason
    _keep_report(connection, report, matched)
    return matched.taken


def _match(
    connection: psycopg.Connection, processor: str, report_id: str, batches: dict[tuple[str, str], tuple[int, int]]
) -> _Matched:
    names = {"processor": processor, "fee_bps": plain_bps(contracts_of(connection, processor))}
    plain, *plain_span = _row(
        execute(connection, "candidates_sort", report_id=report_id, list_lines=limits.SETTLEMENT_COPY_LINES, **names)
    )
    connection.execute("analyze settlement_candidate")
    several = 0
    if _row(execute(connection, "loose_count"))[0]:
        execute(connection, "loose_by_provider_ref", **names)
        execute(connection, "loose_by_reference", **names)
        several = match_sums(connection, processor, report_id)
    execute(connection, "disputes_match", processor=processor)
    others, *others_span = _row(execute(connection, "candidates_span"))
    payouts = announce_payouts(connection, processor, report_id, batches)
    execute(connection, "payouts_match", processor=processor)
    judged = judge_report(connection, processor, report_id)
    resolve_cases(connection, execute(connection, "missing_arrived", processor=processor))
    reached = [at for at in (*plain_span, *others_span) if at is not None]
    return _Matched(
        taken=Taken(lines=plain + others + several, matched=plain + payouts + judged + several),
        oldest_at=min(reached, default=None),
        youngest_at=max(reached, default=None),
    )


def _reject(connection: psycopg.Connection, report: ReportFile, reason: str) -> Taken:
    found = Found(
        subject=report.report_id,
        found_class="unreadable_report",
        reference=report.report_id,
        amount=0,
        detail=reason,
    )
    keep_found(connection, report.processor, report.report_id, [found])
    taken = Taken(lines=0, matched=0, state="rejected", reason=reason)
    nothing = _Matched(taken=taken, oldest_at=None, youngest_at=None)
    _keep_report(connection, report, nothing)
    return nothing.taken


def _keep_report(
    connection: psycopg.Connection,
    report: ReportFile,
    matched: _Matched,
    *,
    counts_lines: bool = True,
) -> None:
    execute(
        connection,
        "report_keep" if counts_lines else "report_recount",
        processor=report.processor,
        report_id=report.report_id,
        sha256=report.sha256,
        format=report.format,
        state=matched.taken.state,
        note=matched.taken.reason,
        is_complete_history=report.is_complete_history,
        lines=matched.taken.lines,
        matched=matched.taken.matched,
        oldest_at=matched.oldest_at,
        youngest_at=matched.youngest_at,
    )


def _row(aggregate: psycopg.Cursor) -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = aggregate.fetchone()
    assert row is not None  # noqa: S101 - an aggregate always has its row
    return row
